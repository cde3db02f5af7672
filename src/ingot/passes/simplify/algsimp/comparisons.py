# SPDX-License-Identifier: Apache-2.0
"""Rules of compare and select: results that are known."""

from __future__ import annotations

from ingot.hlo.dtype import PRED
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.elementwise import HOLDS, INVERSE, SWAPPED
from ingot.hlo.rewrite.pattern import capture, const, m, splat_of
from ingot.hlo.rewrite.rule import RuleBuilder, rule
from ingot.passes.simplify.algsimp.conversions import is_lossless
from ingot.passes.simplify.algsimp.helpers import (
    is_bits,
    is_float,
    is_integer,
    x,
    y,
)
from ingot.passes.simplify.algsimp.ranges import range_of

p = capture("p")


def _ieee(instruction: Instruction) -> bool:
    return instruction.attributes.type != "TOTALORDER"


def _operand_is_bits(instruction: Instruction) -> bool:
    return is_bits(instruction.operands[0])


def _operand_is_integer(instruction: Instruction) -> bool:
    return is_integer(instruction.operands[0])


def _operand_is_pred(instruction: Instruction) -> bool:
    return instruction.operands[0].shape.dtype is PRED


_EXAMPLE_SELF = """
    x = s32[4] parameter(0)
    ROOT r = pred[4] compare(x, x), direction=GE"""


@rule(m.compare(x, x, where=_operand_is_bits), example=_EXAMPLE_SELF)
def compare_self(root: Instruction, build: RuleBuilder) -> Instruction:
    """x <= x => true, x < x => false, on integers"""
    return build.full(root.attributes.direction in ("EQ", "GE", "LE"), root.shape)


@rule(
    m.compare(x, x, where=lambda i: _ieee(i) and i.attributes.direction in ("LT", "GT")),
    example="""
        x = f32[4] parameter(0)
        ROOT r = pred[4] compare(x, x), direction=LT""",
)
def less_than_self(root: Instruction, build: RuleBuilder) -> Instruction:
    """x < x => false, for NaN too"""
    return build.full(False, root.shape)


@rule(
    m.compare(const(name="c"), x),
    example="""
        c = f32[] constant(2)
        b = f32[4] broadcast(c), dimensions={}
        x = f32[4] parameter(0)
        ROOT r = pred[4] compare(b, x), direction=LT""",
)
def compare_constant_left(
    root: Instruction, c: Instruction, x: Instruction, build: RuleBuilder
) -> Instruction | None:
    """c < x => x > c"""
    if splat_of(x) is not None:
        return None
    direction = SWAPPED[root.attributes.direction]
    return build.compare(x, c, direction=direction, type=root.attributes.type)


@rule(
    m.compare(x, const(name="c"), where=_operand_is_integer),
    example=(
        """
        x = u32[4] parameter(0)
        c = u32[] constant(0)
        b = u32[4] broadcast(c), dimensions={}
        ROOT r = pred[4] compare(x, b), direction=LT""",
        """
        x = s32[4] parameter(0)
        c = s32[] constant(2)
        b = s32[4] broadcast(c), dimensions={}
        m = s32[4] maximum(x, b)
        ROOT r = pred[4] compare(m, b), direction=LT""",
        """
        x = s32[] parameter(0)
        low = s32[] constant(0)
        high = s32[] constant(4)
        c = s32[] constant(5)
        m = s32[] clamp(low, x, high)
        ROOT r = pred[] compare(m, c), direction=LT""",
        """
        x = s32[5] iota(), iota_dimension=0
        c = s32[] constant(-1)
        b = s32[5] broadcast(c), dimensions={}
        a = s32[5] subtract(x, b)
        ROOT r = pred[5] compare(a, b), direction=EQ""",
    ),
)
def compare_in_range(
    root: Instruction, x: Instruction, c: Instruction, build: RuleBuilder
) -> Instruction | None:
    """x < c => true or false, on integers, where all that x may be is on one side of c"""
    bound = splat_of(c)
    if bound is None or splat_of(x) is not None:
        return None
    below, above = (HOLDS[root.attributes.direction](end, int(bound)) for end in range_of(x))
    is_known = below == above
    if _equality(root):
        low, high = range_of(x)
        is_known = not low <= bound <= high
    return build.full(below, root.shape) if is_known else None


def _equality(instruction: Instruction) -> bool:
    return instruction.attributes.direction in ("EQ", "NE")


@rule(
    m.compare(x, const(name="c"), where=lambda i: _operand_is_pred(i) and _equality(i)),
    example="""
        x = pred[4] parameter(0)
        c = pred[] constant(false)
        b = pred[4] broadcast(c), dimensions={}
        ROOT r = pred[4] compare(x, b), direction=EQ""",
)
def compare_pred(
    root: Instruction, x: Instruction, c: Instruction, build: RuleBuilder
) -> Instruction:
    """x == true => x, x == false => not x"""
    return _same_or_not(x, c, root, build)


@rule(
    m.compare(m.convert(x, where=_operand_is_pred), const(0, name="c"), where=_equality),
    example="""
        x = pred[4] parameter(0)
        a = f32[4] convert(x)
        c = f32[] constant(0)
        b = f32[4] broadcast(c), dimensions={}
        ROOT r = pred[4] compare(a, b), direction=NE""",
)
def compare_converted_pred(
    root: Instruction, x: Instruction, c: Instruction, build: RuleBuilder
) -> Instruction:
    """float(x) != 0 => x where x is pred"""
    return _same_or_not(x, c, root, build)


