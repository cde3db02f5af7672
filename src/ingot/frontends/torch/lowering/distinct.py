# SPDX-License-Identifier: Apache-2.0
"""The distinct elements of an array, for sizes known: see `data_sizes`.

Equal elements lie side by side after a sort; a run of them is one distinct element, whose number
is that of the runs before it. Each NaN is a run, as in PyTorch, and of equal elements the first
stands for all.
"""

from __future__ import annotations

from ingot.frontends.building.arrays import index_type
from ingot.frontends.building.indexing import scatter_slices, take
from ingot.frontends.building.scans import scan
from ingot.frontends.torch.lowering.op import Op
from ingot.frontends.torch.lowering.sorting import sorted_along
from ingot.frontends.torch.lowering.table import RuleTable
from ingot.frontends.torch.sizes import Size
from ingot.hlo.dtype import PRED, S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

RULES = RuleTable("ingot")


@RULES.rule("runs")
def _runs(op: Op, x: Instruction, is_sorted: bool) -> tuple[Instruction, ...]:
    b, (count,) = op.b, op.shape_of(0).dims
    values = b.reshape_to(x, (count,))
    order = b.iota_of(index_type((count,)), (count,), 0)
    if is_sorted:
        if x.shape.dtype.is_complex:
            raise op.error("complex numbers have no order")
        values, order = sorted_along(b, values, 0)
    before, after = b.sliced(values, 0, 0, count - 1), b.sliced(values, 0, 1, count)
    changes = b.compare(after, before, direction="NE")
    starts = b.padded(changes, 0, 1, 0, b.constant(True, PRED))
    return values, b.convert_to(order, S64), starts


@RULES.rule("distinct")
def _distinct(
    op: Op, values: Instruction, order: Instruction, starts: Instruction, size: Size
) -> tuple[Instruction, ...]:
    b, (count,) = op.b, values.shape.dims
    ordinal = scan(b, b.convert_to(starts, S64), 0, lambda b, x, y: b.add(x, y), 0)
    number = b.binary("subtract", ordinal, 1)
    # An index out of range is dropped.
    where = b.select(starts, number, b.like(size, number.shape))
    positions = b.iota_of(S64, (count,), 0)
    firsts = scatter_slices(b, "update", b.zeros(Shape.array(S64, (size,))), where, positions)
    inverse, counts = (b.zeros(op.shape_of(n)) for n in (1, 2))
    if inverse.shape.size != 0:
        found = scatter_slices(b, "update", b.zeros(number.shape), order, number)
        inverse = b.reshape_to(found, inverse.shape.dims)
    if counts.shape.dims != (0,):
        # The run of a number ends where the next one begins.
        following = b.concatenated([firsts, b.like(count, Shape.array(S64, (1,)))], 0)
        counts = b.subtract(b.sliced(following, 0, 1, size + 1), firsts)
    return take(b, values, firsts), inverse, counts
