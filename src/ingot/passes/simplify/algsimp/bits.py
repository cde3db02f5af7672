# SPDX-License-Identifier: Apache-2.0
"""Bitwise operations and shifts, on integers and pred."""

from __future__ import annotations

from typing import Any

from ingot.hlo.dtype import from_numpy
from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.pattern import const, m, one_of, splat_of
from ingot.hlo.rewrite.rule import RuleBuilder, identity, rule
from ingot.passes.simplify.algsimp.helpers import is_all_ones, is_twice, x, y, zero

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

_DUAL = {"and": "or", "or": "and"}


@rule(one_of(tuple(_DUAL), m.not_(x, once=True), m.not_(y, once=True)))
def de_morgan(root: Instruction, x: Instruction, y: Instruction, build: RuleBuilder) -> Instruction:
    """not x & not y => not (x | y), and with & and | exchanged"""
    return build.not_(build.emit(_DUAL[root.opcode], x, y))


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
