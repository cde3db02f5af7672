# SPDX-License-Identifier: Apache-2.0
"""Rules of maximum, minimum and clamp: bounds that always hold."""

from __future__ import annotations

from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.pattern import capture, const, m
from ingot.hlo.rewrite.rule import RuleBuilder, identity, rule
from ingot.passes.simplify.algsimp.helpers import is_greatest, is_integer, is_least, x

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
