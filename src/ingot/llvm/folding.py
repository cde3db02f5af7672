# SPDX-License-Identifier: Apache-2.0
"""Integer ops of constants, which the builder folds itself to know the lanes of masks.

`Arithmetic` calls this for each integer op and comparison. LLVM folds the same, but too late for
`Lanes.lanes_off`, which returns the lanes of a masked access that are off.

Example:
    >>> from ingot.llvm.types import I64, vector
    >>> from ingot.llvm.values import const
    >>> four = vector(I64, 4)
    >>> compared("slt", const(four, range(4)), const(four, 2))
    <4 x i1> <i1 true, i1 true, i1 false, i1 false>
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from ingot.llvm.types import I1, Type, vector
from ingot.llvm.values import Value, const, known_lanes

_OPS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and": lambda one, other: one & other,
    "or": lambda one, other: one | other,
    "xor": lambda one, other: one ^ other,
}
_ORDERS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_BITS = {"true": -1, "false": 0}


def combined(opcode: str, a: Value, b: Value) -> Value | None:
    """Return the constant `opcode a, b` of integers, None if it is no constant."""
    op = _OPS.get(opcode)
    if op is None or a.text[0] == "%" or b.text[0] == "%":
        return None
    return _lane_by_lane(op, a, b, a.type)


def compared(predicate: str, a: Value, b: Value) -> Value | None:
    """Return the constant `icmp predicate a, b` of integers, None if it is no constant."""
    if a.text[0] == "%" or b.text[0] == "%":
        return None
    order, unsigned = _ORDERS[predicate[-2:]], predicate[0] == "u"
    wrap = (1 << a.type.element.bits) - 1 if unsigned else -1
    result = vector(I1, a.type.lanes)
    return _lane_by_lane(lambda one, other: order(one & wrap, other & wrap), a, b, result)


def _lane_by_lane(op: Callable[[int, int], int], a: Value, b: Value, result: Type) -> Value | None:
    left, right = _numbers(a), _numbers(b)
    if left is None or right is None:
        return None
    bits = (1 << result.element.bits) - 1
    lanes = [op(one, other) & bits for one, other in zip(left, right, strict=True)]
    return const(result, lanes[0] if len(set(lanes)) == 1 else lanes)


def _numbers(value: Value) -> Sequence[int] | None:
    """Return the lanes of an integer constant, as signed numbers; None if one has no value."""
    texts = known_lanes(value) if value.type.is_vector else (value.text,)
    try:
        return [_BITS[text] if text in _BITS else int(text) for text in texts or ("",)]
    except ValueError:  # A pointer, or poison.
        return None
