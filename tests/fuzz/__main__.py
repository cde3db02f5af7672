"""Compares Ingot's CPU, the evaluator and, where asked, real XLA on exact random programs.

Runs seeds in a process of its own that says each seed before it starts, so that one that aborts, or
takes too long, is known; `failures` starts such processes.

Example:
    .venv/bin/python -m tests.fuzz 0 1000 --xla
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
from typing import Any

import numpy as np
from tests.differential.engine import on_cpu, on_evaluator, on_xla
from tests.fuzz.generator import exact_program

from ingot.support.diagnostics import UnsupportedError

SECONDS = 60.0
"""A seed that takes longer hangs."""


def wrong(seed: int, with_xla: bool) -> str:
    """Return how engines disagree on a program, or nothing; it may end the process."""
    module, inputs = exact_program(seed)
    want = on_evaluator(module, inputs)
    found = _difference("cpu", on_cpu(module, inputs), want)
    if with_xla and not found:
        try:
            found = _difference("xla", on_xla(module, inputs), want)
        except Exception as error:
            found = f"xla: {type(error).__name__}: {error}"
    return found


def _difference(engine: str, got: list[Any], want: list[Any]) -> str:
    for number, (mine, other) in enumerate(zip(got, want, strict=True)):
        if (mine.dtype, mine.shape) != (other.dtype, other.shape):
            return f"{engine}: leaf {number} is {mine.dtype}{mine.shape}"
        differs = np.argwhere(mine != other)
        if len(differs):
            place = tuple(map(int, differs[0]))
            count = f"{len(differs)} of {other.size}"
            return f"{engine}: leaf {number} at {place}: {mine[place]} not {other[place]}, {count}"
    return ""


def failures(start: int, stop: int, *, with_xla: bool = False) -> list[str]:
    """Return the seeds on which engines disagree, abort or hang, one line each."""
    found: list[str] = []
    while start < stop:
        flags = ["--xla"] if with_xla else []
        command = [sys.executable, "-m", "tests.fuzz", str(start), str(stop), *flags]
        last, ended = _watched(command, found)
        if not ended:
            break
        found.append(f"seed {last if last is not None else start}: {ended}")
        start = (last if last is not None else start) + 1
    return found


def _watched(command: list[str], found: list[str]) -> tuple[int | None, str]:
    """Run a process; return the last seed that it began, and how it ended if not well."""
    last: int | None = None
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None
        alarm = threading.Timer(SECONDS, process.kill)
        alarm.start()
        for line in process.stdout:
            alarm.cancel()
            alarm = threading.Timer(SECONDS, process.kill)
            alarm.start()
            if line.strip().isdigit():
                last = int(line)
            else:
                found.append(line.strip())
        alarm.cancel()
        if process.wait() == 0:
            return last, ""
        errors.seek(0)
        return last, f"ended with {process.returncode}: {errors.read()[-1500:]}"


def main() -> int:
    """Run seeds here."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("start", type=int)
    options.add_argument("stop", type=int)
    options.add_argument("--xla", action="store_true", help="compare with real XLA too")
    given = options.parse_args()
    for seed in range(given.start, given.stop):
        print(seed, flush=True)
        try:
            found = wrong(seed, given.xla)
        except UnsupportedError as error:
            found = f"unsupported: {error}".splitlines()[0]
        except Exception as error:
            found = f"{type(error).__name__}: {error}".replace("\n", " ")[:500]
        if found:
            print(f"seed {seed}: {found}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
