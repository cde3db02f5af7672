# SPDX-License-Identifier: Apache-2.0
"""The flag registry: values, checks, overrides, and warnings about misspelt variables."""

import threading

import pytest

from ingot.support import flags
from ingot.support.diagnostics import FlagError


@pytest.mark.parametrize("flag", flags.ALL_FLAGS, ids=lambda flag: flag.name)
def test_every_flag_has_a_default_a_doc_and_a_variable(flag, monkeypatch):
    monkeypatch.delenv(flag.variable, raising=False)
    assert flag.value() == flag.default
    assert flag.variable == "INGOT_" + flag.name.upper()
    assert flag.doc.endswith(".")
    assert flag.variable in flags.markdown()


def test_registry_holds_every_flag_once():
    declared = [value for value in vars(flags).values() if isinstance(value, flags.Flag)]
    assert declared == list(flags.ALL_FLAGS)
    assert len({flag.name for flag in declared}) == len(declared)


@pytest.mark.parametrize(
    ("flag", "text", "value"),
    [
        (flags.DEBUG, "3", 3),
        (flags.NUM_THREADS, "2", 2),
        (flags.CPU_LEVEL, "avx2", "avx2"),
        (flags.CACHE_DIR, "/c", "/c"),
        (flags.CACHE, "0", False),
        (flags.PASS_FUEL, "0", 0),
        (flags.DUMP_TO, "-", "-"),
    ],
)
def test_environment_is_read_at_each_call(monkeypatch, flag, text, value):
    monkeypatch.setenv(flag.variable, text)
    assert flag.value() == value
    monkeypatch.delenv(flag.variable)
    assert flag.value() == flag.default


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        (flags.DEBUG, "6"),
        (flags.DEBUG, "much"),
        (flags.NUM_THREADS, "-1"),
        (flags.CPU_LEVEL, "sse9"),
        (flags.FP, ""),
        (flags.CACHE, "yes"),
        (flags.CACHE_DIR, ""),
        (flags.PASS_FUEL, "-1"),
    ],
)
def test_wrong_value_names_variable_and_what_it_takes(monkeypatch, flag, text):
    monkeypatch.setenv(flag.variable, text)
    with pytest.raises(FlagError) as caught:
        flag.value()
    assert flag.variable in str(caught.value)
    assert flag.values in caught.value.diagnostic.hint


def test_override_wins_over_environment_nests_and_ends(monkeypatch):
    monkeypatch.setenv("INGOT_NUM_THREADS", "4")
    with flags.override(flags.NUM_THREADS, 1):
        with flags.override(flags.DEBUG, 2):
            assert (flags.NUM_THREADS.value(), flags.DEBUG.value()) == (1, 2)
        assert (flags.NUM_THREADS.value(), flags.DEBUG.value()) == (1, 0)
    assert flags.NUM_THREADS.value() == 4


def test_override_stays_in_its_thread():
    seen = []
    with flags.override(flags.DEBUG, 5):
        thread = threading.Thread(target=lambda: seen.append(flags.DEBUG.value()))
        thread.start()
        thread.join()
    assert seen == [0]


def test_unknown_variable_warns_with_the_nearest(monkeypatch):
    monkeypatch.setenv("INGOT_NUM_THREAD", "2")
    with pytest.warns(flags.IngotWarning, match=r"INGOT_NUM_THREAD; did you mean .*_THREADS'"):
        flags.check_environment()


def test_known_variables_do_not_warn(monkeypatch, recwarn):
    monkeypatch.setenv("INGOT_DEBUG", "1")
    flags.check_environment()
    assert len(recwarn) == 0


def test_cache_folder_follows_xdg(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert flags.default_cache_folder() == "/somewhere/ingot"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert flags.default_cache_folder() == "/home/me/.cache/ingot"
