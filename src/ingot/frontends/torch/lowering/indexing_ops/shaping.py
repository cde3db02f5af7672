# SPDX-License-Identifier: Apache-2.0
"""Ops that only move elements (views, permutations, slices, concatenation), and constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from ingot.frontends.building.arrays import wider
from ingot.frontends.building.indexing import rolled, rolled_by, take
from ingot.frontends.building.scans import scan
from ingot.frontends.torch.fx.nodes import value_of
from ingot.frontends.torch.fx.sizes import Size, is_data_symbol
from ingot.frontends.torch.lowering.context.guards import reshaped
from ingot.frontends.torch.lowering.context.op import Op, Operand, Scalar
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.frontends.torch.lowering.indexing_ops.index_checks import wrapped
from ingot.frontends.torch.lowering.indexing_ops.searching import count_up_to_each
from ingot.hlo import dim as dim_math
from ingot.hlo.dim import Dim, symbols_of
from ingot.hlo.dtype import F32, F64, PRED, S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

RULES = RuleTable("aten")

_END = 2**62
"""The greatest s64, which PyTorch writes for "to the end"."""


@RULES.rule(
    "view",
    "_unsafe_view",
    "reshape",
    "unsqueeze",
    "squeeze",
    "squeeze.dim",
    "squeeze.dims",
    "_reshape_alias",
    "view_copy",
)
def _view(op: Op, x: Instruction, *how: object) -> Instruction:
    del how  # the result's sizes
    return reshaped(op.b, x, op.dims)


@RULES.rule("expand")
def _expand(op: Op, x: Instruction, size: object, *, implicit: bool = False) -> Instruction:
    del size, implicit
    return op.b.spread(x, op.dims)


@RULES.rule("permute", "permute_copy")
def _permute(op: Op, x: Instruction, dims: Sequence[int]) -> Instruction:
    return op.b.transposed(x, [dim % x.shape.rank for dim in dims])


@RULES.rule("t")
def _t(op: Op, x: Instruction) -> Instruction:
    return op.b.transposed(x, list(range(x.shape.rank))[::-1])


@RULES.rule("transpose.int")
def _transpose(op: Op, x: Instruction, dim0: int, dim1: int) -> Instruction:
    order = list(range(x.shape.rank))
    if order:
        dim0, dim1 = dim0 % len(order), dim1 % len(order)
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return op.b.transposed(x, order)


@RULES.rule("view.dtype")
def _view_dtype(op: Op, x: Instruction, dtype: torch.dtype) -> Instruction:
    """The bits of the elements as elements of another type, fewer or more along the last axis."""
    del dtype  # the result's
    b, have, want = op.b, x.shape.dtype, op.dtype
    if have is want:
        return x
    if PRED in (have, want) or have.is_complex or want.is_complex:
        raise op.error(f"the bits of {have.name} as {want.name}")
    if have.bits == want.bits:
        return b.emit("bitcast-convert", x, shape=op.shape)
    *outer, last = x.shape.dims
    if have.bits > want.bits:
        parts = Shape.array(want, (*outer, last, have.bits // want.bits))
        return b.reshape_to(b.emit("bitcast-convert", x, shape=parts), op.dims)
    groups = reshaped(b, x, (*op.dims, want.bits // have.bits))
    return b.emit("bitcast-convert", groups, shape=op.shape)


@RULES.rule("slice.Tensor")
def _slice(
    op: Op,
    x: Instruction,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: int = 1,
) -> Instruction:
    """Negative bounds count from the end; PyTorch has computed the number of elements."""
    del end
    axis, step = op.axis(dim, x.shape.rank), op.known(step, "the step")
    size, count = x.shape.dims[axis], op.dims[axis]
    first = 0 if start is None or count == 0 else start
    if op.b.names_number(first):
        if step != 1:
            raise op.error("a step from a start that data decides")
        # PyTorch has checked that the elements are there.
        begin = wrapped(op, op.b.size(first), size, check=False)
        return op.b.window(x, axis, begin, count)
    first = op.from_front(first, axis, 2)
    if step != 1 and any(is_data_symbol(name) for name in symbols_of((count,))):
        # There may be no element: the bound behind the last one would lie before the first.
        numbers = op.b.binary("multiply", op.b.iota_of(S64, (count,), 0), step)
        starts = op.b.spread(op.b.size(first), (count,))
        return take(op.b, x, op.b.add(numbers, starts), axis)
    limit = first + (count - 1) * step + 1 if step != 1 else first + count
    return op.b.sliced(x, axis, first, limit, step)


@RULES.rule("select.int")
def _select(op: Op, x: Instruction, dim: int, index: Size) -> Instruction:
    axis = op.axis(dim, x.shape.rank)
    if op.b.names_number(index):
        start = wrapped(op, op.b.size(index), x.shape.dims[axis], axis=axis)
        return op.b.reshape_to(op.b.window(x, axis, start, 1), op.dims)
    first = op.from_front(index, axis, 2)
    return op.b.reshape_to(op.b.sliced(x, axis, first, first + 1), op.dims)


@RULES.rule("cat")
def _cat(op: Op, tensors: Sequence[Instruction], dim: int = 0) -> Instruction:
    """Tensors of shape [0] are left out, as in PyTorch."""
    b, rank = op.b, len(op.dims)
    parts = [b.convert_to(x, op.dtype) for x in tensors if x.shape.dims != (0,) or rank == 1]
    axis = op.axis(dim, rank)
    return b.concatenated(parts, axis)


@RULES.rule("split_with_sizes")
def _split_with_sizes(
    op: Op, x: Instruction, sizes: Sequence[Size], dim: int = 0
) -> tuple[Instruction, ...]:
    axis = op.axis(dim, x.shape.rank)
    parts: list[Instruction] = []
    start: Size = 0
    for size in sizes:
        parts.append(op.b.sliced(x, axis, start, start + size))
        start = start + size
    return tuple(parts)


@RULES.rule("unbind_copy.int", "unbind.int")
def _unbind(op: Op, x: Instruction, dim: int = 0) -> tuple[Instruction, ...]:
    axis = op.axis(dim, x.shape.rank)
    return tuple(
        op.b.reshape_to(op.b.sliced(x, axis, number, number + 1), op.shape_of(number).dims)
        for number in range(len(op.val))
    )


@RULES.rule("narrow_copy")
def _narrow_copy(op: Op, x: Instruction, dim: int, start: Size, length: Size) -> Instruction:
    axis = op.axis(dim, x.shape.rank)
    if op.b.names_number(start):
        begin = wrapped(op, op.b.size(start), x.shape.dims[axis], check=False)
        return op.b.window(x, axis, begin, length)
    first = op.from_front(start, axis, 2)
    return op.b.sliced(x, axis, first, first + length)


@RULES.rule("flip")
def _flip(op: Op, x: Instruction, dims: Sequence[int]) -> Instruction:
    axes = tuple(sorted(op.axis(dim, x.shape.rank) for dim in dims)) if x.shape.rank else ()
    return op.b.reverse(x, dimensions=axes) if axes else x


@RULES.rule("roll")
def _roll(op: Op, x: Instruction, shifts: Sequence[Size], dims: Sequence[int] = ()) -> Instruction:
    """Each dimension is cut in two, which change places; without `dims` all are one dimension."""
    b = op.b
    if not dims:
        flat = b.reshape_to(x, (dim_math.product(x.shape.dims),))
        return b.reshape_to(_rolled(op, flat, 0, shifts[0]), op.dims)
    if x.shape.rank == 0:
        return x
    for dim, shift in zip(dims, shifts, strict=True):
        x = _rolled(op, x, op.axis(dim, x.shape.rank), shift)
    return x


def _rolled(op: Op, x: Instruction, axis: int, shift: Size) -> Instruction:
    """Roll one dimension by a number, known or not."""
    if isinstance(shift, int):
        return rolled_by(op.b, x, shift, axis)
    return x if x.shape.dims[axis] in (0, 1) else rolled(op.b, x, op.b.size(shift), axis)


@RULES.rule("repeat")
def _repeat(op: Op, x: Instruction, repeats: Sequence[Size]) -> Instruction:
    """Each dimension is spread along a new one before it."""
    b, lead = op.b, len(repeats) - x.shape.rank
    dims = (*([1] * lead), *x.shape.dims)
    pairs = tuple(size for pair in zip(repeats, dims, strict=True) for size in pair)
    own_dims = tuple(2 * (lead + axis) + 1 for axis in range(x.shape.rank))
    return b.reshape_to(b.spread(x, pairs, own_dims), op.dims)


@RULES.rule("constant_pad_nd")
def _constant_pad_nd(op: Op, x: Instruction, pad: Sequence[Size], value: Scalar = 0) -> Instruction:
    """Pairs (before, after) from the last dimension on; negative ones cut."""
    b, rank = op.b, x.shape.rank
    fill = op.scalar(value, x.shape.dtype)
    given = op.node.args[1]
    for number in range(len(pad) // 2):
        axis = rank - 1 - number
        low, high = pad[2 * number : 2 * number + 2]
        cuts = [_cuts(item) for item in given[2 * number : 2 * number + 2]]
        if None in cuts:
            x = _padded_or_cut(op, x, axis, (low, high), fill)
            continue
        first, cut = (
            -item if is_cut else 0 for item, is_cut in zip((low, high), cuts, strict=True)
        )
        x = b.sliced(x, axis, first, x.shape.dims[axis] - cut)
        x = b.padded(x, axis, low + first, high + cut, fill)
    if x.shape.dims != op.dims and any(isinstance(item, Dim) for item in pad):
        raise op.error("PyTorch has another size for what is padded by a symbol")
    return x


def _cuts(given: Any) -> bool | None:
    """Whether a padding is negative; None if PyTorch does not know."""
    value = value_of(given)
    if isinstance(value, int):
        return value < 0
    if statically_known_true(value >= 0):
        return False
    return True if statically_known_true(value <= 0) else None


def _padded_or_cut(
    op: Op, x: Instruction, axis: int, pad: tuple[Size, Size], fill: Instruction
) -> Instruction:
    """Pad or cut an axis by sizes of either sign: elements outside are read behind the last one."""
    b, size = op.b, x.shape.dims[axis]
    number = b.iota_of(S64, (size + pad[0] + pad[1],), 0)
    number = b.subtract(number, b.like(pad[0], number.shape))
    end = b.like(size, number.shape)
    is_inside = b.and_(b.compared("GE", number, 0), b.compare(number, end, direction="LT"))
    return take(b, b.padded(x, axis, 0, 1, fill), b.select(is_inside, number, end), axis)


@RULES.rule("unfold")
def _unfold(op: Op, x: Instruction, dimension: int, size: int, step: int) -> Instruction:
    """Windows of a dimension, which becomes their number; their elements are a last dimension."""
    b, rank = op.b, x.shape.rank
    if rank == 0:
        return b.sliced(b.reshape_to(x, (1,)), 0, 0, size)
    axis = op.axis(dimension, rank)
    dims = (op.dims[axis], size)
    start = b.binary("multiply", b.iota_of(S64, dims, 0), step)
    made = take(b, x, b.add(start, b.iota_of(S64, dims, 1)), axis)
    order = [other for other in range(rank + 1) if other != axis + 1]
    return b.transposed(made, [*order, axis + 1])


@RULES.rule("copy")
def _copy(op: Op, x: Instruction, source: Operand, non_blocking: bool = False) -> Instruction:
    del x, non_blocking
    return op.b.spread(op.operand(source, op.dtype), op.dims)


@RULES.rule("lift")
def _lift(op: Op, x: Instruction) -> Instruction:
    del op
    return x


@RULES.rule("repeat_interleave.Tensor")
def _repeat_interleave(
    op: Op, repeats: Instruction, *, output_size: Size | None = None
) -> Instruction:
    """Return each row's number, repeated as often as given."""
    if output_size is None:
        raise op.error("the size of the result depends on the data", "give output_size")
    b = op.b
    ends = scan(b, b.convert_to(repeats, S64), 0, lambda c, y, z: c.add(y, z), 0)
    return b.convert_to(count_up_to_each(b, ends, output_size), op.dtype)


