# SPDX-License-Identifier: Apache-2.0
"""What this machine can do at most, measured once per process: bytes and operations per second.

The roofs are those of Ingot's own code on all its threads: an elementwise op on an array that no
cache holds, and a product of matrices of f32. A kernel's share of the roofline is the time that its
bytes or its operations take at these rates, whichever is longer, divided by the time that it took.
A kernel whose data lies in a cache may come over 100 %.

Source: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009.
"""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import numpy as np

from ingot.client.compile import compile
from ingot.support.records import record

_COPIED = 1 << 24
"""Elements of the array that is copied: 64 MiB read and as much written."""
_SIDE = 1024
_RUNS = 9


@record
class Roofs:
    """What a machine can do: bytes and f32 operations, each per second."""

    bytes_per_second: float
    flops_per_second: float

    def share(self, count: int, flops: int, seconds: float) -> float | None:
        """Return the share of the roofline that work in so many seconds is, None if unknown.

        Args:
            count: bytes that were read and written.
            flops: operations.
            seconds: how long it took.
        """
        if not seconds or not (count or flops):
            return None
        return max(count / self.bytes_per_second, flops / self.flops_per_second) / seconds


@cache
def measured_roofs() -> Roofs:
    """Return what this machine can do with the threads of the process; takes about a second."""
    copy = compile(
        f"HloModule copied ENTRY e {{ x = f32[{_COPIED}] parameter(0) "
        f"ROOT y = f32[{_COPIED}] negate(x) }}"
    )
    product = compile(
        f"HloModule product ENTRY e {{ x = f32[{_SIDE},{_SIDE}] parameter(0) "
        f"ROOT y = f32[{_SIDE},{_SIDE}] dot(x, x), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0} }"
    )
    copied = _shortest(copy, np.ones(_COPIED, np.float32))
    multiplied = _shortest(product, np.ones((_SIDE, _SIDE), np.float32))
    return Roofs(8 * _COPIED / copied, 2 * _SIDE**3 / multiplied)


def _shortest(program: Any, argument: np.ndarray[Any, Any]) -> float:
    """Return the shortest of some runs, in seconds."""
    program(argument)
    found: list[float] = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        program(argument)
        found.append(time.perf_counter() - start)
    return min(found)
