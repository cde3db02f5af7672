# SPDX-License-Identifier: Apache-2.0
"""Complex numbers: parts, conjugates, angles.

PyTorch delays conjugation and negation by a mark on the tensor; here they are computed immediately,
and `launches.wrapper` resolves the marks of arguments.
"""

from __future__ import annotations

import math

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.frontends.building.complex_parts import complex_of, pairs_of
from ingot.frontends.building.products import conjugate
from ingot.frontends.torch.lowering.context.op import Op, Operand
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")


@RULES.rule("view_as_real", "view_as_real_copy")
def _view_as_real(op: Op, x: Instruction) -> Instruction:
    return pairs_of(op.b, x)


@RULES.rule("view_as_complex", "view_as_complex_copy")
def _view_as_complex(op: Op, x: Instruction) -> Instruction:
    return complex_of(op.b, x)


@RULES.rule("real")
def _real(op: Op, x: Instruction) -> Instruction:
    return op.b.real(x) if x.shape.dtype.is_complex else x


@RULES.rule("imag")
def _imag(op: Op, x: Instruction) -> Instruction:
    return op.b.imag(x)


@RULES.rule("_conj", "_conj_copy", "_conj_physical", "conj_physical")
def _conj(op: Op, x: Operand) -> Instruction:
    return conjugate(op.b, op.operand(x, op.dtype))


@RULES.rule("_neg_view", "_neg_view_copy")
def _neg_view(op: Op, x: Instruction) -> Instruction:
    return op.b.negate(x)


@RULES.rule("resolve_conj", "resolve_neg")
def _resolve(op: Op, x: Instruction) -> Instruction:
    del op
    return x


@RULES.rule("complex")
def _complex(op: Op, x: Operand, y: Operand) -> Instruction:
    return op.b.complex(*op.together(x, y))


@RULES.rule("polar")
def _polar(op: Op, size: Instruction, angle: Instruction) -> Instruction:
    b = op.b
    size, angle = op.together(size, angle)
    return b.complex(b.multiply(size, b.cosine(angle)), b.multiply(size, b.sine(angle)))


@RULES.rule("angle")
def _angle(op: Op, x: Instruction) -> Instruction:
    """The angle of a complex number; of a real one 0 or pi, NaN for NaN."""
    b = op.b
    if x.shape.dtype.is_complex:
        return b.atan2(b.imag(x), b.real(x))
    return _angle_of_real(b, b.convert_to(x, op.dtype))


def _angle_of_real(b: ArrayBuilder, x: Instruction) -> Instruction:
    made = b.select(b.compared("LT", x, 0), b.like(math.pi, x.shape), b.zeros(x.shape))
    return b.select(b.compare(x, x, direction="NE"), x, made)
