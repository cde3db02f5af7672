# SPDX-License-Identifier: Apache-2.0
"""The indices of the elements that a mask selects, if their number is known: see `torch.masks`.

A scan of the mask computes the position of each selected element's index; a scatter writes it
there.
"""

from __future__ import annotations

from ingot.frontends.building.indexing import scatter_slices
from ingot.frontends.building.scans import scan
from ingot.frontends.torch.lowering.op import Op
from ingot.frontends.torch.lowering.table import RuleTable
from ingot.frontends.torch.sizes import Size
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
    before = scan(b, b.convert_to(flags, S64), 0, lambda b, x, y: b.add(x, y), 0)
    # An index out of range is dropped.
    where = b.select(flags, b.binary("subtract", before, 1), b.like(size, before.shape))
    numbers = b.iota_of(S64, (count,), 0)
    rest = scatter_slices(b, "update", b.zeros(Shape.array(S64, (size,))), where, numbers)
    columns: list[Instruction] = []
    for extent in reversed(dims[1:]):
        divisor = b.like(extent, rest.shape)
        columns.append(b.remainder(rest, divisor))
        rest = b.divide(rest, divisor)
    return (rest, *reversed(columns))


@RULES.rule("mask_coordinates")
def _mask_coordinates(op: Op, mask: Instruction, size: Size) -> Instruction:
    columns = _mask_indices(op, mask, size)
    return op.b.concatenated([op.b.reshape_to(x, (size, 1)) for x in columns], 1)
