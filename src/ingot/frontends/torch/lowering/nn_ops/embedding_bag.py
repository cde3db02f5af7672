# SPDX-License-Identifier: Apache-2.0
"""Bags of embeddings: the rows of each bag are summed or averaged, or the maxima; gradients.

The bag of an index follows from the number of bags that begin up to it. The backward op reads
none of the forward kernel's tables but that of maxima, since PyTorch leaves some of them out. Half
types are summed in f32.

Source: torch/native/EmbeddingBag.cpp.
"""

from __future__ import annotations

from ingot.frontends.building.arrays import neutral, wider
from ingot.frontends.building.indexing import scatter_elements, scatter_slices, take
from ingot.frontends.torch.fx.sizes import Size
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.frontends.torch.lowering.indexing_ops.index_checks import checked
from ingot.frontends.torch.lowering.indexing_ops.searching import count_up_to_each
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

RULES = RuleTable("aten")

_SUM, _MEAN, _MAX = range(3)


def _counted(op: Op, numbers: Instruction, size: Size) -> Instruction:
    """Return the number of occurrences of each number in 0..size."""
    ones = op.b.like(1, numbers.shape)
    return scatter_slices(op.b, "add", op.b.zeros(Shape.array(S64, (size,))), numbers, ones)


def _bags(op: Op, offsets: Instruction, bags: Size, count: Size) -> Instruction:
    """Return the bag of each of `count` indices, given where the bags begin."""
    b = op.b
    starts = b.sliced(b.convert_to(offsets, S64), 0, 0, bags)
    return b.binary("subtract", count_up_to_each(b, starts, count), 1)


def _without(
    op: Op, rows: Instruction, padding_idx: int, numbers: Instruction, size: Size
) -> Instruction:
    """Return `numbers` with those of the padding replaced by `size`, which a scatter drops."""
    if padding_idx < 0:
        return numbers
    padding = op.b.compared("EQ", rows, padding_idx)
    return op.b.select(padding, op.b.like(size, rows.shape), numbers)


def _fitted(op: Op, item: Instruction, shape: Shape) -> Instruction:
    """Return a table with PyTorch's size: empty if it is left out, else padded with zeros."""
    if item.shape.dims == shape.dims:
        return item
    if shape.dims == (0,):
        return op.b.zeros(shape)
    more = shape.dims[0] - item.shape.dims[0]
    return op.b.padded(item, 0, 0, more, op.b.constant(0, item.shape.dtype))


def _maxima(
    op: Op,
    parts: Instruction,
    rows: Instruction,
    numbers: Instruction,
    target: Instruction,
    sizes: Instruction,
) -> tuple[Instruction, Instruction]:
    """Return each bag's greatest elements, and the rows of the first ones; 0 for empty bags.

    As in PyTorch's kernel, NaN is the greatest element where it is the first one, else it is none.

    Args:
        op: the op.
        parts: the row of each index, `[count, width]`.
        rows: the indices.
        numbers: the bag of each.
        target: the same, beyond the last bag for the padding.
        sizes: the number of indices in each bag, without the padding.
    """
    b, (count, width), (bags,) = op.b, parts.shape.dims, sizes.shape.dims
    shape, index_shape = parts.shape.with_dims((bags, width)), Shape.array(S64, (bags, width))
    if count == 0:
        return b.zeros(shape), b.zeros(index_shape)
    least = neutral("maximum", parts.shape.dtype)
    begin = b.like(count, sizes.shape)
    begin = scatter_slices(b, "minimum", begin, target, b.iota_of(S64, (count,), 0))
    begin = b.minimum(begin, b.like(count - 1, begin.shape))
    one = take(b, parts, begin)
    is_nan = b.compare(one, one, direction="NE")
    numeric = b.compare(parts, parts, direction="EQ")
    parts = b.select(numeric, parts, b.like(least, parts.shape))
    made = scatter_slices(b, "maximum", b.like(least, shape), target, parts)
    is_made = b.compare(parts, take(b, made, numbers), direction="EQ")
    wide = parts.shape.with_dtype(S64)
    position = b.select(is_made, b.iota_of(S64, wide.dims, 0), b.like(count, wide))
    first = scatter_slices(b, "minimum", b.like(count, index_shape), target, position)
    first = b.minimum(first, b.like(count - 1, index_shape))
    first = b.select(is_nan, b.spread(begin, index_shape.dims, (0,)), first)
    chosen = take(b, rows, first)
    filled = b.spread(b.compared("GT", sizes, 0), index_shape.dims, (0,))
    made = b.select(is_nan, one, made)
    return b.select(filled, made, b.zeros(shape)), b.select(filled, chosen, b.zeros(index_shape))


