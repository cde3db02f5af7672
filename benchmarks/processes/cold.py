# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.processes.cold`: short scripts from the start of the process to its end.

Engines take turns; each run is a new process. Ingot runs twice: with a cache that has what the
machine's first program of the framework left there but not the script's own program, then again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass

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
from benchmarks.processes.cold_programs import JAX, TENSORFLOW, TORCH

RESULTS = PAGES / "COLD_RESULTS.md"
FIRST, AGAIN = "Ingot, first", "Ingot, again"
EXPLANATION = """\
The seconds of whole processes, from start to exit, Python's and the framework's imports included:
the median over the turns. `first`: Ingot has run on the machine, but not this program; `again`: the
program is in the cache on disk. XLA compiles in each process. A ratio is the median of each turn's:
above 1 Ingot is faster, `!` marks where it is not. All engines print the same to 1e-3."""
TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class Engine:
    """One way to run the scripts of a framework.

    Attributes:
        name: in tables.
        mode: the script's `MODE`.
        platform: JAX's.
    """

    name: str
    mode: str = ""
    platform: str = "cpu"


FRAMEWORKS: dict[str, tuple[dict[str, str], Engine, tuple[Engine, ...]]] = {
    "JAX": (JAX, Engine("Ingot", platform="ingot"), (Engine("XLA"),)),
    "TensorFlow": (
        TENSORFLOW,
        Engine("Ingot", "ingot"),
        (Engine("TensorFlow", "plain"), Engine("XLA", "jit")),
    ),
    "PyTorch": (TORCH, Engine("Ingot", "ingot"), (Engine("eager"), Engine("inductor", "inductor"))),
}
"""Each framework's scripts, Ingot, and the others."""


def run(engine: Engine, script: str, cache: str) -> tuple[float, float]:
    """Return the seconds of a process, and the number that it prints.

    Raises:
        RuntimeError: it failed.
    """
    environment = {
        **os.environ,
        "JAX_PLATFORMS": engine.platform,
        "INGOT_CACHE_DIR": cache,
        "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # pip compiles what it installs
    command = [sys.executable, "-c", f"MODE = {engine.mode!r}\n{script}"]
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"{engine.name} failed:\n{done.stderr[-2000:]}")
    return seconds, float(done.stdout.split()[-1])


def measure(framework: str, name: str, prepared: str, rounds: int) -> dict[str, Timing]:
    """Return the timings of a script by engine; `prepared` is a cache without its program."""
    scripts, ours, others = FRAMEWORKS[framework]
    found = {title: Timing() for title in (FIRST, AGAIN, *(other.name for other in others))}
    for number in range(rounds):
        print(f"{framework}, {name}: turn {number + 1} of {rounds}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            cache = shutil.copytree(prepared, f"{folder}/cache")
            runs = [(FIRST, ours), (AGAIN, ours), *((other.name, other) for other in others)]
            printed: dict[str, float] = {}
            for title, engine in runs:
                seconds, printed[title] = run(engine, scripts[name], str(cache))
                found[title].seconds.append(seconds)
        low, high = min(printed.values()), max(printed.values())
        if high - low > TOLERANCE * max(1.0, abs(low)):
            raise RuntimeError(f"{framework}, {name}: engines differ: {printed}")
    return found


def table(framework: str, prepared: str, rounds: int) -> list[list[str]]:
    """Return the cells: Ingot's times, then each other's with its ratio to Ingot's second."""
    scripts, _, others = FRAMEWORKS[framework]
    heads = [part for other in others for part in (other.name, f"{other.name} / again")]
    cells = [["script", FIRST, AGAIN, *heads]]
    ratios: dict[str, list[float]] = {other.name: [] for other in others}
    for name in scripts:
        found = measure(framework, name, prepared, rounds)
        line = [name, duration(found[FIRST].median), duration(found[AGAIN].median)]
        for other in others:
            ratio = found[AGAIN].ratio(found[other.name])
            ratios[other.name].append(ratio)
            line += [duration(found[other.name].median), factor(ratio)]
        cells.append(line)
    means = [part for each in ratios.values() for part in ("", factor(geometric_mean(each)))]
    return [*cells, ["geometric mean", "", "", *means]]


def prepare(framework: str, folder: str) -> None:
    """Run the first script of a framework with other sizes, so that its front end is there."""
    scripts, ours, _ = FRAMEWORKS[framework]
    run(ours, next(iter(scripts.values())).replace("64", "48"), folder)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.processes.cold", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=5, help="turns of each engine")
    parser.add_argument("--only", choices=[*FRAMEWORKS], help="one framework; default: all")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args(arguments)
    parts = ["# Cold processes", "Written by `make bench-cold`."]
    facts = machine(("ingot-compiler", "jaxlib", "tensorflow", "torch"))
    parts += ["\n".join(f"- {fact}" for fact in facts), EXPLANATION]
    for framework in [options.only] if options.only else FRAMEWORKS:
        with tempfile.TemporaryDirectory() as folder:
            prepare(framework, folder)
            cells = table(framework, folder, options.rounds)
        print(f"\n{framework}\n{as_text(cells)}\n", flush=True)
        parts += [f"## {framework}", as_markdown(cells)]
    if options.write:
        RESULTS.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
