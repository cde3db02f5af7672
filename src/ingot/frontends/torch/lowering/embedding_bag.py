# SPDX-License-Identifier: Apache-2.0
"""Bags of embeddings: the rows of each bag are summed, averaged, or their maxima taken.

Source: torch/native/EmbeddingBag.cpp.
"""

from __future__ import annotations

from ingot.frontends.building.indexing import scatter_slices, take
from ingot.frontends.torch.lowering.index_checks import checked
from ingot.frontends.torch.lowering.op import Op
from ingot.frontends.torch.lowering.searching import count_before
from ingot.frontends.torch.lowering.table import RuleTable
from ingot.frontends.torch.sizes import Size
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

RULES = RuleTable("aten")

_SUM, _MEAN, _MAX = range(3)


def _counted(op: Op, numbers: Instruction, bags: Size) -> Instruction:
    ones = op.b.like(1, numbers.shape)
    return scatter_slices(op.b, "add", op.b.zeros(Shape.array(S64, (bags,))), numbers, ones)


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
    """Return the bags, the bag of each index, the size of each bag, and indices of maxima."""
    del scale_grad_by_freq, sparse, include_last_offset  # the result's sizes say the last
    if mode == _MAX:
        raise op.error("the mode max")
    b, shapes = op.b, [op.shape_of(number) for number in range(4)]
    bags, width = shapes[0].dims
    rows = checked(op, indices, weight.shape.dims[0])
    (count,) = rows.shape.dims
    starts = b.sliced(b.convert_to(offsets, S64), 0, 0, bags)
    numbers = b.binary(
        "subtract", count_before(b, starts, b.iota_of(S64, (count,), 0), right=True), 1
    )
    target = numbers
    if padding_idx >= 0:
        # A place beyond the end is dropped.
        padding = b.compared("EQ", rows, padding_idx)
        target = b.select(padding, b.like(bags, rows.shape), numbers)
    parts = take(b, weight, rows)
    if per_sample_weights is not None:
        scales = b.convert_to(per_sample_weights, parts.shape.dtype)
        parts = b.multiply(parts, b.spread(scales, (count, width), (0,)))
    made = scatter_slices(b, "add", b.zeros(shapes[0]), target, parts)
    sizes = _counted(op, target, bags)
    if mode == _MEAN:
        least = b.convert_to(b.maximum(sizes, b.like(1, sizes.shape)), made.shape.dtype)
        made = b.divide(made, b.spread(least, made.shape.dims, (0,)))
    found = [made, numbers, sizes, b.zeros(shapes[3])]
    return tuple(
        b.convert_to(_fitted(op, item, shape), shape.dtype)
        for item, shape in zip(found, shapes, strict=True)
    )


def _fitted(op: Op, item: Instruction, shape: Shape) -> Instruction:
    """Return a table that PyTorch leaves out for some modes as an empty one there."""
    if item.shape.dims == shape.dims:
        return item
    if shape.dims == (0,):
        return op.b.zeros(shape)
    raise op.error(f"a result of shape {shape}")


@RULES.rule("_embedding_bag_dense_backward")
def _embedding_bag_dense_backward(
    op: Op,
    dy: Instruction,
    indices: Instruction,
    offset2bag: Instruction,
    bag_size: Instruction,
    maximum_indices: Instruction,
    num_weights: Size,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Instruction | None,
    padding_idx: int = -1,
) -> Instruction:
    """Sum each bag's gradient into the rows that it was made of."""
    del maximum_indices
    if mode == _MAX or offset2bag.shape.dims != indices.shape.dims:
        raise op.error("the mode max, or bags whose indices are not known")
    b = op.b
    rows, bags = b.convert_to(indices, S64), b.convert_to(offset2bag, S64)
    updates = take(b, dy, bags)
    dims = updates.shape.dims
    if per_sample_weights is not None:
        scales = b.convert_to(per_sample_weights, dy.shape.dtype)
        updates = b.multiply(updates, b.spread(scales, dims, (0,)))
    if scale_grad_by_freq:
        often = take(b, _counted(op, rows, num_weights), rows)
        updates = b.divide(updates, b.spread(b.convert_to(often, dy.shape.dtype), dims, (0,)))
    if mode == _MEAN:
        sizes = b.maximum(take(b, b.convert_to(bag_size, S64), bags), b.like(1, bags.shape))
        updates = b.divide(updates, b.spread(b.convert_to(sizes, dy.shape.dtype), dims, (0,)))
    if padding_idx >= 0:
        padding = b.compared("EQ", rows, padding_idx)
        rows = b.select(padding, b.like(num_weights, rows.shape), rows)
    return scatter_slices(b, "add", b.zeros(op.shape), rows, updates)
