# SPDX-License-Identifier: Apache-2.0
"""Kernels that write the position of each element along an axis (`iota`).

Values that are sorted together with their positions, or gathered by them, begin with such a kernel.
It is library code. Invariant: it reads nothing, so it cannot fail or depend on data.
"""

from __future__ import annotations

from ingot.hlo.dim import Dim
from ingot.kernel.expr import is_position
from ingot.kernel.generic.generalize import IN_TILES, GenericKernel, generalized
from ingot.kernel.ir import LoopKernel
from ingot.kernel.schedule.loop_schedule import LoopSchedule, SquareTiles

MIN_ELEMENTS = 1 << 12
"""Fewer positions are compiled with their program's other kernels: they have other lanes."""

NO_POSITIONS = "it does more than write the positions of an axis"


def generic_iota(kernel: LoopKernel, own: LoopSchedule) -> GenericKernel | str:
    """Return the generic kernel of a write of positions, or why a kernel is none."""
    if kernel.serial or kernel.local_buffers or len(kernel.passes) != 1 or len(kernel.buffers) != 1:
        return NO_POSITIONS
    (only,) = kernel.passes
    if only.axes or only.reductions or len(only.stores) != 1:
        return NO_POSITIONS
    (store,) = only.stores
    elements = kernel.grid_size
    if not store.is_simple or not is_position(store.value):
        return NO_POSITIONS
    if isinstance(elements, Dim) or elements < MIN_ELEMENTS:
        return f"fewer than {MIN_ELEMENTS} elements, or how many is symbolic"
    if isinstance(own.strategy, SquareTiles):
        return IN_TILES
    return generalized(kernel, own, "iota")
