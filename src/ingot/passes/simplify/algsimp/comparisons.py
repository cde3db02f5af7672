# SPDX-License-Identifier: Apache-2.0
"""Rules of compare and select: results that are known, some from the ranges of integers.

`range_of` says between which numbers the elements of an integer instruction lie, as far as its
operands tell. Invariant: a value that may wrap has the whole range of its type.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from ingot.hlo.dtype import PRED, greatest, least
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.elementwise import HOLDS, INVERSE, SWAPPED
from ingot.hlo.rewrite.pattern import capture, const, m, splat_of
from ingot.hlo.rewrite.rule import RuleBuilder, identity, rule
from ingot.passes.simplify.algsimp.conversions import is_lossless
from ingot.passes.simplify.algsimp.helpers import is_bits, is_float, is_integer, is_pred, of, x, y

Range = tuple[int, int]
"""The least and the greatest number."""

DEPTH = 8
"""Depth of operands that are searched; an op of several operands counts twice. The comparison of
`x[jnp.clip(i, 0, 9) + 1]` is six deep."""


def range_of(instruction: Instruction, depth: int = DEPTH) -> Range:
    """Return the range of an instruction of integers or pred; its type's where no more is known."""
    element = instruction.shape.dtype
    whole = (0, 1) if element is PRED else (int(least(element)), int(greatest(element)))
    value = splat_of(instruction)
    if value is not None:
        return int(value), int(value)
    rule = _RULES.get(instruction.opcode) if depth > 0 else None
    low, high = whole if rule is None else rule(instruction, depth - 1)
    return (low, high) if whole[0] <= low <= high <= whole[1] else whole


def _rising(function: Callable[[int, int], int]) -> Callable[[Instruction, int], Range]:
    """Return the rule of an op of two operands whose result does not fall where one grows."""

    def rule(root: Instruction, depth: int) -> Range:
        (a, b), (c, d) = _of_operands(root, depth)
        return function(a, c), function(b, d)

    return rule


def _clamp(root: Instruction, depth: int) -> Range:
    least_, given, most = _of_operands(root, depth)
    low, high = (min(max(given[at], least_[at]), most[at]) for at in (0, 1))
    return low, high


def _subtract(root: Instruction, depth: int) -> Range:
    (a, b), (c, d) = _of_operands(root, depth)
    return a - d, b - c


def _and(root: Instruction, depth: int) -> Range:
    """Return the range of bits that both have: no more than one that is not negative."""
    sides = [side for side in _of_operands(root, depth) if side[0] >= 0]
    return (0, min(high for _, high in sides)) if sides else UNKNOWN


def _remainder(root: Instruction, depth: int) -> Range:
    """Return the range of a remainder, which has the dividend's sign."""
    (low, high), (least_, most) = _of_operands(root, depth)
    if least_ <= 0:
        return UNKNOWN
    return max(min(low, 0), 1 - most), min(max(high, 0), most - 1)


def _iota(root: Instruction, depth: int) -> Range:
    del depth
    along: int = root.attributes.iota_dimension
    extent = root.shape.dims[along]
    return (0, max(0, extent - 1)) if isinstance(extent, int) else UNKNOWN


def _convert(root: Instruction, depth: int) -> Range:
    element = root.operands[0].shape.dtype
    is_known = element.is_integer or element is PRED
    return range_of(root.operands[0], depth) if is_known else UNKNOWN


def _first(root: Instruction, depth: int) -> Range:
    return range_of(root.operands[0], depth)


def _of_operands(root: Instruction, depth: int) -> list[Range]:
    """Return the ranges of operands, searched less deep, so that the search stays small."""
    return [range_of(operand, depth - 1) for operand in root.operands]


UNKNOWN: Range = (1, 0)
"""No range: that of the type."""

_RULES: Mapping[str, Callable[[Instruction, int], Range]] = {
    "maximum": _rising(max),
    "minimum": _rising(min),
    "clamp": _clamp,
    "add": _rising(operator.add),
    "subtract": _subtract,
    "and": _and,
    "remainder": _remainder,
    "iota": _iota,
    "convert": _convert,
    "broadcast": _first,
    "reshape": _first,
    "transpose": _first,
    "slice": _first,
    "reverse": _first,
}
"""How the range of each op follows from those of its operands."""


p = capture("p")


def _ieee(instruction: Instruction) -> bool:
    return instruction.attributes.type != "TOTALORDER"


@rule(m.compare(x, x, where=of(is_bits)))
def compare_self(root: Instruction, build: RuleBuilder) -> Instruction:
    """x <= x => true, x < x => false, on integers"""
    return build.full(root.attributes.direction in ("EQ", "GE", "LE"), root.shape)


