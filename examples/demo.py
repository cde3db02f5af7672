# SPDX-License-Identifier: Apache-2.0
"""What Ingot does for three programs, measured now, beside TensorFlow: `make demo`.

Three worker processes run the same examples: compiled by Ingot, not compiled, and compiled by
TensorFlow's own XLA. They take turns (A B C A B C), so a busy machine is unfair to none; times are
medians, ratios are medians of each round's ratio.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from demo_parts import show
from demo_parts.measured import Facts, Measured
from demo_parts.worker import ENGINES, Worker

ROUNDS = 15
TURN_SECONDS = 0.08
EXPLANATION = """\
Not compiled: TensorFlow, op by op. "x": times Ingot's. Time per step: medians of turns taken in
this order: Ingot, TensorFlow, XLA, Ingot, ...; a ratio is the median of the rounds' ratios.
First call without tracing: the function is traced before (get_concrete_function); what its first
call takes, less one step, is compiling. No cache on disk.
Moved op by op: every TensorFlow op reads its inputs and writes its outputs (those that only hand
on a buffer do not count).
* The first 100 losses, the same seeds, relative to those of TensorFlow not compiled, dropout
  included. TensorFlow's XLA draws other random numbers for dropout; Ingot draws TensorFlow's."""


def measure(crew: list[Worker], name: str, rounds: int) -> tuple[Measured, Facts]:
    """Run one program on all engines."""
    measured = Measured(ENGINES)
    for worker in crew:
        measured.first_calls[worker.engine] = worker.ask("load", name)
    facts = crew[0].ask("facts")
    for _ in range(rounds):
        for worker in crew:
            measured.steps[worker.engine].append(worker.ask("sample", TURN_SECONDS))
    for worker in crew:
        measured.outcomes[worker.engine] = worker.ask("train")
    return measured, facts


def run(console: Console, rounds: int) -> None:
    """Measure everything and print it."""
    crew = [Worker(engine) for engine in ENGINES]
    measured: dict[str, Measured] = {}
    facts: dict[str, Facts] = {}
    try:
        with console.status("starting TensorFlow three times"):
            for worker in crew:
                worker.tell("start")
            for worker in crew:
                worker.answer()
        for name in show.SUBJECTS:
            with console.status(f"running {name}"):
                measured[name], facts[name] = measure(crew, name, rounds)
    finally:
        for worker in crew:
            worker.close()
    report(console, measured, facts)


def report(console: Console, measured: dict[str, Measured], facts: dict[str, Facts]) -> None:
    """Print the tables, then one kernel on its way through the compiler."""
    what = (show.subjects(), show.compiled(facts), show.moved(facts))
    show.section(console, "What was compiled", *what)
    show.section(console, "How fast it is", show.times(measured), show.compile_times(measured))
    show.section(console, "What it computes", show.qualities(measured), EXPLANATION)
    step = facts["training_step"]
    show.section(console, "The kernels of training_step", show.kernels(step.kernels))
    show.section(console, "The decisions that made them", show.reasons(step))
    one = facts["fused_reduce"]
    hlo = show.without_metadata(one.texts["hlo"])
    show.section(console, "fused_reduce: HLO after fusion (without its metadata)", hlo)
    show.section(console, "The decisions that made it one kernel", *one.decisions)
    show.section(console, "The same kernel as kernel IR", one.texts["kernel"].strip())
    loop = show.hot_loop(one.texts["llvm_optimized"])
    show.section(console, "Its inner loop as LLVM IR", loop)


def main() -> int:
    """Run the demo; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="turns of each engine")
    options = parser.parse_args()
    console = show.make_console()
    console.print(f"Ingot, {show.machine()}\n", soft_wrap=True)
    run(console, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