@rule(
    m.compare(
        m.convert(x, where=lambda i: is_float(i) and is_float(i.operands[0])),
        const(0, name="c"),
        where=lambda i: _equality(i) and _ieee(i),
    ),
    example="""
        x = f8e5m2[4] parameter(0)
        a = f32[4] convert(x)
        c = f32[] constant(0)
        b = f32[4] broadcast(c), dimensions={}
        ROOT r = pred[4] compare(a, b), direction=NE""",
)
def compare_converted_zero(
    root: Instruction, x: Instruction, c: Instruction, build: RuleBuilder
) -> Instruction | None:
    """float(x) != 0 => pred(x) where x is a float and the conversion is lossless"""
    if not is_lossless(x.shape.dtype, c.shape.dtype):
        return None
    is_not_zero = build.convert_to(x, PRED)
    return is_not_zero if root.attributes.direction == "NE" else build.not_(is_not_zero)


def _same_or_not(
    x: Instruction, c: Instruction, root: Instruction, build: RuleBuilder
) -> Instruction:
    """Return x or not x: the one that equals the comparison with the pred `c`."""
    same = bool(splat_of(c)) == (root.attributes.direction == "EQ")
    return x if same else build.not_(x)


@rule(
    m.not_(m.compare(x, y, name="c")),
    example="""
        x = s32[4] parameter(0)
        y = s32[4] parameter(1)
        c = pred[4] compare(x, y), direction=LT
        ROOT r = pred[4] not(c)""",
)
def not_compare(
    c: Instruction, x: Instruction, y: Instruction, build: RuleBuilder
) -> Instruction | None:
    """not (x < y) => x >= y; with IEEE floats only == and != (NaN)"""
    if not (is_bits(x) or not _ieee(c) or _equality(c)):
        return None
    direction = INVERSE[c.attributes.direction]
    return build.compare(x, y, direction=direction, type=c.attributes.type)


@rule(m.select(const(name="p"), x, y))
def select_constant(p: Instruction, x: Instruction, y: Instruction) -> Instruction:
    """select(true, x, y) => x, select(false, x, y) => y"""
    return x if splat_of(p) else y


@rule(m.select(p, x, x))
def select_same(x: Instruction) -> Instruction:
    """select(p, x, x) => x"""
    return x


@rule(m.select(m.not_(p), x, y))
def select_not(p: Instruction, x: Instruction, y: Instruction, build: RuleBuilder) -> Instruction:
    """select(not p, x, y) => select(p, y, x)"""
    return build.select(p, y, x)


def _chooses_pred(instruction: Instruction) -> bool:
    """Whether the result is pred and the predicate has its shape (is no scalar for all of it)."""
    whole = instruction.operands[0].shape.dims == instruction.shape.dims
    return whole and instruction.shape.dtype is PRED


@rule(m.select(p, const(True), const(False), where=_chooses_pred))
def select_true_false(p: Instruction) -> Instruction:
    """select(p, true, false) => p"""
    return p


@rule(m.select(p, const(False), const(True), where=_chooses_pred))
def select_false_true(p: Instruction, build: RuleBuilder) -> Instruction:
    """select(p, false, true) => not p"""
    return build.not_(p)


@rule(m.select(p, x, const(False), where=_chooses_pred))
def select_and(p: Instruction, x: Instruction, build: RuleBuilder) -> Instruction:
    """select(p, x, false) => p and x"""
    return build.and_(p, x)


@rule(m.select(p, const(True), x, where=_chooses_pred))
def select_or(p: Instruction, x: Instruction, build: RuleBuilder) -> Instruction:
    """select(p, true, x) => p or x"""
    return build.or_(p, x)


@rule(m.select(p, m.select(p, x, capture("w")), y))
def select_nested_true(
    p: Instruction, x: Instruction, y: Instruction, build: RuleBuilder
) -> Instruction:
    """select(p, select(p, x, w), y) => select(p, x, y)"""
    return build.select(p, x, y)


@rule(m.select(p, x, m.select(p, capture("w"), y)))
def select_nested_false(
    p: Instruction, x: Instruction, y: Instruction, build: RuleBuilder
) -> Instruction:
    """select(p, x, select(p, w, y)) => select(p, x, y)"""
    return build.select(p, x, y)


_EXAMPLE_SELECT = """
    x = s32[4] parameter(0)
    y = s32[4] parameter(1)
    c = pred[4] compare(x, y), direction=LT
    ROOT r = s32[4] select(c, {})"""


@rule(
    m.select(m.compare(x, y, name="c"), x, y, where=is_integer),
    example=_EXAMPLE_SELECT.format("x, y"),
)
def select_greater(
    c: Instruction, x: Instruction, y: Instruction, build: RuleBuilder
) -> Instruction | None:
    """select(x > y, x, y) => max(x, y), and min for <, on integers"""
    return _extremum(c.attributes.direction, x, y, build)


@rule(
    m.select(m.compare(x, y, name="c"), y, x, where=is_integer),
    example=_EXAMPLE_SELECT.format("y, x"),
)
def select_lesser(
    c: Instruction, x: Instruction, y: Instruction, build: RuleBuilder
) -> Instruction | None:
    """select(x > y, y, x) => min(x, y), and max for <, on integers"""
    return _extremum(SWAPPED[c.attributes.direction], x, y, build)


def _extremum(
    direction: str, x: Instruction, y: Instruction, build: RuleBuilder
) -> Instruction | None:
    if direction in ("EQ", "NE"):
        return None
    return build.maximum(x, y) if direction in ("GT", "GE") else build.minimum(x, y)