# ---- constants


@RULES.rule(
    "empty.memory_format", "empty_permuted", "empty_strided", "empty_like", "new_empty_strided"
)
def _empty(op: Op, *given: Any) -> Instruction:
    """Return zeros: PyTorch promises nothing about the elements."""
    del given
    return op.b.zeros(op.shape)


@RULES.rule("_efficientzerotensor", "_new_zeros_with_same_feature_meta")
def _zeros(op: Op, *given: Any, **options: Any) -> Instruction:
    del given, options
    return op.b.zeros(op.shape)


@RULES.rule("full", "full_like", "scalar_tensor", "new_full")
def _full(op: Op, *given: Any) -> Instruction:
    value: Scalar = given[-1]
    if isinstance(value, Dim):
        return op.b.spread(op.b.scalar(value, op.dtype), op.dims)
    return op.b.spread(op.scalar(value, op.dtype), op.dims)


@RULES.rule("arange.start_step", "range.step", "range")
def _arange(op: Op, start: Scalar, end: Scalar, step: Scalar = 1) -> Instruction:
    """Floats are computed in a wider type and rounded once, as PyTorch's kernels do."""
    del end
    b, element = op.b, op.dtype
    wide = F64 if element is F32 else wider(element)
    index = b.iota_of(wide, op.dims, 0)
    if step != 1:
        index = b.multiply(index, b.spread(op.scalar(step, wide), op.dims))
    made = index if start == 0 else b.add(index, b.spread(op.scalar(start, wide), op.dims))
    return b.convert_to(made, element)
