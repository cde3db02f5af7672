# SPDX-License-Identifier: Apache-2.0
"""Bitwise operations and shifts, on integers and pred."""

from __future__ import annotations

from typing import Any

from ingot.hlo.dtype import from_numpy
from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.pattern import const, m, one_of, splat_of
from ingot.hlo.rewrite.rule import RuleBuilder, rule
from ingot.passes.simplify.algsimp.helpers import is_all_ones, is_twice, x, y


def _ones(root: Instruction, build: RuleBuilder) -> Instruction:
    """Return a value of the shape of `root` with every bit one."""
    return build.not_(build.full(0, root.shape))


@rule(m.not_(m.not_(x)))
def not_not(x: Instruction) -> Instruction:
    """not not x => x"""
    return x


@rule(m.xor(x, x))
def xor_self(root: Instruction, build: RuleBuilder) -> Instruction:
    """x ^ x => 0"""
    return build.full(0, root.shape)


@rule(m.and_(x, const(0, name="zero")))
def and_zero(zero: Instruction) -> Instruction:
    """x & 0 => 0"""
    return zero


@rule(m.and_(x, const(True, where=is_all_ones)))
def and_true(x: Instruction) -> Instruction:
    """x & true => x"""
    return x


@rule(m.and_(x, const(-1, where=is_all_ones)))
def and_ones(x: Instruction) -> Instruction:
    """x & 11...1 => x"""
    return x


@rule(one_of(("or", "xor"), x, const(0)))
def or_zero(x: Instruction) -> Instruction:
    """x | 0 => x, x ^ 0 => x"""
    return x


@rule(m.or_(x, const(True, name="ones", where=is_all_ones)))
def or_true(ones: Instruction) -> Instruction:
    """x | true => true"""
    return ones


@rule(m.or_(x, const(-1, name="ones", where=is_all_ones)))
def or_ones(ones: Instruction) -> Instruction:
    """x | 11...1 => 11...1"""
    return ones


@rule(m.xor(x, const(True, where=is_all_ones)))
def xor_true(x: Instruction, build: RuleBuilder) -> Instruction:
    """x ^ true => not x"""
    return build.not_(x)


@rule(m.xor(x, const(-1, where=is_all_ones)))
def xor_ones(x: Instruction, build: RuleBuilder) -> Instruction:
    """x ^ 11...1 => not x"""
    return build.not_(x)


@rule(m.and_(x, m.not_(x)))
def and_not_self(root: Instruction, build: RuleBuilder) -> Instruction:
    """x & not x => 0"""
    return build.full(0, root.shape)


@rule(m.or_(x, m.not_(x)))
def or_not_self(root: Instruction, build: RuleBuilder) -> Instruction:
    """x | not x => 11...1"""
    return _ones(root, build)


_DUAL = {"and": "or", "or": "and"}


@rule(one_of(tuple(_DUAL), m.not_(x, once=True), m.not_(y, once=True)))
def de_morgan(root: Instruction, x: Instruction, y: Instruction, build: RuleBuilder) -> Instruction:
    """not x & not y => not (x | y), and with & and | exchanged"""
    return build.not_(build.emit(_DUAL[root.opcode], x, y))


_ZERO_FILLED = ("shift-left", "shift-right-logical")
_SHIFTS = (*_ZERO_FILLED, "shift-right-arithmetic")


@rule(one_of(_SHIFTS, x, const(0)))
def shift_zero(x: Instruction) -> Instruction:
    """x << 0 => x, likewise >>"""
    return x


@rule(one_of(_SHIFTS, const(0, name="zero"), y))
def shift_of_zero(zero: Instruction) -> Instruction:
    """0 << y => 0, likewise >>"""
    return zero


def _is_out_of_range(amount: Any) -> bool:
    element = from_numpy(amount.dtype)
    return element.is_integer and not 0 <= int(amount) < element.bits


@rule(
    one_of(_ZERO_FILLED, x, const(where=_is_out_of_range)),
    example="""
        x = s32[4] parameter(0)
        c = s32[] constant(32)
        b = s32[4] broadcast(c), dimensions={}
        ROOT r = s32[4] shift-left(x, b)""",
)
def shift_out(root: Instruction, build: RuleBuilder) -> Instruction:
    """x << n => 0 where n is no number of bits of x"""
    return build.full(0, root.shape)


@rule(
    one_of(_SHIFTS, one_of(_SHIFTS, x, const(name="a")), const(name="b"), where=is_twice),
    example="""
        x = s32[4] parameter(0)
        a = s32[] constant(3)
        m = s32[4] broadcast(a), dimensions={}
        y = s32[4] shift-right-arithmetic(x, m)
        b = s32[] constant(5)
        n = s32[4] broadcast(b), dimensions={}
        ROOT r = s32[4] shift-right-arithmetic(y, n)""",
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
