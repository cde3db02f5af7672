# SPDX-License-Identifier: Apache-2.0
"""Laws of the two lattices, maximum and minimum, `and` and `or`; bounds that always hold."""

from __future__ import annotations

from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import Trait, opcodes
from ingot.hlo.rewrite.pattern import capture, const, m, one_of
from ingot.hlo.rewrite.rule import RuleBuilder, identity, rule
from ingot.passes.simplify.algsimp.helpers import is_bits, is_greatest, is_integer, is_least, x, y

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


low, high, inner = capture("low"), capture("high"), capture("inner")
least, greatest = const(name="c", where=is_least), const(name="c", where=is_greatest)

BOUNDS = (
    identity("maximum_of_least: max(x, least) => x, -inf of floats", m.maximum(x, least), x),
    identity(
        "minimum_of_greatest: min(x, greatest) => x, inf of floats", m.minimum(x, greatest), x
    ),
    # Not of floats, where x may be NaN.
    identity(
        "maximum_of_greatest: max(x, greatest) => greatest",
        m.maximum(x, greatest, where=is_integer),
        greatest,
    ),
    identity(
        "minimum_of_least: min(x, least) => least",
        m.minimum(x, least, where=is_integer),
        least,
    ),
    identity(
        "clamp_clamp: clamp(a, clamp(a, x, b), b) => clamp(a, x, b)",
        m.clamp(low, m.clamp(low, x, high, name="inner"), high),
        inner,
    ),
)


@rule(
    m.clamp(least, x, high),
    example="c = f32[] constant(-inf)\nr = f32[4] clamp(c, f32[4] x, f32[] h)",
)
def clamp_without_low(x: Instruction, high: Instruction, build: RuleBuilder) -> Instruction:
    """clamp(-inf, x, b) => min(x, b)"""
    return build.minimum(x, build.broadcast_to(high, x.shape.dims))


@rule(
    m.clamp(low, x, greatest),
    example="c = f32[] constant(inf)\nr = f32[4] clamp(f32[] h, f32[4] x, c)",
)
def clamp_without_high(x: Instruction, low: Instruction, build: RuleBuilder) -> Instruction:
    """clamp(a, x, inf) => max(x, a)"""
    return build.maximum(x, build.broadcast_to(low, x.shape.dims))
