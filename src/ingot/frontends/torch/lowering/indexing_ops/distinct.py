# SPDX-License-Identifier: Apache-2.0
"""The distinct elements of an array, or slices of it: see `passes.data_sizes`.

Equal ones lie side by side after a sort; a run of them is one distinct element, whose number is
that of the runs before it. Each NaN is a run, as in PyTorch, and of equal elements the first stands
for all. Slices are sorted by their elements in order: by the last first, each time stably.
"""

from __future__ import annotations

from ingot.frontends.building.arrays import index_type
from ingot.frontends.building.indexing import row_at, scatter_slices, take
from ingot.frontends.torch.fx.sizes import Size
from ingot.frontends.torch.lowering.context.builder import GraphBuilder
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.frontends.torch.lowering.indexing_ops.masks import scatter_indices
from ingot.frontends.torch.lowering.reduction_ops.sorting import sorted_along
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

RULES = RuleTable("ingot")


@RULES.rule("sorted")
def _sorted(op: Op, x: Instruction, dim: int | None) -> tuple[Instruction, Instruction]:
    b = op.b
    if x.shape.dtype.is_complex:
        raise op.error("complex numbers have no order")
    values = _slices_first(b, x, dim)
    if values.shape.rank == 1:
        values, order = sorted_along(b, values, 0)
    else:
        count = values.shape.dims[0]
        order = _order_of_slices(b, values, b.iota_of(index_type((count,)), (count,), 0))
        values = take(b, values, order)
    return _slices_in_place(b, values, dim), b.convert_to(order, S64)


@RULES.rule("starts")
def _starts(op: Op, x: Instruction, dim: int | None) -> Instruction:
    b = op.b
    values = _slices_first(b, x, dim)
    count, *rest = values.shape.dims
    none = b.zeros(values.shape.with_dims((1, *rest)))
    before = b.sliced(b.concatenated([none, values], 0), 0, 0, count)
    changes = b.compare(values, before, direction="NE")
    if rest:
        changes = b.reduced("or", changes, tuple(range(1, values.shape.rank)))
    first = b.compared("EQ", b.iota_of(S64, (count,), 0), 0)
    return b.or_(changes, first)


def _slices_first(b: GraphBuilder, x: Instruction, dim: int | None) -> Instruction:
    """Return the elements of an array in a row, or its slices along a dimension as rows."""
    if dim is None:
        return b.reshape_to(x, (dim_math.product(x.shape.dims),))
    return b.transposed(x, (dim, *(axis for axis in range(x.shape.rank) if axis != dim)))


def _slices_in_place(b: GraphBuilder, values: Instruction, dim: int | None) -> Instruction:
    """Return rows as slices along a dimension; elements as they are."""
    if dim is None:
        return values
    rest = list(range(1, values.shape.rank))
    return b.transposed(values, (*rest[:dim], 0, *rest[dim:]))


def _order_of_slices(b: GraphBuilder, values: Instruction, order: Instruction) -> Instruction:
    """Return the indices of slices in order: a loop over their elements, from the last on."""
    count = values.shape.dims[0]
    width = dim_math.product(values.shape.dims[1:])
    columns = b.transposed(b.reshape_to(values, (count, width)), (1, 0))

    def goes_on(inner: GraphBuilder, state: list[Instruction]) -> Instruction:
        return inner.compare(state[0], inner.constant(0, S64), direction="GT")

    def body(inner: GraphBuilder, state: list[Instruction]) -> list[Instruction]:
        left, order, columns = state
        number = inner.subtract(left, inner.constant(1, S64))
        column = take(inner, row_at(inner, columns, number), order)
        return [number, take(inner, order, sorted_along(inner, column, 0)[1]), columns]

    return b.loop([b.size(width), order, columns], goes_on, body)[1]


@RULES.rule("distinct")
def _distinct(
    op: Op,
    x: Instruction,
    order: Instruction | None,
    starts: Instruction,
    size: Size,
    dim: int | None,
) -> tuple[Instruction, ...]:
    b = op.b
    values = _slices_first(b, x, dim)
    count = values.shape.dims[0]
    number, where = scatter_indices(b, starts, size)
    inverse, counts = (b.zeros(op.shape_of(n)) for n in (1, 2))
    if inverse.shape.size != 0:
        found = b.convert_to(number, S64)
        if order is not None:
            found = scatter_slices(b, "update", b.zeros(found.shape), order, found)
        inverse = b.reshape_to(found, inverse.shape.dims)
    if counts.shape.dims == (0,) and values.shape.rank == 1:
        empty = b.zeros(values.shape.with_dims((size,)))
        return scatter_slices(b, "update", empty, where, values), inverse, counts
    positions = b.iota_of(S64, (count,), 0)
    firsts = scatter_slices(b, "update", b.zeros(Shape.array(S64, (size,))), where, positions)
    if counts.shape.dims != (0,):
        # The run of a number ends where the next one begins.
        following = b.concatenated([firsts, b.like(count, Shape.array(S64, (1,)))], 0)
        counts = b.subtract(b.sliced(following, 0, 1, size + 1), firsts)
    return _slices_in_place(b, take(b, values, firsts), dim), inverse, counts
