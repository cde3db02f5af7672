# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.kernels.roofline`: kernels of `make bench` beside this machine's limits.

Each program runs some times with the profiler on. A kernel's limit is the time that its bytes or
its operations take at the rates that this machine showed (`ingot.client.roofline`); what it reached
is that time divided by its shortest run. A program's row is that of its longest kernel.
"""

from __future__ import annotations

import argparse
import sys

import ingot
from benchmarks.common.process import WorkerProcess, take_cpus
from benchmarks.common.programs import PROGRAMS, Program
from benchmarks.common.report import as_text, duration
from benchmarks.ops.op_programs import OPS
from ingot.client.roofline import measured_machine
from ingot.llvm.machine_model import MachineModel

TITLES: tuple[str, ...] = (
    "program", "kernels", "longest kernel", "time", "share", "GB/s", "GFLOP/s", "bound",
    "of the limit",
)  # fmt: skip
RUNS = 20


class Lowering:
    """Gives the HLO text of programs, in a process of its own: JAX makes it."""

    def hlo(self, program: Program) -> str:
        """Return the program's HLO text."""
        from benchmarks.common.engines import JaxEngine

        return JaxEngine().load(program, "")


def cells(program: Program, text: str, model: MachineModel) -> list[str]:
    """Run a program and return its row: which kernel takes longest, and what limits it."""
    executable = ingot.compile(text)
    assert isinstance(executable, ingot.Executable), "sizes do not depend on data here"
    inputs = program.inputs()
    executable(*inputs)
    rows = [r for r in executable.profile(*inputs, runs=RUNS).rows() if r.site.kind != "loop"]
    if not rows:
        return [program.name, "0", *[""] * 7]
    longest = max(rows, key=lambda row: row.total)
    site, seconds = longest.site, longest.shortest
    strategies = {kernel.fusion: kernel.strategy for kernel in executable.kernels}
    share = model.share(site.bytes, site.flops, seconds, site.transcendentals)
    return [
        program.name,
        str(len(rows)),
        strategies.get(site.name, site.kind),
        duration(seconds),
        f"{longest.total / sum(row.total for row in rows):.0%}",
        f"{site.bytes / seconds / 1e9:.1f}",
        f"{site.flops / seconds / 1e9:.1f}",
        model.bound(site.bytes, site.flops, site.transcendentals) if share is not None else "",
        f"{share:.0%}" if share is not None else "",
    ]


def main() -> int:
    """Print the table; return 1 if a program failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernels.roofline", description=__doc__
    )
    parser.add_argument("names", nargs="*", help="only programs whose names have one of these")
    parser.add_argument("--threads", type=int, default=1, help="CPUs that are used (default: 1)")
    options = parser.parse_args()
    take_cpus(options.threads)
    model = measured_machine()
    print(
        f"this machine, {options.threads} threads: {model.bytes_per_second / 1e9:.1f} GB/s, "
        f"{model.flops_per_second / 1e9:.0f} GFLOP/s of f32, "
        f"{model.call_seconds * 1e6:.1f} us for the shortest call",
        flush=True,
    )
    lowering = WorkerProcess("lowering", Lowering, (), quiet=True)
    table, failed = [list(TITLES)], 0
    for program in PROGRAMS + OPS:
        if options.names and not any(name in program.name for name in options.names):
            continue
        try:
            table.append(cells(program, lowering.ask("hlo", program), model))
        except RuntimeError as error:
            failed += 1
            print(f"{program.name}: FAILED\n{error}", flush=True)
    lowering.close()
    print(as_text(table))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
