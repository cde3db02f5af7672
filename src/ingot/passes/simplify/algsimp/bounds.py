# SPDX-License-Identifier: Apache-2.0
"""Rules of maximum, minimum and clamp: bounds that always hold."""

from __future__ import annotations

from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.pattern import capture, const, m
from ingot.hlo.rewrite.rule import RuleBuilder, rule
from ingot.passes.simplify.algsimp.helpers import (
    is_greatest,
    is_integer,
    is_least,
    x,
)

low, high = capture("low"), capture("high")

_EXAMPLE = """
    x = s32[4] parameter(0)
    c = s32[] constant({})
    b = s32[4] broadcast(c), dimensions={{}}
    ROOT r = s32[4] {}(x, b)"""


@rule(
    m.maximum(x, const(where=is_least)),
    example=(
        _EXAMPLE.format(-(1 << 31), "maximum"),
        """
        x = f32[4] parameter(0)
        c = f32[] constant(-inf)
        b = f32[4] broadcast(c), dimensions={}
        ROOT r = f32[4] maximum(x, b)""",
    ),
)
def maximum_of_least(x: Instruction) -> Instruction:
    """max(x, -inf) => x; on integers with the least one"""
    return x


@rule(
    m.minimum(x, const(where=is_greatest)),
    example=_EXAMPLE.format((1 << 31) - 1, "minimum"),
)
def minimum_of_greatest(x: Instruction) -> Instruction:
    """min(x, inf) => x; on integers with the greatest one"""
    return x


@rule(
    m.maximum(x, const(name="c", where=is_greatest), where=is_integer),
    example=_EXAMPLE.format((1 << 31) - 1, "maximum"),
)
def maximum_of_greatest(c: Instruction) -> Instruction:
    """max(x, greatest) => greatest, on integers (NaN stays NaN on floats)"""
    return c


@rule(
    m.minimum(x, const(name="c", where=is_least), where=is_integer),
    example=_EXAMPLE.format(-(1 << 31), "minimum"),
)
def minimum_of_least(c: Instruction) -> Instruction:
    """min(x, least) => least, on integers (NaN stays NaN on floats)"""
    return c


@rule(m.clamp(low, m.clamp(low, x, high, name="inner"), high))
def clamp_clamp(inner: Instruction) -> Instruction:
    """clamp(a, clamp(a, x, b), b) => clamp(a, x, b)"""
    return inner


@rule(
    m.clamp(const(where=is_least), x, high),
    example="""
        x = f32[4] parameter(0)
        c = f32[] constant(-inf)
        h = f32[] parameter(1)
        ROOT r = f32[4] clamp(c, x, h)""",
)
def clamp_without_low(x: Instruction, high: Instruction, build: RuleBuilder) -> Instruction:
    """clamp(-inf, x, b) => min(x, b)"""
    return build.minimum(x, build.broadcast_to(high, x.shape.dims))


@rule(
    m.clamp(low, x, const(where=is_greatest)),
    example="""
        x = f32[4] parameter(0)
        c = f32[] constant(inf)
        h = f32[] parameter(1)
        ROOT r = f32[4] clamp(h, x, c)""",
)
def clamp_without_high(x: Instruction, low: Instruction, build: RuleBuilder) -> Instruction:
    """clamp(a, x, inf) => max(x, a)"""
    return build.maximum(x, build.broadcast_to(low, x.shape.dims))
