# SPDX-License-Identifier: Apache-2.0
"""Masked loads whose address is inside of the buffer at every point lose their mask.

Interior padding reads `x[floordiv(i,2)]` where `mod(i,2)` is 0, else takes a constant. Where the
mask is off, the element exists all the same: a whole vector is read, and the mask only chooses.

Invariant: a load loses its mask only if the same mask chooses its value, so that the additional
elements are never seen.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingot.hlo.dim import Dim, never_negative
from ingot.kernel import expr as ex
from ingot.kernel.analysis.ranges import RangeSimplifier
from ingot.kernel.expr import Expr, walk
from ingot.kernel.index_math import Extents, upper_bound
from ingot.kernel.ir import LoopKernel


def unmask_loads(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel without the masks that loads do not need."""
    if kernel.has_loops:
        return kernel
    if not any(item.op == "select" and _is_chosen(*item.args) for item in walk(kernel.exprs)):
        return kernel
    sizes = {number: item.size for number, item in enumerate(kernel.buffers)}
    reader = _Reader({axis.name: axis.extent for axis in kernel.grid}, sizes)
    return reader.kernel(kernel)


def _is_chosen(mask: Expr, yes: Expr, _: Expr) -> bool:
    """Whether a load is wanted where its mask holds, and nothing moves it."""
    masked = yes.op == "load" and yes.payload.masked and len(yes.args) == 1
    return masked and yes.args[0] is mask


class _Reader(RangeSimplifier):
    """Takes masks away."""

    def __init__(self, extents: Extents, sizes: Mapping[int, int | Dim]) -> None:
        super().__init__({})
        self.extents = extents
        self.sizes = sizes

    def node(self, item: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return one expression on arguments that are simplified."""
        found = super().node(item, args)
        if found.op != "select" or not _is_chosen(*found.args):
            return found
        mask, yes, no = found.args
        access = yes.payload
        last, size = upper_bound(access.index, self.extents), self.sizes[access.buffer]
        if not (never_negative(access.index) and last is not None and isinstance(size, int)):
            return found
        if last >= size:
            return found
        whole = ex.unmasked(yes, yes.args)
        return ex.make("select", found.dtype, (mask, whole, no), found.payload)
