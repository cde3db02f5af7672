# SPDX-License-Identifier: Apache-2.0
"""Exits without the last collections: when they are skipped, and that nothing is lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Registered first, so that it runs last.
REPORT = """
import atexit, gc
atexit.register(lambda: print("frozen" if gc.get_freeze_count() else "collected"))
from ingot.support.quick_exit import exit_quickly
exit_quickly()
class Cycle:
    def __init__(self, held):
        self.held, self.itself = held, self
"""


def _run(program: str, *, home: Path, **environment: str) -> list[str]:
    """Return the lines that a process prints which ends quickly where it may."""
    ran = subprocess.run(
        [sys.executable, "-c", REPORT + program],
        check=True,
        capture_output=True,
        text=True,
        cwd=home,
        env=dict(os.environ, PYTHONUNBUFFERED="", **environment),
    )
    assert not ran.stderr
    return ran.stdout.splitlines()


def test_a_process_without_finalizers_skips_the_collections(tmp_path: Path) -> None:
    program = "keep = Cycle(list(range(10)))\nprint('x' * 9000, end='')\nprint()"
    assert _run(program, home=tmp_path) == ["x" * 9000, "frozen"]


def test_the_flag_switches_it_off(tmp_path: Path) -> None:
    assert _run("", home=tmp_path, INGOT_QUICK_EXIT="0") == ["collected"]


def test_nothing_is_skipped_where_leaks_are_looked_for(tmp_path: Path) -> None:
    assert _run("", home=tmp_path, PYTHONDEVMODE="1") == ["collected"]


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_files_in_cycles_are_written(mode: str, tmp_path: Path) -> None:
    data = repr("text" if mode == "w" else b"text")
    program = f"keep = Cycle(open('file', {mode!r}))\nkeep.held.write({data})"
    assert _run(program, home=tmp_path) == ["collected"]
    assert (tmp_path / "file").read_text() == "text"


def test_files_that_are_read_or_closed_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    program = "read = Cycle(open('file'))\nwith open('other', 'w') as closed: closed.write('x')"
    assert _run(program, home=tmp_path) == ["frozen"]


def test_finalizers_in_cycles_run(tmp_path: Path) -> None:
    program = """
import os
class Temporary(Cycle):
    def __del__(self, write=os.write):
        write(1, b"finalized\\n")
keep = Temporary(None)
"""
    assert _run(program, home=tmp_path) == ["collected", "finalized"]


def test_suspended_generators_in_cycles_are_closed(tmp_path: Path) -> None:
    program = """
import os
def numbers(held):
    try:
        yield 1
    finally:
        os.write(1, b"closed\\n")
keep = Cycle(None)
keep.held = numbers(keep)
next(keep.held)
"""
    assert _run(program, home=tmp_path) == ["collected", "closed"]


def test_generators_that_have_ended_do_not_matter(tmp_path: Path) -> None:
    program = "keep = Cycle(x for x in ())\nlist(keep.held)\nnew = Cycle(x for x in ())"
    assert _run(program, home=tmp_path) == ["frozen"]


def test_code_of_metaclasses_is_not_run(tmp_path: Path) -> None:
    program = """
class Meta(type):
    def __getattr__(cls, name):
        raise RuntimeError(name)
keep = Cycle(Meta("Odd", (), {})())
"""
    assert _run(program, home=tmp_path) == ["frozen"]
