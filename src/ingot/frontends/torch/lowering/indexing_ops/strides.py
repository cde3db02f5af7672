# SPDX-License-Identifier: Apache-2.0
"""Views by strides, and writes into parts of a tensor: `as_strided`, `slice_scatter`.

The storage of a tensor is its array in memory, by PyTorch's own strides. A view that is a dense
part of it, in any order of dimensions, is a slice; others are gathered.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.building.indexing import scatter_slices, take
from ingot.frontends.torch.fx.layout import MemoryLayout, layout_of
from ingot.frontends.torch.fx.sizes import Size, Sizes, size_of
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.frontends.torch.lowering.indexing_ops.index_checks import fitted_values, wrapped
from ingot.hlo.dim import product
from ingot.hlo.dtype import PRED, S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

RULES = RuleTable("aten")


def _storage(op: Op) -> tuple[MemoryLayout, Size]:
    """Return the layout of the first argument in memory, and its offset in its storage."""
    node = op.node.args[0]
    layout = layout_of(node)
    if layout.order is None or layout.repeats:
        raise op.error("the tensor has gaps in memory or repeats its elements")
    return layout, size_of(node.meta["val"].storage_offset())


def _start(op: Op, size: Sizes, stride: Sizes, offset: Size | None, layout: MemoryLayout) -> Size:
    """Return the offset of a view in the array, after a check that the view is inside."""
    own = _storage(op)[1]
    start = (own if offset is None else offset) - own
    last = start + sum(((n - 1) * step for n, step in zip(size, stride, strict=True)), 0)
    whole = product(layout.sizes)
    if 0 not in size and isinstance(start, int) and isinstance(last - whole, int):
        outside = last - whole
        if start < 0 or (isinstance(outside, int) and outside >= 0):
            raise op.error("the view reaches beyond the tensor in its storage")
    elif own != 0:
        raise op.error("a view of symbolic size into the storage of a view")
    return start


def _flat_storage(
    op: Op, x: Instruction, size: Sizes, stride: Sizes, offset: Size | None
) -> tuple[MemoryLayout, Instruction, Size]:
    """Return x's layout, its elements in the order of memory, and where in them a view begins."""
    layout = _storage(op)[0]
    flat = op.b.reshape_to(layout.array_of(op.b, x), (product(layout.sizes),))
    return layout, flat, _start(op, size, stride, offset, layout)


def _offsets(op: Op, size: Sizes, stride: Sizes, start: Size) -> Instruction:
    """Return the offset of each element of a view in the flat array."""
    b = op.b
    made = b.like(start, Shape.array(S64, size))
    for axis, step in enumerate(stride):
        if size[axis] != 1 and step != 0:
            part = b.multiply(b.iota_of(S64, size, axis), b.like(step, made.shape))
            made = b.add(made, part)
    return made


@RULES.rule("as_strided", "as_strided_copy")
def _as_strided(
    op: Op,
    x: Instruction,
    size: Sequence[Size],
    stride: Sequence[Size],
    storage_offset: Size | None = None,
) -> Instruction:
    b, dims, steps = op.b, tuple(size), tuple(stride)
    _, flat, start = _flat_storage(op, x, dims, steps, storage_offset)
    view = MemoryLayout.of(dims, steps)
    if view.order is None:
        return take(b, flat, _offsets(op, dims, steps, start))
    part = b.sliced(flat, 0, start, start + product(view.array_dims))
    return view.tensor_of(b, b.reshape_to(part, view.array_dims))


@RULES.rule("as_strided_scatter")
def _as_strided_scatter(
    op: Op,
    x: Instruction,
    source: Instruction,
    size: Sequence[Size],
    stride: Sequence[Size],
    storage_offset: Size | None = None,
) -> Instruction:
    b, dims, steps = op.b, tuple(size), tuple(stride)
    layout, flat, start = _flat_storage(op, x, dims, steps, storage_offset)
    count = product(dims)
    offsets = b.reshape_to(_offsets(op, dims, steps, start), (count,))
    source = fitted_values(op, source, dims)
    updates = b.convert_to(b.reshape_to(source, (count,)), x.shape.dtype)
    made = scatter_slices(b, "update", flat, offsets, updates)
    return layout.tensor_of(b, b.reshape_to(made, layout.array_dims))


@RULES.rule("slice_scatter")
def _slice_scatter(
    op: Op,
    x: Instruction,
    source: Instruction,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: Size = 1,
) -> Instruction:
    """Each element of the slice comes from the source, all others from x."""
    del end
    b, axis, dims = op.b, op.axis(dim, x.shape.rank), x.shape.dims
    source = b.convert_to(source, x.shape.dtype)
    source = b.spread(source, (*dims[:axis], source.shape.dims[axis], *dims[axis + 1 :]))
    count, whole = source.shape.dims[axis], dims[axis]
    if count == 0:
        return x
    first = 0 if start is None else start
    if b.names_number(first):
        if step != 1:
            raise op.error("a step from a start that data decides")
        # A start before the first element or behind the last is that of what there is.
        begin = wrapped(op, b.size(first), whole, check=False)
        return b.update_at(x, source, axis, begin)
    first = op.from_front(first, axis, 3)
    if step == 1:
        if first == 0 and count == whole:
            return source
        return b.update_at(x, source, axis, b.size(first))
    line = Shape.array(S64, (whole,))
    number = b.subtract(b.iota_of(S64, (whole,), 0), b.like(first, line))
    index = b.divide(number, b.like(step, line))
    on_step = b.compare(b.multiply(index, b.like(step, line)), number, direction="EQ")
    inside = b.and_(b.compared("GE", number, 0), b.and_(on_step, _below(op, index, count)))
    index = b.select(inside, index, b.zeros(line))
    chosen = b.spread(inside, x.shape.with_dtype(PRED).dims, (axis,))
    return b.select(chosen, take(b, source, index, axis), x)


def _below(op: Op, index: Instruction, count: Size) -> Instruction:
    return op.b.compare(index, op.b.like(count, index.shape), direction="LT")
