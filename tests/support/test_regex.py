# SPDX-License-Identifier: Apache-2.0
"""Patterns that are compiled when they are first used do what those of `re` do."""

from __future__ import annotations

import re

import pytest

from ingot.support.regex import regex

_TEXTS = ["", "a", "ab12 cd34", "CD\n56", "é7"]
_CASES = [(r"([a-z]+)(\d*)", 0), (r"[a-z]+.", re.DOTALL | re.IGNORECASE), (r"^$", re.MULTILINE)]


@pytest.mark.parametrize(("text", "flags"), _CASES)
@pytest.mark.parametrize("given", _TEXTS)
def test_it_finds_what_the_pattern_finds(text: str, flags: int, given: str) -> None:
    found, wanted = regex(text, flags), re.compile(text, flags)
    assert found.pattern == wanted.pattern
    for method in ("match", "fullmatch", "search"):
        made, expected = getattr(found, method)(given), getattr(wanted, method)(given)
        assert (made and made.span()) == (expected and expected.span())
    assert found.findall(given) == wanted.findall(given)
    assert found.sub("-", given) == wanted.sub("-", given)
    assert found.split(given) == wanted.split(given)
    assert [each.span() for each in found.finditer(given)] == [
        each.span() for each in wanted.finditer(given)
    ]


def test_bytes_have_patterns() -> None:
    assert regex(rb"\d+").sub(b"#", b"a12b3") == b"a#b#"


def test_a_wrong_pattern_is_an_error_when_it_is_used() -> None:
    wrong = regex("(")
    with pytest.raises(re.error):
        wrong.match("x")


def test_nothing_is_compiled_before_the_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    original = re.compile

    def counting(text: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(text)
        return original(text, flags)

    monkeypatch.setattr(re, "compile", counting)
    found = regex("a+")
    assert compiled == []
    assert found.match("aa")
    assert found.search("ba")
    assert compiled == ["a+"]
