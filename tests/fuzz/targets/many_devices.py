# SPDX-License-Identifier: Apache-2.0
"""Programs of several devices: collectives of every kind between them, on replicas and partitions.

Cases of the differential run that share a grid are put into one module; an input has the devices
as its first dimension. Ingot's replicated execution is compared with the evaluator's.
"""

from __future__ import annotations

import random
from functools import cache

import numpy as np
from tests.differential.case import Case
from tests.differential.device_cases import cases
from tests.differential.engine import module_of, on_cpu, on_evaluator
from tests.fuzz.program_case import ProgramCase, read_case
from tests.fuzz.target import Target

from ingot.hlo.verifier import verify


@cache
def _by_grid() -> dict[tuple[int, int], dict[str, list[Case]]]:
    """Return the cases by grid and opcode."""
    found: dict[tuple[int, int], dict[str, list[Case]]] = {}
    for case in cases():
        found.setdefault(case.grid, {}).setdefault(case.opcode, []).append(case)
    return found


def generate(choose: random.Random) -> bytes:
    """Return a module of one to five collectives."""
    families = choose.choice(list(_by_grid().values()))
    count = choose.randint(1, min(5, len(families)))
    chosen = [choose.choice(rows) for rows in choose.sample(list(families.values()), count)]
    module, inputs, _ = module_of(chosen)
    return ProgramCase(module, inputs).to_bytes()


def check(data: bytes) -> str:
    """Compare native code with the evaluator."""
    case = read_case(data)
    verify(case.module)
    inputs = [np.asarray(value) for value in case.inputs]
    want = on_evaluator(case.module, inputs)
    return case.difference("cpu", on_cpu(case.module, inputs), want)


TARGET = Target("many_devices", ".hlo", generate, check)
