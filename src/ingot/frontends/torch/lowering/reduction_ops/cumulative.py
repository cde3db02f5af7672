# SPDX-License-Identifier: Apache-2.0
"""Running sums, products, extremes and log-sum-exps along a dimension.

Sums and products are accumulated in the type that PyTorch's kernels accumulate in: f64 for f32, f32
for half floats. Extremes have the index of the last equal element; a NaN stays the extreme.
"""

from __future__ import annotations

import numpy as np

from ingot.frontends.building.arrays import ArrayBuilder, index_type, neutral, wider
from ingot.frontends.building.indexing import take_elements
from ingot.frontends.building.scans import scan
from ingot.frontends.torch.lowering.context.op import Op, Rule
from ingot.frontends.torch.lowering.context.table import RuleTable
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


def _running_extreme(opcode: str) -> Rule:
    """Return the rule of running extremes: where an element equals the running one, it is that.

    Two scans of one operand each go in lanes; of pairs of an element and its index a scan goes from
    one to the next. What is returned is the element itself, with its own sign of zero.
    """

    def rule(op: Op, x: Instruction, dim: int) -> tuple[Instruction, Instruction]:
        b, element, indices = op.b, x.shape.dtype, op.shape_of(1)
        if x.shape.rank == 0 or 0 in x.shape.dims:
            return x, b.zeros(indices)
        x = b.convert_to(x, U8) if element is PRED else x
        axis = op.axis(dim, x.shape.rank)

        def running(given: Instruction, what: str) -> Instruction:
            start = neutral(what, given.shape.dtype)
            return scan(b, given, axis, lambda inner, y, z: inner.emit(what, z, y), start)

        most = running(x, opcode)
        takes = b.compare(x, most, direction="EQ")
        if element.is_float:
            takes = b.or_(takes, b.compare(x, x, direction="NE"))
        positions = b.iota_of(index_type((x.shape.dims[axis],)), x.shape.dims, axis)
        found = running(b.select(takes, positions, b.zeros(positions.shape)), "maximum")
        values = take_elements(b, x, found, axis) if element.is_float else most
        return b.convert_to(values, element), b.convert_to(found, indices.dtype)

    return rule


RULES.add(_running_extreme("maximum"), "cummax")
RULES.add(_running_extreme("minimum"), "cummin")


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
