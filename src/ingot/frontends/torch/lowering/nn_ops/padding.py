# SPDX-License-Identifier: Apache-2.0
"""Padding that mirrors an array at its border elements, and gradients of that and of repeated ones.

PyTorch decomposes them into gathers at computed positions (the padding that repeats elements, too).
Here they are slices side by side, and in the gradients slices that are added at their places.
Padding by a number that is known only at run time keeps the positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.frontends.building.arrays import ArrayBuilder, wider
from ingot.frontends.building.indexing import scatter_slices, take
from ingot.frontends.torch.fx.sizes import Size
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")


_Positions = Callable[[ArrayBuilder, Instruction, Size], Instruction]
"""Returns the positions of an axis that positions outside of it stand for; takes the last one."""


@RULES.rule("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def _reflection(op: Op, x: Instruction, padding: Sequence[Size]) -> Instruction:
    """`padding` begins at the last axis; a negative one cuts elements off."""
    b, made = op.b, x
    if 0 in op.shape.dims:
        return b.zeros(op.shape)
    for number in range(len(padding) // 2):
        axis = x.shape.rank - 1 - number
        made = _mirrored(b, made, axis, padding[2 * number :][:2], op.shape.dims[axis])
    return made


def _mirrored(
    b: ArrayBuilder, x: Instruction, axis: int, sides: Sequence[Size], wanted: Size
) -> Instruction:
    """Pad an axis, which is of the size `wanted` then."""
    size, (before, behind) = x.shape.dims[axis], sides
    if b.names_number(before) or b.names_number(behind):
        return take(b, x, _positions(b, wanted, before, size, _reflected), axis)
    (low, first), (high, last) = _parts(before), _parts(behind)
    parts = [b.sliced(x, axis, first, size - last)]
    if low != 0:
        parts.insert(0, b.reverse(b.sliced(x, axis, 1, 1 + low), dimensions=(axis,)))
    if high != 0:
        mirrored = b.sliced(x, axis, size - 1 - high, size - 1)
        parts.append(b.reverse(mirrored, dimensions=(axis,)))
    return b.concatenated(parts, axis)


@RULES.rule("reflection_pad1d_backward", "reflection_pad2d_backward", "reflection_pad3d_backward")
def _reflection_backward(
    op: Op, gradient: Instruction, x: Instruction, padding: Sequence[Size]
) -> Instruction:
    """An element gets the sum of its own gradient and of its mirror images'."""
    return _gradient(op, gradient, x, padding, (_unmirrored, _reflected))


@RULES.rule(
    "replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward"
)
def _replication_backward(
    op: Op, gradient: Instruction, x: Instruction, padding: Sequence[Size]
) -> Instruction:
    """A border element gets the sum of its copies' gradients."""
    return _gradient(op, gradient, x, padding, (_folded, _repeated))


_Fold = Callable[[ArrayBuilder, Instruction, int, "tuple[Size, Size]"], Instruction]
"""Adds the gradients of the padding before and after an axis to those of its elements."""


def _gradient(
    op: Op,
    gradient: Instruction,
    x: Instruction,
    padding: Sequence[Size],
    border: tuple[_Fold, _Positions],
) -> Instruction:
    """Return the gradient of a padding, axis by axis; `padding` begins at the last one."""
    b, (fold, positions) = op.b, border
    if 0 in (*gradient.shape.dims, *x.shape.dims):
        return b.zeros(op.shape)
    made = b.convert_to(gradient, wider(op.dtype))
    if any(map(b.names_number, padding)):
        for number in range(len(padding) // 2):
            axis = x.shape.rank - 1 - number
            made = _scattered(b, made, axis, (x.shape.dims[axis], padding[2 * number]), positions)
        return b.convert_to(made, op.dtype)
    for number in range(len(padding) // 2):
        axis = x.shape.rank - 1 - number
        (low, first), (high, last) = (_parts(item) for item in padding[2 * number :][:2])
        kept = x.shape.dims[axis] - first - last
        if isinstance(kept, int) and kept < 1:
            raise op.error("a negative padding cuts all elements off")
        made = b.padded(made, axis, first, last, b.scalar(0, made.shape.dtype))
        made = fold(b, made, axis, (low, high))
    return b.convert_to(made, op.dtype)


def _scattered(
    b: ArrayBuilder,
    gradient: Instruction,
    axis: int,
    place: tuple[Size, Size],
    positions: _Positions,
) -> Instruction:
    """Add each element along an axis to the one that it is a copy of, for a padding by a number.

    `place` is the size of the axis without padding, and what the padding puts before it.
    """
    dims, (size, before) = gradient.shape.dims, place
    numbers = _positions(b, dims[axis], before, size, positions)
    sizes = (*dims[:axis], size, *dims[axis + 1 :])
    return scatter_slices(
        b, "add", b.zeros(gradient.shape.with_dims(sizes)), numbers, gradient, axis
    )


def _positions(
    b: ArrayBuilder, count: Size, before: Size, size: Size, positions: _Positions
) -> Instruction:
    """Return the positions of an array of `size` that `count` elements of a padded one are."""
    number = b.iota_of(S64, (count,), 0)
    return positions(b, b.subtract(number, b.like(before, number.shape)), size - 1)


def _repeated(b: ArrayBuilder, number: Instruction, last: Size) -> Instruction:
    return b.minimum(b.binary("maximum", number, 0), b.like(last, number.shape))


def _reflected(b: ArrayBuilder, number: Instruction, last: Size) -> Instruction:
    at_end = b.like(last, number.shape)
    return b.subtract(at_end, b.abs(b.subtract(at_end, b.abs(number))))


def _parts(padding: Size) -> tuple[Size, int]:
    """Return how many elements are added, and how many a negative padding cuts off."""
    if isinstance(padding, int) and padding < 0:
        return 0, -padding
    return padding, 0


def _folded(
    b: ArrayBuilder, gradient: Instruction, axis: int, sides: tuple[Size, Size]
) -> Instruction:
    """Add the elements before and after an axis to its first and last element."""
    low, high = sides
    size = gradient.shape.dims[axis] - low - high
    zero = b.scalar(0, gradient.shape.dtype)
    made = b.sliced(gradient, axis, low, low + size)
    if low != 0:
        total = b.reduced("add", b.sliced(gradient, axis, 0, low), (axis,), keep=True)
        made = b.add(made, b.padded(total, axis, 0, size - 1, zero))
    if high != 0:
        behind = b.sliced(gradient, axis, low + size, low + size + high)
        total = b.reduced("add", behind, (axis,), keep=True)
        made = b.add(made, b.padded(total, axis, size - 1, 0, zero))
    return made


def _unmirrored(
    b: ArrayBuilder, gradient: Instruction, axis: int, sides: tuple[Size, Size]
) -> Instruction:
    """Add the elements before and after an axis, in reverse, to those next to its border."""
    low, high = sides
    size = gradient.shape.dims[axis] - low - high
    zero = b.scalar(0, gradient.shape.dtype)
    made = b.sliced(gradient, axis, low, low + size)
    if low != 0:
        mirrored = b.reverse(b.sliced(gradient, axis, 0, low), dimensions=(axis,))
        made = b.add(made, b.padded(mirrored, axis, 1, size - 1 - low, zero))
    if high != 0:
        behind = b.sliced(gradient, axis, low + size, low + size + high)
        mirrored = b.reverse(behind, dimensions=(axis,))
        made = b.add(made, b.padded(mirrored, axis, size - 1 - high, 1, zero))
    return made
