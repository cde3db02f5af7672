# SPDX-License-Identifier: Apache-2.0
"""Positions: kernels that write where each element stands along an axis (`iota`).

What is sorted with its positions, or read at them, begins with such a kernel; its form
(`kernel.forms.form`) is library code. Invariant: it reads nothing, so it cannot fail or depend on
data.
"""

from __future__ import annotations

from ingot.hlo.dim import Dim
from ingot.kernel.expr import is_position
from ingot.kernel.forms.form import Form, form_of
from ingot.kernel.ir import LoopKernel
from ingot.kernel.schedule.decide import Vectors, schedule_loops
from ingot.kernel.schedule.loop_schedule import SquareTiles

MIN_ELEMENTS = 1 << 12
"""Fewer positions are compiled with their program's other kernels: they have other lanes."""


def positions_form(kernel: LoopKernel, vectors: Vectors) -> Form | None:
    """Return the form of a kernel that writes positions of one axis, else None."""
    if kernel.serial or kernel.kept or len(kernel.passes) != 1 or len(kernel.buffers) != 1:
        return None
    (only,) = kernel.passes
    if only.axes or only.reductions or len(only.stores) != 1:
        return None
    (store,) = only.stores
    elements = kernel.grid_size
    if not store.is_simple or not is_position(store.value):
        return None
    if isinstance(elements, Dim) or elements < MIN_ELEMENTS:
        return None
    own = schedule_loops(kernel, vectors)
    is_tiled = isinstance(own.strategy, SquareTiles)
    return None if is_tiled else form_of(kernel, own, for_every_size=True)
