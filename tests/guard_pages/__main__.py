# SPDX-License-Identifier: Apache-2.0
"""Runs programs between guard pages, in a process that a fault may end.

Says the number of each program before it runs, then what was wrong, if anything. `faulty` starts
such processes, one after the other where one ends too early.

Example:
    .venv/bin/python -m tests.guard_pages table 0 100 1
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from tests.guard_pages.memory import run_guarded
from tests.guard_pages.programs import Program, suite

import ingot
from ingot.support.diagnostics import UnsupportedError


def wrong(program: Program) -> str:
    """Return what a program does otherwise between guard pages; it may end the process."""
    module, inputs = program.make()
    try:
        executable = ingot.compile(module)
    except UnsupportedError as error:
        return f"unsupported: {error}"
    found = executable(*inputs)
    want = [np.asarray(leaf) for leaf in (found if isinstance(found, tuple) else (found,))]
    for at_end in (True, False):
        got = run_guarded(executable, [np.asarray(value) for value in inputs], at_end=at_end)
        for number, (mine, other) in enumerate(zip(got, want, strict=True)):
            if mine.tobytes() != other.tobytes():
                return f"output {number} has other bits, {at_end=}"
    return ""


def faulty(name: str, start: int, stop: int, step: int, seconds: float) -> list[str]:
    """Return the programs of a suite that fault or go wrong, one line each, in other processes."""
    failures: list[str] = []
    programs = suite(name)
    while start < stop:
        command = [sys.executable, "-m", "tests.guard_pages", name, *map(str, (start, stop, step))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        lines = done.stdout.splitlines()
        failures += [line for line in lines if not line.isdigit()]
        if done.returncode == 0:
            break
        reached = [int(line) for line in lines if line.isdigit()]
        last = reached[-1] if reached else start
        ended = f"ended with {done.returncode}: {done.stderr[-2000:]}"
        failures.append(f"{name} {last}, {programs[last].name}: {ended}")
        start = last + step
    return failures


def main(name: str, start: int, stop: int, step: int) -> int:
    """Run programs here."""
    programs = suite(name)
    for number in range(start, min(stop, len(programs)), step):
        print(number, flush=True)
        try:
            found = wrong(programs[number])
        except Exception as error:
            found = f"{type(error).__name__}: {error}".replace("\n", " ")[:500]
        if found:
            print(f"{name} {number}, {programs[number].name}: {found}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:5])))
