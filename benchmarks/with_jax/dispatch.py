# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.with_jax.dispatch`: the overhead of JAX's calls, on both platforms.

Calls of tiny compiled functions, arrays going in and coming back, from 4 bytes to 64 MB. As in
`whole` (whose page has this table too) each platform has a process of its own and they take
turns. Reading an array is timed on arrays that nobody has read, since JAX keeps what it read.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.common.process import WorkerProcess
from benchmarks.common.programs import Timing
from benchmarks.common.report import as_text, duration, factor

PLATFORMS = ("ingot", "cpu")
TITLES = ["action", "Ingot", "XLA", "best Ingot", "best XLA", "XLA / Ingot"]
EXPLANATION = """\
What calls cost beside the work. Each action is timed on things made beforehand, outside of the
clock; arrays that are read are results that nobody has read, since JAX keeps what it read."""
SIZES = (4, 1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 23, 1 << 26)
_MOST_BYTES = 1 << 28
"""So much the arrays of one sample hold together."""


@dataclass(frozen=True, slots=True)
class Action:
    """What is timed: `act` on each of the things that `prepare` made, outside of the clock."""

    name: str
    prepare: Callable[[Any], Any]
    act: Callable[[Any], object]
    bytes: int = 4


def actions(jax: Any) -> list[Action]:
    """Return the rows of the table."""
    add, one = jax.jit(lambda x, y: x + y), jax.device_put(np.float32(1))
    sums, splits = jax.jit(lambda *xs: sum(xs)), jax.jit(lambda x: [x + i for i in range(20)])
    twenty = [one] * 20
    gives = jax.jit(lambda x: x + 1, donate_argnums=0)
    fresh, ready, put = jax.jit(lambda x: x + 1), jax.block_until_ready, jax.device_put
    rows = [
        Action("call: 2 arguments", lambda _: one, lambda x: add(x, x)),
        Action("call: 20 arguments", lambda _: one, lambda _: sums(*twenty)),
        Action("call: 20 results", lambda _: one, splits),
        Action("call: donated argument", lambda _: ready(fresh(one)), gives),
        Action("call: NumPy scalars", lambda _: np.float32(2), lambda x: add(x, x)),
        Action("call, then read", lambda _: one, lambda x: np.asarray(add(x, x))),
    ]
    for size in SIZES:
        array, text = np.ones(size // 4, np.float32), size_text(size)

        def result(_: object, array: Any = array) -> Any:
            return ready(fresh(array))

        rows += [
            Action(f"device_put {text}", lambda _, a=array: a, lambda a: ready(put(a)), size),
            Action(f"asarray of a result {text}", result, np.asarray, size),
            Action(f"copy of a result {text}", result, np.array, size),
        ]
    return rows


def size_text(size: int) -> str:
    """Return a number of bytes as text."""
    for unit in ("B", "KB", "MB"):
        if size < 1024:
            return f"{size} {unit}"
        size //= 1024
    return f"{size} GB"


def start(platform: str) -> Runner:
    """Start JAX on `platform`."""
    os.environ["JAX_PLATFORMS"] = platform
    return Runner()


class Runner:
    """What a worker can be asked for."""

    def __init__(self) -> None:
        """Compile everything."""
        import jax

        self._rows = {row.name: row for row in actions(jax)}
        for row in self._rows.values():
            row.act(row.prepare(None))

    def names(self) -> list[str]:
        """Return the names of the actions."""
        return list(self._rows)

    def sample(self, name: str, budget: float) -> float:
        """Return the seconds of one action: the best of the rounds in `budget` seconds."""
        row = self._rows[name]
        count = max(1, min(200, _MOST_BYTES // row.bytes // 4))
        best, end = float("inf"), time.perf_counter() + budget
        while True:
            things = [row.prepare(None) for _ in range(count)]
            begin = time.perf_counter()
            for thing in things:
                row.act(thing)
            best = min(best, (time.perf_counter() - begin) / count)
            if time.perf_counter() > end:
                return best


def measure(rounds: int, budget: float) -> list[list[str]]:
    """Return the cells of the table, heading first."""
    crew = {name: WorkerProcess(name, start, (name,), quiet=True) for name in PLATFORMS}
    table = [TITLES]
    for name in crew["cpu"].ask("names"):
        ours, theirs = (Timing() for _ in PLATFORMS)
        for _ in range(rounds):
            for platform, timing in zip(PLATFORMS, (ours, theirs), strict=True):
                timing.seconds.append(crew[platform].ask("sample", name, budget))
        table.append(
            [
                name,
                *(duration(timing.median) for timing in (ours, theirs)),
                *(duration(min(timing.seconds)) for timing in (ours, theirs)),
                factor(ours.ratio(theirs)),
            ]
        )
        print("  ".join(table[-1]), flush=True)
    for worker in crew.values():
        worker.close()
    return table


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.with_jax.dispatch", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=7, help="turns of each platform")
    parser.add_argument("--budget", type=float, default=0.05, help="seconds of each turn")
    options = parser.parse_args()
    print(f"\n{as_text(measure(options.rounds, options.budget))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
