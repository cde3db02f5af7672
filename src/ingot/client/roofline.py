# SPDX-License-Identifier: Apache-2.0
"""The limits of this machine, measured once per process: its model with measured rates.

The roofs are those of Ingot's own code on all its threads: an elementwise op on an array larger
than the caches, a product of f32 matrices, and a call that computes almost nothing.
"""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import numpy as np

from ingot.client.compile import compile
from ingot.llvm.machine_model import MachineModel
from ingot.llvm.target import TargetSpec
from ingot.support.records import replace

_COPIED = 1 << 24
"""Elements of the array that is copied: 64 MiB read and as much written."""
_SIDE = 1024
_RUNS = 9


@cache
def measured_machine() -> MachineModel:
    """Return this machine's model, with rates of the process's threads; takes about a second."""
    copy = compile(
        f"HloModule copied ENTRY e {{ x = f32[{_COPIED}] parameter(0) "
        f"ROOT y = f32[{_COPIED}] negate(x) }}"
    )
    product = compile(
        f"HloModule product ENTRY e {{ x = f32[{_SIDE},{_SIDE}] parameter(0) "
        f"ROOT y = f32[{_SIDE},{_SIDE}] dot(x, x), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0} }"
    )
    nothing = compile(
        "HloModule nothing ENTRY e { x = f32[1] parameter(0) ROOT y = f32[1] negate(x) }"
    )
    copied = _shortest(copy, np.ones(_COPIED, np.float32))
    multiplied = _shortest(product, np.ones((_SIDE, _SIDE), np.float32))
    return replace(
        MachineModel.of(TargetSpec.host()),
        bytes_per_second=8 * _COPIED / copied,
        flops_per_second=2 * _SIDE**3 / multiplied,
        call_seconds=_shortest(nothing, np.ones(1, np.float32)),
    )


def _shortest(program: Any, argument: np.ndarray[Any, Any]) -> float:
    """Return the shortest of some runs, in seconds."""
    program(argument)
    found: list[float] = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        program(argument)
        found.append(time.perf_counter() - start)
    return min(found)
