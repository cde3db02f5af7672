# SPDX-License-Identifier: Apache-2.0
"""The interior of a convolution's input: where no padding is met, loads need no masks.

Masks are conjunctions of comparisons of indices that are linear in the axes. Over a block of
positions such a comparison holds everywhere if it holds at one corner of the block, so one scalar
test for each block says whether its loads may go without masks (`cpu.emit.contraction.patches`).

Invariant: where all bounds hold at their corners, `value` equals the operand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ingot.hlo.dim import Dim
from ingot.kernel import expr as ex
from ingot.kernel.expr import Expr, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.rewrite import Rewriter
from ingot.support.records import record


@record
class Bound:
    """One comparison of a mask.

    Attributes:
        condition: the comparison.
        at_last: names of the axes along which it is hardest to meet at the last position of a
            block; along the others that is the first one.
    """

    condition: Expr
    at_last: frozenset[str]


@record
class Interior:
    """An operand without its masks, and the condition under which that is right."""

    value: Expr
    bounds: tuple[Bound, ...]


def interior(operand: Expr, axes: tuple[str, ...]) -> Interior | None:
    """Return an operand without masks over blocks along `axes`, None where masks are not linear."""
    loads = [item for item in walk((operand,)) if item.op == "load" and item.payload.masked]
    bounds: dict[Expr, Bound] = {}
    for item in loads:
        for part in _parts(item.args[0]):
            bound = _bound(part, axes)
            if bound is None:
                return None
            bounds[part] = bound
    return Interior(_Unmasking().expr(operand), tuple(bounds.values()))


class _Unmasking(Rewriter):
    """Takes the masks of loads away."""

    def node(self, item: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return one expression, a load without its mask."""
        if item.op == "load" and item.payload.masked:
            return ex.unmasked(item, args)
        return super().node(item, args)


def _parts(mask: Expr) -> Iterator[Expr]:
    if mask.op == "and":
        for part in mask.args:
            yield from _parts(part)
    else:
        yield mask


def _bound(condition: Expr, axes: tuple[str, ...]) -> Bound | None:
    if not condition.axes & frozenset(axes):
        return Bound(condition, frozenset())
    if condition.op != "compare" or any(arg.op != "index" or arg.args for arg in condition.args):
        return None
    given: Any = condition.payload
    if given.direction not in ("LT", "LE", "GE", "GT"):
        return None
    left, right = (arg.payload for arg in condition.args)
    margin: int | Dim = left - right if given.direction in ("GE", "GT") else right - left
    at_last: set[str] = set()
    for axis in axes:
        step = coefficient(margin, axis)
        if not isinstance(step, int):
            return None
        if step < 0:
            at_last.add(axis)
    return Bound(condition, frozenset(at_last))
