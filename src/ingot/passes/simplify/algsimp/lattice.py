# SPDX-License-Identifier: Apache-2.0
"""Laws of the two lattices: maximum and minimum, `and` and `or`. Each law holds of all four ops."""

from __future__ import annotations

from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import Trait, opcodes
from ingot.hlo.rewrite.pattern import one_of
from ingot.hlo.rewrite.rule import rule
from ingot.passes.simplify.algsimp.helpers import is_bits, x, y

_JOIN_OR_MEET = opcodes(lambda row: row.has(Trait.IDEMPOTENT) and row.has(Trait.COMMUTATIVE))
_DUAL = {"maximum": "minimum", "minimum": "maximum", "and": "or", "or": "and"}


@rule(one_of(_JOIN_OR_MEET, x, x))
def lattice_self(x: Instruction) -> Instruction:
    """max(x, x) => x, likewise for min, and, or"""
    return x


@rule(one_of(_JOIN_OR_MEET, one_of(_JOIN_OR_MEET, x, y, name="inner"), y))
def lattice_twice(root: Instruction, inner: Instruction) -> Instruction | None:
    """max(max(x, y), y) => max(x, y), likewise for min, and, or"""
    return inner if root.opcode == inner.opcode else None


@rule(
    one_of(
        _JOIN_OR_MEET,
        x,
        one_of(_JOIN_OR_MEET, x, y, name="inner"),
        where=is_bits,
    ),
    example="""
        x = s32[4] parameter(0)
        y = s32[4] parameter(1)
        a = s32[4] minimum(x, y)
        ROOT b = s32[4] maximum(x, a)""",
)
def lattice_absorbs(root: Instruction, inner: Instruction, x: Instruction) -> Instruction | None:
    """max(x, min(x, y)) => x, likewise for min, and, or, not on floats (y may be NaN)"""
    return x if inner.opcode == _DUAL[root.opcode] else None
