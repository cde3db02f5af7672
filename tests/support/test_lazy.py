# SPDX-License-Identifier: Apache-2.0
"""Names and functions that are imported when they are used."""

from __future__ import annotations

import sys

import pytest

from ingot.support.lazy import function_at_home, names_at_home, value_at_home


def test_a_function_at_home_is_imported_by_its_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    gray = function_at_home("colorsys", "rgb_to_yiq")
    assert "colorsys" not in sys.modules
    assert gray(0.0, 0.0, b=0.0) == (0.0, 0.0, 0.0)
    assert "colorsys" in sys.modules


def test_a_name_that_no_module_defines_is_an_attribute_error() -> None:
    find = names_at_home("json", {"JSONDecoder": ".decoder"})
    assert find("JSONDecoder") is sys.modules["json"].JSONDecoder
    with pytest.raises(AttributeError, match="module 'json' has no attribute 'absent'"):
        find("absent")


def test_a_value_at_home_is_imported_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    third = value_at_home("colorsys", "ONE_THIRD")
    assert "colorsys" not in sys.modules
    assert third() == 1 / 3
