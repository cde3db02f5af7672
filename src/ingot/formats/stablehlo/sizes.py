"""Sizes that a program computes: which symbolic size an integer instruction's value is.

StableHLO says computed sizes as operands (`dynamic_reshape %x, %sizes`); the IR has them in the
shape. The value of such an operand is followed back through arithmetic to `get-dimension-size` and
constants, which gives one size per element.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from ingot.formats.stablehlo.equal_sizes import Size
from ingot.hlo import dim
from ingot.hlo.dtype import PRED
from ingot.hlo.instruction import Instruction
from ingot.hlo.literal import Array

Sizes = tuple[Size, ...]
# Constants of more elements are not sizes.
_MOST = 64


def sizes_of(value: Instruction) -> Sizes | None:
    """Return what an integer instruction's elements are, in order; None when it is not known."""
    shape = value.shape
    if not shape.is_array or not shape.dtype.is_integer:
        return None
    count = shape.size
    if not isinstance(count, int) or count > _MOST:
        return None
    rule = _RULES.get(value.opcode)
    return rule(value) if rule is not None else None


def _constant(value: Instruction) -> Sizes:
    array: Array = value.attributes.literal.value
    return tuple(int(number) for number in array.reshape(-1))


def _dimension(value: Instruction) -> Sizes:
    place: int = value.attributes.dimensions[0]
    size: Size = value.operands[0].shape.dims[place]
    return (size,)


def _same(value: Instruction) -> Sizes | None:
    return sizes_of(value.operands[0])


def _broadcast(value: Instruction) -> Sizes | None:
    found = sizes_of(value.operands[0])
    size = value.shape.size
    return found * size if found and len(found) == 1 and isinstance(size, int) else None


def _concatenate(value: Instruction) -> Sizes | None:
    parts = [sizes_of(operand) for operand in value.operands]
    known = [part for part in parts if part is not None]
    return sum(known, ()) if len(known) == len(parts) else None


def _slice(value: Instruction) -> Sizes | None:
    found = sizes_of(value.operands[0])
    if found is None or value.shape.rank != 1:
        return None
    ((start, limit, stride),) = value.attributes.slice
    return found[start:limit:stride]


def _arithmetic(combine: Callable[[Size, Size], Size]) -> Callable[[Instruction], Sizes | None]:
    def rule(value: Instruction) -> Sizes | None:
        left, right = (sizes_of(operand) for operand in value.operands)
        if left is None or right is None:
            return None
        return tuple(combine(one, other) for one, other in zip(left, right, strict=True))

    return rule


def _divided(value: Instruction) -> Sizes | None:
    """Division truncates and sizes floor: the same where nothing is negative."""
    left, right = (sizes_of(operand) for operand in value.operands)
    if left is None or right is None:
        return None
    if not all(dim.never_negative(size) for size in (*left, *right)) or 0 in right:
        return None
    combine = dim.floordiv if value.opcode == "divide" else dim.mod
    return tuple(combine(one, other) for one, other in zip(left, right, strict=True))


def _negated(value: Instruction) -> Sizes | None:
    found = sizes_of(value.operands[0])
    return tuple(-size for size in found) if found is not None else None


def _select(value: Instruction) -> Sizes | None:
    flag, on_true, on_false = value.operands
    chosen = _truth(flag)
    return sizes_of(on_true if chosen else on_false) if chosen is not None else None


def _truth(flag: Instruction) -> bool | None:
    """Return whether a scalar predicate on sizes holds, None when that is not plain."""
    if flag.opcode == "and":
        known = [_truth(operand) for operand in flag.operands]
        if False in known or _is_floor_correction(*flag.operands):
            return False
        return True if known == [True, True] else None
    if flag.opcode != "compare":
        return None
    direction = flag.attributes.direction
    if all(operand.shape.dtype is PRED for operand in flag.operands):
        left, right = (_truth(operand) for operand in flag.operands)
        return None if None in (left, right) else _compared(direction, bool(left), bool(right))
    sizes = [sizes_of(operand) for operand in flag.operands]
    if sizes[0] is None or sizes[1] is None:
        return None
    return _compared(direction, sizes[0][0], sizes[1][0])


def _compared(direction: str, left: Size, right: Size) -> bool | None:
    if isinstance(left, int) and isinstance(right, int):
        return _COMPARISONS[direction](left, right)
    if direction == "LT" and right == 0 and dim.never_negative(left):
        return False
    if left == right:
        return direction in ("EQ", "GE", "LE")
    return None


_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}


def _is_floor_correction(signs: Instruction, rest: Instruction) -> bool:
    """Whether two predicates are those by which a quotient that truncates becomes one that floors.

    `sign(x) != sign(y)` and `x % y != 0` never hold together for x >= 0 and y > 0.
    """
    if signs.opcode != "compare" or rest.opcode != "compare":
        return False
    if any(operand.opcode != "sign" for operand in signs.operands):
        return False
    if rest.operands[0].opcode != "remainder":
        return False
    sizes = [sizes_of(operand) for operand in rest.operands[0].operands]
    if sizes[0] is None or sizes[1] is None:
        return False
    divisor = sizes[1][0]
    return dim.never_negative(sizes[0][0]) and isinstance(divisor, int) and divisor > 0


_RULES: dict[str, Callable[[Instruction], Sizes | None]] = {
    "constant": _constant,
    "get-dimension-size": _dimension,
    "convert": _same,
    "copy": _same,
    "reshape": _same,
    "broadcast": _broadcast,
    "concatenate": _concatenate,
    "slice": _slice,
    "add": _arithmetic(lambda left, right: left + right),
    "subtract": _arithmetic(lambda left, right: left - right),
    "multiply": _arithmetic(lambda left, right: left * right),
    "maximum": _arithmetic(dim.maximum),
    "minimum": _arithmetic(dim.minimum),
    "divide": _divided,
    "remainder": _divided,
    "negate": _negated,
    "select": _select,
}
