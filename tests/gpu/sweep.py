# SPDX-License-Identifier: Apache-2.0
"""The programs of the differential tests on a GPU: `python -m tests.gpu.sweep [N] [--device]`.

Every N-th of the 10,000 (default: all) is compared with the evaluator, as near as the CPU's results
must be. They run under emulation, or with `--device` on the GPU of this machine. With the name of a
machine (`sm_90`) none runs: ptxas assembles their PTX.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from tests.differential import engine
from tests.differential.case import ALONE, Array, Case
from tests.differential.table import all_cases
from tests.gpu.fake_gpu import install
from tests.gpu.ptxas import assemble

import ingot
from ingot.client.compilation import default_context
from ingot.gpu.machine import MACHINES, GpuMachine
from ingot.gpu.program import compile_module
from ingot.hlo.module import Module
from ingot.support.timing import PhaseTimer


def on_gpu(module: Module, inputs: list[Array]) -> engine.Leaves:
    """Run on the first GPU."""
    found = ingot.compile(module, device="gpu")(*inputs)
    return [np.asarray(leaf) for leaf in (found if isinstance(found, tuple) else (found,))]


def differences(cases: Sequence[Case]) -> Iterator[tuple[str, str]]:
    """Yield the name of each case whose result is another one on the GPU, and how; or why none."""
    for result in engine.run_cases(cases, xla=False, native=on_gpu):
        if result.cpu:
            yield result.case.name, result.cpu
        for _, reason in result.unsupported:
            yield result.case.name, reason


def programs(every: int) -> list[Case]:
    """Return every so-many-th case of one device."""
    return [case for case in all_cases() if case.grid == ALONE][::every]


def unassembled(cases: Sequence[Case], machine: GpuMachine) -> Iterator[tuple[str, str]]:
    """Yield the name of each case whose PTX ptxas refuses, or spills registers of, and why."""
    module = engine.module_of(cases)[0]
    try:
        made = compile_module(module, default_context(), machine, PhaseTimer())
        code = made.artifact.device
        assert code is not None, "it was compiled for a GPU"
        spilled = assemble(code.ptx, machine.name).spilled_bytes
        problem = f"{spilled} bytes of registers are spilled" if spilled else ""
    except (AssertionError, ingot.IngotError) as error:
        problem = str(error)
    if problem and len(cases) == 1:
        yield cases[0].name, problem
    elif problem:
        half = len(cases) // 2
        yield from unassembled(cases[:half], machine)
        yield from unassembled(cases[half:], machine)


def _found(cases: list[Case], arguments: list[str]) -> Iterator[tuple[str, str]]:
    machine = next((MACHINES[text] for text in arguments if text in MACHINES), None)
    if machine is not None:
        for first in range(0, len(cases), engine.BATCH):
            yield from unassembled(cases[first : first + engine.BATCH], machine)
        return
    if "--device" not in arguments:
        install(checks_races=True)
    yield from differences(cases)


def main(arguments: list[str]) -> int:
    """Print what differs, or is not assembled; return 1 if something is, else 0."""
    every = int(next((text for text in arguments if text.isdecimal()), "1"))
    cases, begin = programs(every), time.monotonic()
    found = list(_found(cases, arguments))
    for name, what in found[:100]:
        print(f"{name}: {what[:300]}")
    print(f"{len(found)} of {len(cases)} fail, {time.monotonic() - begin:.0f} s")
    for opcode, count in Counter(name.split(" ")[0] for name, _ in found).most_common():
        print(f"  {opcode}: {count}")
    return min(1, len(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
