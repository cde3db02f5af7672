# SPDX-License-Identifier: Apache-2.0
"""Phases: nesting, adding up, exceptions, and a progress line only on a terminal and only late."""

import io
import time

import pytest
from rich.console import Console

from ingot.support import flags, timing
from ingot.support.timing import PhaseTimer


def test_phases_nest_and_equal_names_add_up():
    timer = PhaseTimer()
    with timer.phase("compile"):
        for _ in range(3):
            with timer.phase("dce"):
                pass
        with timer.phase("fusion"):
            pass
    compilation = timer.root.children["compile"]
    assert list(compilation.children) == ["dce", "fusion"]
    assert compilation.children["dce"].count == 3
    inside = sum(child.seconds for child in compilation.children.values())
    assert 0 < inside <= compilation.seconds
    assert [line.split(":")[0] for line in timer.report().splitlines()] == [
        "compile",
        "  dce x3",
        "  fusion",
    ]


def fail_inside(timer):
    with timer.phase("compile"), timer.phase("fusion"):
        raise ValueError("inside")


def test_phases_are_closed_by_an_exception():
    timer = PhaseTimer()
    with pytest.raises(ValueError, match="inside"):
        fail_inside(timer)
    with timer.phase("next"):
        pass
    assert list(timer.root.children) == ["compile", "next"]


def run_for_a_while(terminal: bool, seconds: float) -> str:
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=80)
    timer = PhaseTimer(console)
    with timer.phase("compile step"), timer.phase("fusion"):
        time.sleep(seconds)
    return output.getvalue()


def test_long_compilation_on_a_terminal_shows_its_phase(monkeypatch):
    monkeypatch.setattr(timing, "PATIENCE_SECONDS", 0.01)
    assert "ingot: compile step > fusion" in run_for_a_while(terminal=True, seconds=0.3)


def test_short_compilation_shows_nothing():
    assert run_for_a_while(terminal=True, seconds=0) == ""


def test_without_a_terminal_or_when_switched_off_nothing_is_shown(monkeypatch):
    monkeypatch.setattr(timing, "PATIENCE_SECONDS", 0.0)
    assert run_for_a_while(terminal=False, seconds=0.05) == ""
    with flags.override(flags.PROGRESS, "off"):
        assert run_for_a_while(terminal=True, seconds=0.05) == ""