@RULES.rule("_embedding_bag", "_embedding_bag_forward_only")
def _embedding_bag(
    op: Op,
    weight: Instruction,
    indices: Instruction,
    offsets: Instruction,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Instruction | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Instruction, ...]:
    """Return the bags, the bag of each index, the size of each bag, and indices of maxima.

    As in PyTorch's kernel, sizes are zeros for sums, and indices of maxima are the sizes but for
    the mode max.
    """
    del scale_grad_by_freq, sparse, include_last_offset  # the result's sizes say the last
    b, shapes = op.b, [op.shape_of(number) for number in range(4)]
    bags, width = shapes[0].dims
    rows = checked(op, indices, weight.shape.dims[0])
    (count,) = rows.shape.dims
    numbers = _bags(op, offsets, bags, count)
    target = _without(op, rows, padding_idx, numbers, bags)
    parts = take(b, b.convert_to(weight, wider(weight.shape.dtype)), rows)
    if per_sample_weights is not None:
        scales = b.convert_to(per_sample_weights, parts.shape.dtype)
        parts = b.multiply(parts, b.spread(scales, (count, width), (0,)))
    sizes = b.zeros(Shape.array(S64, (bags,))) if mode == _SUM else _counted(op, target, bags)
    if mode == _MAX:
        made, greatest = _maxima(op, parts, rows, numbers, target, sizes)
    else:
        start = b.zeros(shapes[0].with_dtype(parts.shape.dtype))
        made, greatest = scatter_slices(b, "add", start, target, parts), sizes
    if mode == _MEAN:
        least = b.convert_to(b.maximum(sizes, b.like(1, sizes.shape)), made.shape.dtype)
        made = b.divide(made, b.spread(least, made.shape.dims, (0,)))
    found = [made, numbers, sizes, greatest]
    return tuple(
        b.convert_to(_fitted(op, item, shape), shape.dtype)
        for item, shape in zip(found, shapes, strict=True)
    )


@RULES.rule("_embedding_bag_backward")
def _embedding_bag_backward(
    op: Op,
    dy: Instruction,
    indices: Instruction,
    offsets: Instruction,
    offset2bag: Instruction,
    bag_size: Instruction,
    maximum_indices: Instruction,
    num_weights: Size,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Instruction | None,
    padding_idx: int = -1,
) -> Instruction:
    """Sum each bag's gradient into the rows of the bag."""
    del offset2bag, bag_size
    if sparse:
        raise op.error("a sparse gradient")
    b, (bags, width) = op.b, dy.shape.dims
    dy = b.convert_to(dy, wider(dy.shape.dtype))
    rows = b.convert_to(indices, S64)
    (count,) = rows.shape.dims
    numbers = _bags(op, offsets, bags, count)
    start = b.zeros(op.shape.with_dtype(dy.shape.dtype))
    if mode == _MAX:
        sizes = _counted(op, _without(op, rows, padding_idx, numbers, bags), bags)
        filled = b.spread(b.compared("GT", sizes, 0), dy.shape.dims, (0,))
        beyond = b.like(num_weights, dy.shape.with_dtype(S64))
        target = b.select(filled, b.convert_to(maximum_indices, S64), beyond)
        made = start if num_weights == 0 else scatter_elements(b, "add", start, target, dy, 0)
        return b.convert_to(made, op.dtype)
    updates, dims = take(b, dy, numbers), (count, width)
    if per_sample_weights is not None:
        scales = b.convert_to(per_sample_weights, dy.shape.dtype)
        updates = b.multiply(updates, b.spread(scales, dims, (0,)))
    if scale_grad_by_freq:
        often = take(b, _counted(op, rows, num_weights), rows)
        updates = b.divide(updates, b.spread(b.convert_to(often, dy.shape.dtype), dims, (0,)))
    if mode == _MEAN:
        sizes = _counted(op, _without(op, rows, padding_idx, numbers, bags), bags)
        sizes = b.maximum(take(b, sizes, numbers), b.like(1, numbers.shape))
        updates = b.divide(updates, b.spread(b.convert_to(sizes, dy.shape.dtype), dims, (0,)))
    target = _without(op, rows, padding_idx, rows, num_weights)
    return b.convert_to(scatter_slices(b, "add", start, target, updates), op.dtype)


@RULES.rule("_embedding_bag_per_sample_weights_backward")
def _per_sample_weights_backward(
    op: Op,
    dy: Instruction,
    weight: Instruction,
    indices: Instruction,
    offsets: Instruction,
    offset2bag: Instruction,
    mode: int,
    padding_idx: int = -1,
) -> Instruction:
    """Return the product of each row with the gradient of its bag; 0 for the padding."""
    del offset2bag, mode
    b = op.b
    rows = b.convert_to(indices, S64)
    numbers = _bags(op, offsets, dy.shape.dims[0], rows.shape.dims[0])
    wide = wider(dy.shape.dtype)
    bags, parts = (
        b.convert_to(take(b, x, chosen), wide) for x, chosen in ((dy, numbers), (weight, rows))
    )
    made = b.summed(b.multiply(bags, parts), (1,))
    if padding_idx >= 0:
        made = b.select(b.compared("EQ", rows, padding_idx), b.zeros(made.shape), made)
    return b.convert_to(made, op.dtype)
