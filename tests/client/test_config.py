# SPDX-License-Identifier: Apache-2.0
"""`ingot.config`: one table of settings, and three ways to set each."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import Any, get_type_hints

import pytest

import ingot
from ingot.runtime.native import native_runtime
from ingot.support import flags


@pytest.fixture(autouse=True)
def restored() -> Generator[None]:
    threads = native_runtime().num_threads
    yield
    ingot.config.reset()
    native_runtime().set_num_threads(threads)


def test_settings_are_the_flags() -> None:
    assert list(get_type_hints(ingot.Settings)) == [flag.name for flag in flags.ALL_FLAGS]
    assert ingot.config.as_dict() == {flag.name: flag.value() for flag in flags.ALL_FLAGS}
    assert set(ingot.config.as_dict()) <= set(dir(ingot.config))


def test_a_block_wins_over_the_process_and_that_over_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("INGOT_FP", "fast")
    assert ingot.config.fp == "fast"
    ingot.config.update(fp="exact")
    assert ingot.config.fp == "exact"
    with ingot.config(fp="default", debug=0):
        assert ingot.config.fp == "default"
    assert ingot.config.fp == "exact"
    ingot.config.reset()
    assert ingot.config.fp == "fast"


def test_a_block_is_of_one_thread_and_an_update_of_all() -> None:
    seen: list[tuple[Any, Any]] = []

    def look() -> None:
        seen.append((ingot.config.fp, ingot.config.cache_mb))

    ingot.config.update(cache_mb=7)
    with ingot.config(fp="exact"):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen == [(flags.FP.value(), 7)]


def test_settings_take_values_of_python() -> None:
    with ingot.config(cache=False, pass_fuel=None, strict=True):
        assert (ingot.config.cache, ingot.config.pass_fuel, ingot.config.strict) == (
            False,
            None,
            True,
        )
    with ingot.config(pass_fuel=3):
        assert ingot.config.pass_fuel == 3


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"fp": "quick"}, "it takes exact, default or fast"),
        ({"cache": "yes"}, "it takes 0 or 1"),
        ({"debug": 9}, "debug=9"),
        ({"num_thread": 1}, "did you mean 'num_threads'"),
    ],
)
def test_wrong_settings_are_refused_and_change_nothing(settings: Any, words: str) -> None:
    before = ingot.config.as_dict()
    for call in (ingot.config, ingot.config.update):
        with pytest.raises(ingot.FlagError, match=words):
            call(**settings)
    assert ingot.config.as_dict() == before


def test_what_the_runtime_holds_is_set_for_the_process() -> None:
    ingot.config.update(num_threads=3)
    assert native_runtime().num_threads == 3
    with pytest.raises(ingot.FlagError, match=r"whole process[\s\S]*threads=\.\.\."):
        ingot.config(num_threads=1)
    ingot.config.update(fp="exact")
    assert native_runtime().num_threads == 3


def test_unknown_names_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match="no setting 'colour'"):
        _ = ingot.config.colour
    assert "fp='default'" in repr(ingot.config)
