# SPDX-License-Identifier: Apache-2.0
"""Laws of the two lattices: maximum and minimum, `and` and `or`. Each law holds of all four ops."""

from __future__ import annotations

from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import Trait, opcodes
from ingot.hlo.rewrite.pattern import one_of
from ingot.hlo.rewrite.rule import identity, rule
from ingot.passes.simplify.algsimp.helpers import is_bits, x, y

_JOIN_OR_MEET = opcodes(lambda row: row.has(Trait.IDEMPOTENT) and row.has(Trait.COMMUTATIVE))
_DUAL = {"maximum": "minimum", "minimum": "maximum", "and": "or", "or": "and"}
_inner = one_of(_JOIN_OR_MEET, x, y, name="inner")

SELF = (
    identity("lattice_self: max(x, x) => x, likewise min, and, or", one_of(_JOIN_OR_MEET, x, x), x),
)


@rule(one_of(_JOIN_OR_MEET, _inner, y))
def lattice_twice(root: Instruction, inner: Instruction) -> Instruction | None:
    """max(max(x, y), y) => max(x, y), likewise for min, and, or"""
    return inner if root.opcode == inner.opcode else None


@rule(
    one_of(_JOIN_OR_MEET, x, _inner, where=is_bits),
    example="""
        a = s32[4] minimum(s32[4] x, s32[4] y)
        b = s32[4] maximum(x, a)""",
)
def lattice_absorbs(root: Instruction, inner: Instruction, x: Instruction) -> Instruction | None:
    """max(x, min(x, y)) => x, likewise for min, and, or, not on floats (y may be NaN)"""
    return x if inner.opcode == _DUAL[root.opcode] else None
