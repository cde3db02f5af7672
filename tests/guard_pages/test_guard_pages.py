# SPDX-License-Identifier: Apache-2.0
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

from ingot.llvm.target import host_levels

LIMIT = 300.0

_READS = """
import os, ctypes, numpy as np
from tests.guard_pages.memory import Guarded
for at_end, offset, count in ((1, 0, 1003), (1, 0, 1004), (0, 0, 1003), (0, -1, 1)):
    child = os.fork()
    if not child:
        ctypes.string_at(Guarded(at_end).copy(np.zeros(1003, np.int8)) + offset, count)
        os._exit(0)
    print(os.waitpid(child, 0)[1] != 0)
"""


def test_reads_outside_fault() -> None:
    command = [sys.executable, "-c", _READS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "False", "True"]


def test_some_programs() -> None:
    assert not faulty("table", 0, len(suite("table")), 29, LIMIT)


@pytest.mark.parametrize("level", host_levels())
def test_sorts(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_CPU_LEVEL", level)
    assert not faulty("sorts", 0, len(suite("sorts")), 11, LIMIT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "start", "step"), [("table", 1, 8), ("cases", 0, 6), ("random", 0, 2), ("sorts", 1, 1)]
)
def test_more_programs(name: str, start: int, step: int) -> None:
    assert not faulty(name, start, len(suite(name)), step, LIMIT)
