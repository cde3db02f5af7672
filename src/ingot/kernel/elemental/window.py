# SPDX-License-Identifier: Apache-2.0
"""Windows in kernels: which element a window takes, and reductions over windows.

Element `tap` of window `position` stands at `position * stride + tap * window_dilation - low` of
the spread-out operand. Where padding or gaps may be met, the point carries a mask.

`reduce-window` is a reduction whose axes are the window's own; `kernel.loop.build` makes its pass.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.analysis.frames import ONE, Frame
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.reduction import ReduceWindowAttributes
from ingot.hlo.window import WindowDimension
from ingot.kernel import expr as ex
from ingot.kernel.elemental.lowering import ElementalLowering
from ingot.kernel.elemental.points import Point
from ingot.kernel.elemental.shaping_rules import unpadded
from ingot.kernel.expr import Expr, select
from ingot.support.records import record

_NOWHERE = Point(())


@record
class Fold:
    """The values that a windowed op folds at each of its points.

    Attributes:
        inits: where accumulators start.
        inputs: values of one window element.
    """

    inits: tuple[Expr, ...]
    inputs: tuple[Expr, ...]


@record
class Windowed:
    """How an op is a reduction over axes of its own.

    Attributes:
        extents: the extents of these axes.
        fold: returns the folded value at the op's frame and these axes.
    """

    extents: Callable[[Instruction], tuple[int | Dim, ...]]
    fold: Callable[[ElementalLowering, Instruction, Frame, Frame], Fold]


def taken(
    position: int | Dim, tap: int | Dim, size: int | Dim, one: WindowDimension
) -> tuple[int | Dim, Expr | None]:
    """Return the operand's index along one dimension, and whether it is inside (None: always).

    `size` is the operand's. The caller handles reversed windows.
    """
    spread = position * one.stride + tap * one.window_dilation
    return unpadded(spread, size, (one.low, one.high, one.base_dilation - 1), _NOWHERE)


def window_extents(instruction: Instruction) -> tuple[int | Dim, ...]:
    """Return the extents of a windowed reduction's own axes."""
    given = instruction.as_(ReduceWindowAttributes)
    return tuple(one.size for one in given.window)


def window_fold(
    lowering: ElementalLowering, instruction: Instruction, frame: Frame, axes: Frame
) -> Fold:
    """Return what `reduce-window` folds; `frame` are its axes, `axes` those of the window."""
    given = instruction.as_(ReduceWindowAttributes)
    count = len(instruction.operands) // 2
    dims = instruction.operands[0].shape.dims
    index: list[int | Dim] = []
    mask: Expr | None = None
    for one, size, position, tap in zip(given.window, dims, frame, axes, strict=True):
        where, inside = taken(symbol(position), symbol(tap), size, one)
        index.append(where)
        mask = ex.conjunction(mask, inside)
    point = Point(tuple(index), (), mask)
    inits = tuple(lowering.operand(instruction, count + n, _NOWHERE) for n in range(count))
    inputs = [lowering.operand(instruction, n, point) for n in range(count)]
    if mask is not None:
        inputs = [select(mask, *pair) for pair in zip(inputs, inits, strict=True)]
    return Fold(inits, tuple(inputs))


def symbol(axis: int) -> int | Dim:
    """Return a frame axis as an index."""
    return 0 if axis == ONE else Dim.symbol(f"@{axis}")
