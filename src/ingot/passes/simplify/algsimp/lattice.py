# SPDX-License-Identifier: Apache-2.0
"""Laws of the two lattices, maximum and minimum, `and` and `or`; bounds; bits and shifts."""

from __future__ import annotations

from typing import Any

from ingot.hlo.dtype import from_numpy
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import Trait, opcodes
from ingot.hlo.rewrite.pattern import capture, const, m, one_of, splat_of
from ingot.hlo.rewrite.rule import RuleBuilder, identity, rule
from ingot.passes.simplify.algsimp.helpers import (
    is_all_ones,
    is_bits,
    is_greatest,
    is_integer,
    is_least,
    is_twice,
    x,
    y,
    zero,
)

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


true = const(True, name="ones", where=is_all_ones)
ones = const(-1, name="ones", where=is_all_ones)

BITWISE = (
    identity("not_not: not not x => x", m.not_(m.not_(x)), x),
    identity("xor_self: x ^ x => 0", m.xor(x, x), const(0)),
    identity("and_zero: x & 0 => 0", m.and_(x, zero), zero),
    identity("and_true: x & true => x", m.and_(x, true), x),
    identity("and_ones: x & 11...1 => x", m.and_(x, ones), x),
    identity("or_zero: x | 0 => x, x ^ 0 => x", one_of(("or", "xor"), x, const(0)), x),
    identity("or_true: x | true => true", m.or_(x, true), true),
    identity("or_ones: x | 11...1 => 11...1", m.or_(x, ones), ones),
    identity("xor_true: x ^ true => not x", m.xor(x, true), m.not_(x)),
    identity("xor_ones: x ^ 11...1 => not x", m.xor(x, ones), m.not_(x)),
    identity("and_not_self: x & not x => 0", m.and_(x, m.not_(x)), const(0)),
    identity("or_not_self: x | not x => 11...1", m.or_(x, m.not_(x)), m.not_(const(0))),
)

_DUAL_OF_BITS = {"and": "or", "or": "and"}


@rule(one_of(tuple(_DUAL_OF_BITS), m.not_(x, once=True), m.not_(y, once=True)))
def de_morgan(root: Instruction, x: Instruction, y: Instruction, build: RuleBuilder) -> Instruction:
    """not x & not y => not (x | y), and with & and | exchanged"""
    return build.not_(build.emit(_DUAL_OF_BITS[root.opcode], x, y))


_ZERO_FILLED = ("shift-left", "shift-right-logical")
_SHIFTS = (*_ZERO_FILLED, "shift-right-arithmetic")


def _is_out_of_range(amount: Any) -> bool:
    element = from_numpy(amount.dtype)
    return element.is_integer and not 0 <= int(amount) < element.bits


SHIFTS = (
    identity("shift_zero: x << 0 => x, likewise >>", one_of(_SHIFTS, x, const(0)), x),
    identity("shift_of_zero: 0 << y => 0, likewise >>", one_of(_SHIFTS, zero, y), zero),
    identity(
        "shift_out: x << n => 0 where n is no number of bits of x",
        one_of(_ZERO_FILLED, x, const(where=_is_out_of_range)),
        const(0),
    ),
)


@rule(
    one_of(_SHIFTS, one_of(_SHIFTS, x, const(name="a")), const(name="b"), where=is_twice),
    example="""
        m = s32[4] constant({3, 3, 3, 3})
        y = s32[4] shift-right-arithmetic(s32[4] x, m)
        n = s32[4] constant({5, 5, 5, 5})
        r = s32[4] shift-right-arithmetic(y, n)""",
)
def shift_of_shift(
    root: Instruction, x: Instruction, a: Instruction, b: Instruction, build: RuleBuilder
) -> Instruction | None:
    """(x >> a) >> b => x >> (a + b), likewise for <<, where the sum is in range"""
    if _is_out_of_range(splat_of(a)) or _is_out_of_range(splat_of(b)):
        return None
    total = int(splat_of(a)) + int(splat_of(b))
    if total >= x.shape.dtype.bits:
        return None
    return build.like(root, x, build.full(total, b.shape))
