# SPDX-License-Identifier: Apache-2.0
"""Masked loads that are made at one position of an axis: they need neither the axis nor the mask.

The last dimension of `stack([a, b, c], axis=-1)` chooses between arrays, so each load has a mask
that holds at one position along it. Such a load is in its buffer at every other position too, if
its index is taken at that one.

Invariant: only loads that their masks make at exactly one position of the axis, whatever the other
axes are; where a mask is off, the loaded value is not chosen.
"""

from __future__ import annotations

from ingot.hlo import dim
from ingot.kernel import expr as ex
from ingot.kernel.expr import Expr
from ingot.kernel.ir import Axis, LoopKernel
from ingot.kernel.rewrite import Rewriter
from ingot.kernel.schedule.pieces import RangeSimplifier


def pin_loads(kernel: LoopKernel, axis: Axis) -> LoopKernel:
    """Return the kernel with loads that are made at one position of `axis` taken there.

    Args:
        kernel: computes each element by itself.
        axis: an axis of its grid, with a known extent.
    """
    return _Pinner(axis.name, axis.known_extent).kernel(kernel)


class _Pinner(Rewriter):
    """Puts a position in place of an axis in loads."""

    def __init__(self, axis: str, extent: int) -> None:
        super().__init__()
        self.axis = axis
        self.there = [RangeSimplifier({axis: (position, position)}) for position in range(extent)]

    def node(self, item: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return one expression on arguments that are rewritten."""
        if item.op == "load" and item.payload.masked and len(args) == 1:
            where = self._only_position(args[0])
            if where is not None:
                index = dim.substitute(item.payload.index, {self.axis: where})
                return ex.load(item.payload.buffer, index, item.dtype)
        return super().node(item, args)

    def _only_position(self, mask: Expr) -> int | None:
        """Return the one position at which a mask holds, None if it depends on more than that."""
        if mask.axes != frozenset((self.axis,)):
            return None
        holds = [simplifier.is_true(mask) for simplifier in self.there]
        return holds.index(True) if holds.count(True) == 1 and None not in holds else None
