"""No program reads or writes before or behind its inputs, its outputs or its arena.

Each suite runs in processes of its own, so that a fault is a failed test with the program's name;
`python -m tests.guard_pages SUITE NUMBER NUMBER+1 1` runs one of them.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.guard_pages.__main__ import faulty
from tests.guard_pages.programs import suite

LIMIT = 300.0

_FAULT = """
import numpy as np, ctypes
from tests.guard_pages.memory import Guarded
guarded = Guarded(at_end={at_end})
ctypes.string_at(guarded.copy(np.zeros(1003, np.int8)) + {offset}, {count})
"""


@pytest.mark.parametrize(
    ("at_end", "offset", "count", "faults"),
    [(True, 0, 1003, False), (True, 0, 1004, True), (False, 0, 1003, False), (False, -1, 1, True)],
)
def test_guards(at_end: bool, offset: int, count: int, faults: bool) -> None:
    code = _FAULT.format(at_end=at_end, offset=offset, count=count)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode != 0) is faults


def test_some_programs() -> None:
    assert not faulty("table", 0, len(suite("table")), 29, LIMIT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "start", "step"), [("table", 1, 4), ("cases", 0, 3), ("random", 0, 1)]
)
def test_more_programs(name: str, start: int, step: int) -> None:
    assert not faulty(name, start, len(suite(name)), step, LIMIT)
