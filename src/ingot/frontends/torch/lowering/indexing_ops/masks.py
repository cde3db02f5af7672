# SPDX-License-Identifier: Apache-2.0
"""Indices that a mask selects, and counts of numbers, for a known size: see `passes.data_sizes`.

A scan of the mask computes the position of each selected element's index; a scatter writes it
there. Numbers are counted by a scatter.
"""

from __future__ import annotations

from ingot.frontends.building.arrays import index_type
from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.building.indexing import scatter_slices
from ingot.frontends.building.scans import scan
from ingot.frontends.torch.fx.sizes import Size
from ingot.frontends.torch.lowering.context.builder import GraphBuilder
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

RULES = RuleTable("ingot")


@RULES.rule("mask_indices")
def _mask_indices(op: Op, mask: Instruction, size: Size) -> tuple[Instruction, ...]:
    b, dims = op.b, mask.shape.dims
    count = dim_math.product(dims)
    flags = b.reshape_to(mask, (count,))
    where = scatter_indices(b, flags, size)[1]
    numbers = b.iota_of(S64, (count,), 0)
    rest = scatter_slices(b, "update", b.zeros(Shape.array(S64, (size,))), where, numbers)
    columns: list[Instruction] = []
    for extent in reversed(dims[1:]):
        divisor = b.like(extent, rest.shape)
        columns.append(b.remainder(rest, divisor))
        rest = b.divide(rest, divisor)
    return (rest, *reversed(columns))


def scatter_indices(
    b: GraphBuilder, flags: Instruction, size: Size
) -> tuple[Instruction, Instruction]:
    """Number the true elements of `pred[n]` from 0.

    Returns:
        The number of the last true element up to each element, and the same where the element is
        true and `size`, which a scatter drops, elsewhere. As narrow as n allows: what scans read
        and write is most of their time.
    """
    (count,) = flags.shape.dims
    kind = index_type((count,))
    ordinal = scan(b, b.convert_to(flags, kind), 0, lambda b, x, y: b.add(x, y), 0)
    number = b.binary("subtract", ordinal, 1)
    nowhere = b.broadcast_to(b.convert_to(b.size(size), kind), (count,))
    return number, b.select(flags, number, nowhere)


@RULES.rule("mask_coordinates")
def _mask_coordinates(op: Op, mask: Instruction, size: Size) -> Instruction:
    columns = _mask_indices(op, mask, size)
    return op.b.concatenated([op.b.reshape_to(x, (size, 1)) for x in columns], 1)


@RULES.rule("count_size")
def _count_size(op: Op, numbers: Instruction, least: Size) -> Instruction:
    """Return one more than the greatest number; of no numbers that is below any size."""
    b = op.b
    wide = b.convert_to(numbers, S64)
    if numbers.shape.size != 0:
        positive = b.compared("GE", wide, 0)
        assert_everywhere(b, positive, "bincount only supports 1-d non-negative integral inputs.")
    most = b.reduced("maximum", wide, (0,))
    return b.maximum(b.binary("add", most, 1), b.size(least))


@RULES.rule("counts")
def _counts(op: Op, numbers: Instruction, weights: Instruction | None, size: Size) -> Instruction:
    del size
    b = op.b
    ones = b.like(1, numbers.shape.with_dtype(op.dtype))
    updates = ones if weights is None else b.convert_to(weights, op.dtype)
    rows = b.convert_to(numbers, S64)
    return scatter_slices(b, "add", b.zeros(op.shape), rows, updates)
