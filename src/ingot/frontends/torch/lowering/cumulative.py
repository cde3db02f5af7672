# SPDX-License-Identifier: Apache-2.0
"""Running sums, products, extremes and log-sum-exps along a dimension.

Sums and products are accumulated in the type that PyTorch's kernels accumulate in: f64 for f32, f32
for half floats. Extremes have the index of the last equal element; a NaN stays the extreme.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ingot.frontends.building.arrays import ArrayBuilder, index_type, neutral, wider
from ingot.frontends.building.scans import scan, scan_several
from ingot.frontends.torch.lowering.op import Op, Rule
from ingot.frontends.torch.lowering.table import RuleTable
from ingot.hlo.dtype import C64, C128, F32, F64, PRED, U8, DType
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")

_ACCUMULATED = {F32: F64, C64: C128}


def _accumulated(element: DType) -> DType:
    return _ACCUMULATED.get(element, wider(element))


def _running(opcode: str) -> Rule:
    def rule(op: Op, x: Instruction, dim: int) -> Instruction:
        b, element = op.b, op.dtype
        x = b.convert_to(b.convert_to(x, element), _accumulated(element))
        if x.shape.rank:
            start = neutral(opcode, x.shape.dtype)
            axis = op.axis(dim, x.shape.rank)
            x = scan(b, x, axis, lambda inner, y, z: inner.emit(opcode, z, y), start)
        return b.convert_to(x, element)

    return rule


RULES.add(_running("add"), "cumsum")
RULES.add(_running("multiply"), "cumprod")


def _later_extreme(
    direction: str,
) -> Callable[[ArrayBuilder, Sequence[Instruction], Sequence[Instruction]], list[Instruction]]:
    """Return the combiner of pairs (value, index): of equal ones the later, NaN before all."""

    def combine(
        b: ArrayBuilder, after: Sequence[Instruction], before: Sequence[Instruction]
    ) -> list[Instruction]:
        (new, new_index), (old, old_index) = after, before
        takes = b.compare(new, old, direction=direction)
        if new.shape.dtype.is_float:
            takes = b.or_(takes, b.compare(new, new, direction="NE"))
        return [b.select(takes, new, old), b.select(takes, new_index, old_index)]

    return combine


def _running_extreme(opcode: str, direction: str) -> Rule:
    def rule(op: Op, x: Instruction, dim: int) -> tuple[Instruction, Instruction]:
        b, element, indices = op.b, x.shape.dtype, op.shape_of(1)
        if x.shape.rank == 0:
            return x, b.zeros(indices)
        x = b.convert_to(x, U8) if element is PRED else x
        axis = op.axis(dim, x.shape.rank)
        positions = b.iota_of(index_type((x.shape.dims[axis],)), x.shape.dims, axis)
        starts = [neutral(opcode, x.shape.dtype), 0]
        found = scan_several(b, [x, positions], axis, _later_extreme(direction), starts)
        return b.convert_to(found[0], element), b.convert_to(found[1], indices.dtype)

    return rule


RULES.add(_running_extreme("maximum", "GE"), "cummax")
RULES.add(_running_extreme("minimum", "LE"), "cummin")


def log_add_exp(b: ArrayBuilder, x: Instruction, y: Instruction) -> Instruction:
    """Return log(exp x + exp y) of real numbers; equal infinities are themselves."""
    most, least = b.maximum(x, y), b.minimum(x, y)
    same = b.and_(b.compare(x, y, direction="EQ"), b.not_(b.is_finite(least)))
    added = b.add(most, b.log_plus_one(b.exponential(b.subtract(least, most))))
    return b.select(same, x, added)


@RULES.rule("logcumsumexp")
def _logcumsumexp(op: Op, x: Instruction, dim: int) -> Instruction:
    b, element = op.b, x.shape.dtype
    if element.is_complex:
        raise op.error("logcumsumexp of complex numbers")
    if x.shape.rank == 0:
        return x
    wide = b.convert_to(x, _accumulated(element))
    return b.convert_to(scan(b, wide, op.axis(dim, x.shape.rank), log_add_exp, -np.inf), element)
