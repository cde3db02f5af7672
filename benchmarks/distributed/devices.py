# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.distributed.devices`: collectives between devices and between processes.

Ingot, JAX's own CPU backend (Gloo between processes) and MPI alone (MPICH) take turns; each turn
starts new processes, which time all collectives at all sizes. A time is what the first process
waits for one call, or for one of many collectives in a loop of a program. `two_machines` adds a
training step on a slow network.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.common.programs import Timing
from benchmarks.common.report import (
    PAGES,
    as_markdown,
    as_text,
    duration,
    factor,
    geometric_mean,
    machine,
)
from benchmarks.distributed import two_machines

RESULTS = PAGES / "DEVICES_RESULTS.md"
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
KILOBYTES = (1, 16, 256, 4096, 65536)
DISPATCH = "nothing 1 KB"
"""The row of a program whose devices send to themselves."""
MPIEXEC = Path(sys.prefix) / "bin" / "mpiexec"
EXPLANATION = """\
Two devices; the size is that of one device's operand, f32. A time is the median over the turns of
the median call, as the first process sees it, with JAX's dispatch; MPI alone is called through
ctypes. Before each call every process writes its operand, as the program before a collective does
(NumPy for MPI alone), and all wait for each other; that is not timed. A ratio to it counts the
dispatch for both sides: to MPI's time is added the time that Ingot takes, in the same turn, for a
program whose devices send a kilobyte to themselves. The collectives of a loop are each on what the
body computes of the result of the one before, a product or a sum; beside MPI alone NumPy computes
that, into the same memory. A ratio is the median of each turn's: above 1 Ingot is faster, `!` marks
where it is not. `benchmarks/distributed/sharded_programs.py` has the programs."""


@dataclass(frozen=True, slots=True)
class Engine:
    """One way to run the collectives.

    Attributes:
        platform: JAX's; empty for MPI alone.
        processes: how many there are; one has two devices.
        transport: `INGOT_COLLECTIVES`.
        kind: `calls`; or `loop`: the collectives of one program; or `programs`, and on how many
            devices.
    """

    name: str
    platform: str
    processes: int
    transport: str = "auto"
    kind: str = "calls"

    @property
    def by_mpi(self) -> bool:
        """Whether mpiexec starts the processes."""
        return self.transport == "mpi" or not self.platform


INSIDE = (Engine("Ingot", "ingot", 1), Engine("XLA", "cpu", 1))
BETWEEN = (
    Engine("Ingot, sockets", "ingot", 2),
    Engine("Ingot, MPI", "ingot", 2, "mpi"),
    Engine("XLA, Gloo", "cpu", 2),
    Engine("MPI alone", "", 2),
)
PROGRAMS_ON = (2, 8)
"""Devices of one process that whole programs are divided over."""
IN_LOOPS = tuple(replace(engine, kind="loop") for engine in BETWEEN)


def run(engine: Engine) -> dict[str, float]:
    """Run one turn of an engine; return the seconds of each row."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    environment = {
        **os.environ,
        "JAX_PLATFORMS": engine.platform or "cpu",
        "INGOT_COLLECTIVES": engine.transport,
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    worker = [
        sys.executable,
        "-m",
        "benchmarks.distributed.device_worker",
        engine.platform or "mpi",
    ]
    worker += [str(engine.processes), address, engine.kind]
    if engine.by_mpi:
        commands = [[str(MPIEXEC), "-n", str(engine.processes), *worker, "PMI_RANK"]]
    else:
        commands = [[*worker, str(index)] for index in range(engine.processes)]
    running = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for command in commands
    ]
    output = [each.communicate()[0] for each in running]
    if any(each.returncode for each in running):
        raise RuntimeError(f"{engine.name} failed")
    return json.loads(next(line for line in output[0].splitlines() if line.startswith("{")))


def measure(engines: Sequence[Engine], rounds: int) -> dict[str, dict[str, Timing]]:
    """Return the timings of each engine's rows; engines take turns."""
    found: dict[str, dict[str, Timing]] = {engine.name: {} for engine in engines}
    for number in range(rounds):
        for engine in engines:
            print(f"turn {number + 1} of {rounds}: {engine.name}", flush=True)
            for row, seconds in run(engine).items():
                found[engine.name].setdefault(row, Timing()).seconds.append(seconds)
    return found


def beside(other: dict[str, Timing], row: str, dispatch: Timing | None) -> Timing:
    """Return the time that a row is compared with; one without dispatch gets it added."""
    if dispatch is None or DISPATCH in other:
        return other[row]
    pairs = zip(other[row].seconds, dispatch.seconds, strict=True)
    return Timing([sum(pair) for pair in pairs])


def table(found: dict[str, dict[str, Timing]]) -> list[list[str]]:
    """Return the cells: the first engine's time, then each other's and its ratio."""
    ours, *others = found
    dispatch = found[ours].pop(DISPATCH, None)
    titles = [part for name in others for part in (name, f"{name} / {ours}")]
    cells = [["", ours, *titles]]
    ratios: dict[str, list[float]] = {name: [] for name in others}
    for row, timing in found[ours].items():
        line = [row, duration(timing.median)]
        for name in others:
            ratio = timing.ratio(beside(found[name], row, dispatch))
            ratios[name].append(ratio)
            line += [duration(found[name][row].median), factor(ratio)]
        cells.append(line)
    means = [part for name in others for part in ("", factor(geometric_mean(ratios[name])))]
    return [*cells, ["geometric mean", "", *means]]


def main() -> int:
    """Run."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.distributed.devices", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=5, help="turns of each engine")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    parts = ["# Collectives", "Written by `make bench-devices`."]
    facts = machine(("ingot-compiler", "jaxlib", "mpich"))
    parts += ["\n".join(f"- {fact}" for fact in facts), EXPLANATION]
    groups = {
        "Two devices of one process": INSIDE,
        "Two processes of one machine": BETWEEN,
        "Two processes of one machine, in a loop of one program": IN_LOOPS,
        **{
            f"Programs divided over {count} devices of one process": [
                replace(engine, kind=f"programs {count}") for engine in INSIDE
            ]
            for count in PROGRAMS_ON
        },
    }
    for title, engines in groups.items():
        cells = table(measure(engines, options.rounds))
        print(f"\n{title}\n{as_text(cells)}\n", flush=True)
        parts += [f"## {title}", as_markdown(cells)]
    if two_machines.can_run():
        cells = two_machines.measure(options.rounds)
        print(f"\n{as_text(cells)}\n", flush=True)
        parts += ["## Two machines", two_machines.EXPLANATION, as_markdown(cells)]
    if options.write:
        RESULTS.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
