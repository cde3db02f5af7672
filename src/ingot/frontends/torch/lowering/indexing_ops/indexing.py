# SPDX-License-Identifier: Apache-2.0
"""Indexing by tensors: `x[i, :, j]` and its writes, `index_select`, `gather`, `take`, embeddings.

Index tensors are broadcast together. Indexed dimensions that are neighbours become one dimension,
which costs nothing, and their indices one number; others are moved to the front.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.building.arrays import ArrayBuilder, wider
from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.building.indexing import scatter_slices, take, take_elements
from ingot.frontends.building.scans import scan
from ingot.frontends.torch.fx.sizes import Size, Sizes
from ingot.frontends.torch.lowering.context.op import Op, Rule
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.frontends.torch.lowering.indexing_ops.index_checks import (
    checked,
    fitted_mask,
    fitted_values,
    wrapped,
)
from ingot.frontends.torch.lowering.reduction_ops.reduction import vector_norm
from ingot.hlo.dim import always_positive, product
from ingot.hlo.dtype import PRED, S64, U8
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.support.records import record

RULES = RuleTable("aten")

_LEAST_NORM = 1e-7
"""What PyTorch adds to the norm of a row of an embedding that it divides by."""

Indices = Sequence[Instruction | None]


@record
class _MergedIndex:
    """The indices of `x[indices]` as one index of a merged dimension of x.

    Attributes:
        order: the dimensions of x, with the indexed ones next to each other.
        axis: the number of the first indexed one in that order.
        count: the number of indexed dimensions.
        numbers: row-major numbers within the indexed dimensions, of the broadcast sizes.
    """

    order: tuple[int, ...]
    axis: int
    count: int
    numbers: Instruction

    def merged(self, b: ArrayBuilder, x: Instruction) -> Instruction:
        """Return x with the indexed dimensions as one, at `axis`."""
        moved = b.transposed(x, self.order)
        dims, end = moved.shape.dims, self.axis + self.count
        one = product(dims[self.axis : end])
        return b.reshape_to(moved, (*dims[: self.axis], one, *dims[end:]))

    def taken_apart(self, b: ArrayBuilder, merged: Instruction, dims: Sizes) -> Instruction:
        """Undo `merged`: return an array of sizes `dims`."""
        moved = b.reshape_to(merged, tuple(dims[dim] for dim in self.order))
        return b.transposed(moved, [self.order.index(dim) for dim in range(len(dims))])


def _merged_index(op: Op, x: Instruction, indices: Indices, *, check: bool) -> _MergedIndex:
    b, dims = op.b, x.shape.dims
    used = [axis for axis, index in enumerate(indices) if index is not None]
    parts: list[Instruction] = []
    for axis in used:
        index = indices[axis]
        assert index is not None
        if index.shape.dtype in (PRED, U8):
            raise op.error("the size of the result depends on the data: the index is a mask")
        parts.append(wrapped(op, index, dims[axis], axis=axis, check=check))
    common = b.together(*parts)
    numbers = common[0]
    for axis, part in zip(used[1:], common[1:], strict=True):
        numbers = b.add(b.multiply(numbers, b.like(dims[axis], part.shape)), part)
    rest = [axis for axis in range(len(dims)) if axis not in used]
    is_together = used == list(range(used[0], used[-1] + 1))
    first = used[0] if is_together else 0
    order = (*rest[:first], *used, *rest[first:])
    return _MergedIndex(order, first, len(used), numbers)


def _index(check: bool) -> Rule:
    def rule(op: Op, x: Instruction, indices: Indices) -> Instruction:
        if all(index is None for index in indices):
            return x
        merged_index = _merged_index(op, x, indices, check=check)
        made = take(op.b, merged_index.merged(op.b, x), merged_index.numbers, merged_index.axis)
        return op.b.reshape_to(made, op.dims)

    return rule


RULES.add(_index(check=True), "index.Tensor")
RULES.add(_index(check=False), "_unsafe_index.Tensor")


def _index_put(check: bool) -> Rule:
    def rule(
        op: Op, x: Instruction, indices: Indices, values: Instruction, accumulate: bool = False
    ) -> Instruction:
        b = op.b
        used = [index for index in indices if index is not None]
        # A single number under a mask is converted; PyTorch's kernel refuses other conversions.
        fills = len(used) == 1 and used[0].shape.dtype in (PRED, U8) and values.shape.size == 1
        if values.shape.dtype is not x.shape.dtype and not fills:
            raise op.error(f"it puts {values.shape.dtype} into {x.shape.dtype}")
        values = b.convert_to(values, x.shape.dtype)
        if not used:
            spread = b.spread(values, x.shape.dims)
            return _sum_of(b, x, spread) if accumulate else spread
        if len(used) == 1 and used[0].shape.dtype in (PRED, U8):
            return _masked_put(op, x, indices, values, accumulate)
        merged_index = _merged_index(op, x, indices, check=check)
        merged = merged_index.merged(b, x)
        axis, inner = merged_index.axis, merged_index.numbers.shape.dims
        dims = (*merged.shape.dims[:axis], *inner, *merged.shape.dims[axis + 1 :])
        opcode = "update"
        if accumulate:
            opcode = "or" if x.shape.dtype is PRED else "add"
        updates = b.spread(fitted_values(op, values, dims), dims)
        made = scatter_slices(b, opcode, merged, merged_index.numbers, updates, axis)
        return merged_index.taken_apart(b, made, x.shape.dims)

    return rule


RULES.add(_index_put(check=True), "index_put")
RULES.add(_index_put(check=False), "_unsafe_index_put")


def _sum_of(b: ArrayBuilder, x: Instruction, y: Instruction) -> Instruction:
    return b.or_(x, y) if x.shape.dtype is PRED else b.add(x, y)


def _masked_put(
    op: Op, x: Instruction, indices: Indices, values: Instruction, accumulate: bool
) -> Instruction:
    """Return x with values where a mask is true; several values are used in order."""
    b, dims = op.b, x.shape.dims
    axis = next(number for number, index in enumerate(indices) if index is not None)
    found = indices[axis]
    assert found is not None
    end = axis + found.shape.rank
    mask = fitted_mask(op, b.to_pred(found), dims, axis)
    if axis or (values.shape.rank > len(dims) - end and values.shape.dims[0] != 1):
        if axis or mask.shape.rank + values.shape.rank - 1 > len(dims):
            raise op.error("a mask that does not begin at dimension 0")
        values = b.spread(values, (values.shape.dims[0], *dims[end:]))
        spread = _in_order(op, mask, values)
    else:
        narrow = values.shape.dims[values.shape.rank - min(values.shape.rank, len(dims) - end) :]
        spread = b.spread(b.reshape_to(values, narrow), dims)
    chosen = b.spread(mask, dims, tuple(range(axis, end)))
    return b.select(chosen, _sum_of(b, x, spread) if accumulate else spread, x)


def _in_order(op: Op, mask: Instruction, values: Instruction) -> Instruction:
    """Return the n-th of `values` at the n-th true element of the mask, `[mask..., rest...]`."""
    b, size = op.b, mask.shape.size
    count = b.convert_to(b.reshape_to(mask, (size,)), S64)
    number = b.binary("subtract", scan(b, count, 0, lambda c, y, z: c.add(y, z), 0), 1)
    number = b.maximum(number, b.zeros(number.shape))
    rows = values.shape.dims[0]
    enough = b.compare(b.reduced("add", count, (0,)), b.size(rows), direction="LE")
    assert_everywhere(b, enough, f"the mask is true at more than {rows} places")
    if always_positive(rows):
        number = b.minimum(number, b.like(rows - 1, number.shape))
    else:
        # Of no values the row that every element reads must exist.
        values = b.padded(values, 0, 0, 1, b.scalar(0, values.shape.dtype))
        number = b.minimum(number, b.like(rows, number.shape))
    return b.reshape_to(take(b, values, number), (*mask.shape.dims, *values.shape.dims[1:]))


@RULES.rule("masked_scatter")
def _masked_scatter(op: Op, x: Instruction, mask: Instruction, source: Instruction) -> Instruction:
    b = op.b
    chosen = b.spread(b.to_pred(mask), op.dims)
    flat = b.reshape_to(source, (source.shape.size,))
    return b.select(chosen, _in_order(op, chosen, flat), b.spread(x, op.dims))


@RULES.rule("masked_scatter_backward")
def _masked_scatter_backward(
    op: Op, dy: Instruction, mask: Instruction, sizes: object
) -> Instruction:
    """Return the gradients where the mask is true, one after the other, then zeros."""
    del sizes
    b = op.b
    chosen = b.spread(b.to_pred(mask), dy.shape.dims)
    flags = b.reshape_to(chosen, (chosen.shape.size,))
    count = b.convert_to(flags, S64)
    number = b.binary("subtract", scan(b, count, 0, lambda c, y, z: c.add(y, z), 0), 1)
    number = b.select(flags, number, b.like(-1, number.shape))
    zeros = b.zeros(Shape.array(op.dtype, (op.shape.size,)))
    flat = b.reshape_to(dy, (dy.shape.size,))
    return b.reshape_to(scatter_slices(b, "update", zeros, number, flat), op.dims)


@RULES.rule("index_select")
def _index_select(op: Op, x: Instruction, dim: int, index: Instruction) -> Instruction:
    b = op.b
    if x.shape.rank == 0:
        checked(op, index, 1)
        return b.reshape_to(x, op.dims)
    axis = op.axis(dim, x.shape.rank)
    index = b.reshape_to(index, (index.shape.size,))
    return take(b, x, checked(op, index, x.shape.dims[axis], axis=axis), axis)


@RULES.rule("gather")
def _gather(
    op: Op, x: Instruction, dim: int, index: Instruction, *, sparse_grad: bool = False
) -> Instruction:
    del sparse_grad
    b = op.b
    if x.shape.rank == 0 or index.shape.rank == 0:
        flat = b.reshape_to(x, (x.shape.size,))
        indices = checked(op, b.reshape_to(index, (index.shape.size,)), x.shape.size, axis=0)
        return b.reshape_to(take(b, flat, indices), op.dims)
    if index.shape.size == 0:
        return b.zeros(op.shape)
    axis = op.axis(dim, x.shape.rank)
    indices = checked(op, index, x.shape.dims[axis], axis=axis)
    return take_elements(b, narrowed(b, x, indices.shape.dims, axis), indices, axis)


def narrowed(b: ArrayBuilder, x: Instruction, dims: Sizes, axis: int) -> Instruction:
    """Return the front part of x that has sizes `dims`, except along `axis`."""
    for dim, size in enumerate(dims):
        if dim != axis:
            x = b.sliced(x, dim, 0, size)
    return x


@RULES.rule("take")
def _take(op: Op, x: Instruction, index: Instruction) -> Instruction:
    b, size = op.b, x.shape.size
    return take(b, b.reshape_to(x, (size,)), wrapped(op, index, size))


@RULES.rule("put")
def _put(
    op: Op, x: Instruction, index: Instruction, source: Instruction, accumulate: bool = False
) -> Instruction:
    b, size = op.b, x.shape.size
    count = index.shape.size
    flat = b.reshape_to(x, (size,))
    opcode = "update"
    if accumulate:
        opcode = "or" if x.shape.dtype is PRED else "add"
    indices = b.reshape_to(wrapped(op, index, size), (count,))
    made = scatter_slices(b, opcode, flat, indices, b.reshape_to(source, (count,)))
    return b.reshape_to(made, op.dims)


# ---- embeddings


@RULES.rule("embedding")
def _embedding(
    op: Op,
    weight: Instruction,
    indices: Instruction,
    padding_idx: Size = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Instruction:
    del padding_idx, scale_grad_by_freq, sparse  # they are of the gradient
    return take(op.b, weight, checked(op, indices, weight.shape.dims[0]))


@RULES.rule("embedding_renorm")
def _embedding_renorm(
    op: Op, weight: Instruction, indices: Instruction, max_norm: float, norm_type: float
) -> Instruction:
    """Scale the rows at the indices that have a greater norm, which is rounded as in eager's."""
    b, element = op.b, weight.shape.dtype
    rows = checked(op, b.reshape_to(indices, (indices.shape.size,)), weight.shape.dims[0])
    parts = take(b, b.convert_to(weight, wider(element)), rows)
    norm = vector_norm(op, b.abs(parts), norm_type, (1,), False)
    norm = b.convert_to(b.convert_to(norm, element), norm.shape.dtype)
    factor = b.divide(b.like(max_norm, norm.shape), b.binary("add", norm, _LEAST_NORM))
    factor = b.select(b.compared("GT", norm, max_norm), factor, b.like(1, norm.shape))
    scaled = b.multiply(parts, b.spread(factor, parts.shape.dims, (0,)))
    return scatter_slices(b, "update", weight, rows, b.convert_to(scaled, element))


@RULES.rule("embedding_dense_backward")
def _embedding_dense_backward(
    op: Op,
    dy: Instruction,
    indices: Instruction,
    num_weights: Size,
    padding_idx: Size,
    scale_grad_by_freq: bool,
) -> Instruction:
    """Sum the rows of each index; those of the padding are left out."""
    b = op.b
    count = indices.shape.size
    rows = b.reshape_to(b.convert_to(indices, S64), (count,))
    updates = b.reshape_to(b.convert_to(dy, op.dtype), (count, op.dims[1]))
    if scale_grad_by_freq:
        zeros = b.zeros(Shape.array(S64, (num_weights,)))
        found = scatter_slices(b, "add", zeros, rows, b.like(1, rows.shape))
        often = b.convert_to(take(b, found, rows), op.dtype)
        updates = b.divide(updates, b.spread(often, updates.shape.dims, (0,)))
    if padding_idx != -1:
        # An update at an index beyond the end is dropped.
        padding = b.compare(rows, b.like(padding_idx, rows.shape), direction="EQ")
        rows = b.select(padding, b.like(num_weights, rows.shape), rows)
    return scatter_slices(b, "add", b.zeros(op.shape), rows, updates)