# For NaN too.
SELF = (
    identity(
        "less_than_self: x < x => false",
        m.compare(x, x, where=lambda i: _ieee(i) and i.attributes.direction in ("LT", "GT")),
        const(False),
    ),
)


@rule(m.compare(const(name="c"), x))
def compare_constant_left(
    root: Instruction, c: Instruction, x: Instruction, build: RuleBuilder
) -> Instruction | None:
    """c < x => x > c"""
    if splat_of(x) is not None:
        return None
    direction = SWAPPED[root.attributes.direction]
    return build.compare(x, c, direction=direction, type=root.attributes.type)


@rule(
    m.compare(x, const(name="c"), where=of(is_integer)),
    example=(
        """
        c = s32[4] constant({2, 2, 2, 2})
        m = s32[4] maximum(s32[4] x, c)
        r = pred[4] compare(m, c), direction=LT""",
        """
        low = s32[] constant(0)
        high = s32[] constant(4)
        c = s32[] constant(5)
        m = s32[] clamp(low, s32[] x, high)
        r = pred[] compare(m, c), direction=LT""",
        """
        x = s32[5] iota(), iota_dimension=0
        c = s32[5] constant({-1, -1, -1, -1, -1})
        a = s32[5] subtract(x, c)
        r = pred[5] compare(a, c), direction=EQ""",
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


@rule(m.compare(x, const(name="c"), where=lambda i: is_pred(i.operands[0]) and _equality(i)))
def compare_pred(
    root: Instruction, x: Instruction, c: Instruction, build: RuleBuilder
) -> Instruction:
    """x == true => x, x == false => not x"""
    return _same_or_not(x, c, root, build)


@rule(
    m.compare(m.convert(x, where=of(is_pred)), const(0, name="c"), where=_equality),
    example="""
        a = f32[4] convert(pred[4] x)
        c = f32[4] constant({0, 0, 0, 0})
        r = pred[4] compare(a, c), direction=NE""",
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
        a = f32[4] convert(f8e5m2[4] x)
        c = f32[4] constant({0, 0, 0, 0})
        r = pred[4] compare(a, c), direction=NE""",
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


@rule(m.not_(m.compare(x, y, name="c")))
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


def _chooses_pred(instruction: Instruction) -> bool:
    """Whether the result is pred and the predicate has its shape (is no scalar for all of it)."""
    whole = instruction.operands[0].shape.dims == instruction.shape.dims
    return whole and instruction.shape.dtype is PRED


true, false, w = const(True), const(False), capture("w")

SELECTS = (
    identity("select_same: select(p, x, x) => x", m.select(p, x, x), x),
    identity(
        "select_not: select(not p, x, y) => select(p, y, x)",
        m.select(m.not_(p), x, y),
        m.select(p, y, x),
    ),
    identity(
        "select_false_true: select(p, false, true) => not p",
        m.select(p, false, true, where=_chooses_pred),
        m.not_(p),
    ),
    identity(
        "select_and: select(p, x, false) => p and x",
        m.select(p, x, false, where=_chooses_pred),
        m.and_(p, x),
    ),
    identity(
        "select_or: select(p, true, x) => p or x",
        m.select(p, true, x, where=_chooses_pred),
        m.or_(p, x),
    ),
    identity(
        "select_nested_true: select(p, select(p, x, w), y) => select(p, x, y)",
        m.select(p, m.select(p, x, w), y),
        m.select(p, x, y),
    ),
    identity(
        "select_nested_false: select(p, x, select(p, w, y)) => select(p, x, y)",
        m.select(p, x, m.select(p, w, y)),
        m.select(p, x, y),
    ),
)


@rule(m.select(m.compare(x, y, name="c"), x, y, where=is_integer))
def select_greater(
    c: Instruction, x: Instruction, y: Instruction, build: RuleBuilder
) -> Instruction | None:
    """select(x > y, x, y) => max(x, y), min for <, x for !=, y for ==, on integers"""
    return _chosen(c.attributes.direction, x, y, build)


@rule(m.select(m.compare(x, y, name="c"), y, x, where=is_integer))
def select_lesser(
    c: Instruction, x: Instruction, y: Instruction, build: RuleBuilder
) -> Instruction | None:
    """select(x > y, y, x) => min(x, y), max for <, y for !=, x for ==, on integers"""
    return _chosen(SWAPPED[c.attributes.direction], y, x, build)


def _chosen(direction: str, x: Instruction, y: Instruction, build: RuleBuilder) -> Instruction:
    """Return select(compare(x, y), x, y)."""
    if direction in ("EQ", "NE"):
        return x if direction == "NE" else y
    return build.maximum(x, y) if direction in ("GT", "GE") else build.minimum(x, y)
