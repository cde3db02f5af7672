# SPDX-License-Identifier: Apache-2.0
"""Sizes that a program computes: the symbolic size of an integer instruction's value.

StableHLO has computed sizes as operands (`dynamic_reshape %x, %sizes`); the IR has them in the
shape. The value of such an operand is traced back through arithmetic to `get-dimension-size` and
constants, which gives one size per element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from ingot.formats.stablehlo.attributes import INT64
from ingot.formats.stablehlo.equal_sizes import Size
from ingot.hlo import dim
from ingot.hlo.dtype import PRED
from ingot.hlo.instruction import Instruction
from ingot.hlo.literal import Array
from ingot.hlo.opset.elementwise import HOLDS
from ingot.support.trampoline import Recursion, run

Sizes = tuple[Size, ...]
Known = dict[Instruction, Sizes | None]
Found = Recursion[Sizes | None]
# Constants of more elements are not sizes.
_MOST = 64


def sizes_of(value: Instruction, known: Known | None = None) -> Sizes | None:
    """Return the elements of an integer instruction, in order; None when they are not known.

    Args:
        value: the instruction.
        known: results for other instructions, to which new ones are added.
    """
    return run(_Reader({} if known is None else known).sizes(value))


class _Reader:
    """Traces values back, each once however often it is used."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._truths: dict[Instruction, bool | None] = {}

    def sizes(self, value: Instruction) -> Found:
        known = self._known
        if value not in known:
            known[value] = yield self._found(value)
        return known[value]

    def _found(self, value: Instruction) -> Found:
        shape = value.shape
        if not shape.is_array or not shape.dtype.is_integer:
            return None
        count = shape.size
        rule = _RULES.get(value.opcode)
        if rule is None or not isinstance(count, int) or count > _MOST:
            return None
        found: Sizes | None = yield rule(self, value)
        if found is None or any(isinstance(n, int) and n not in INT64 for n in found):
            return None
        return found

    def all_of(self, values: Sequence[Instruction]) -> Recursion[list[Sizes | None]]:
        """Return the elements of each of several instructions."""
        found: list[Sizes | None] = []
        for value in values:
            found.append((yield self.sizes(value)))
        return found

    def is_true(self, flag: Instruction) -> Recursion[bool | None]:
        """Return whether a scalar predicate on sizes holds, None when that is not obvious."""
        truths = self._truths
        if flag not in truths:
            truths[flag] = yield self._truth(flag)
        return truths[flag]

    def _truth(self, flag: Instruction) -> Recursion[bool | None]:
        if flag.opcode == "and":
            known: list[bool | None] = []
            for operand in flag.operands:
                known.append((yield self.is_true(operand)))
            if False in known or (yield self._is_floor_correction(*flag.operands)):
                return False
            return True if known == [True, True] else None
        if flag.opcode != "compare":
            return None
        direction = flag.attributes.direction
        if all(operand.shape.dtype is PRED for operand in flag.operands):
            left = yield self.is_true(flag.operands[0])
            right = yield self.is_true(flag.operands[1])
            return None if None in (left, right) else _compared(direction, bool(left), bool(right))
        sizes: list[Sizes | None] = yield self.all_of(flag.operands)
        if sizes[0] is None or sizes[1] is None:
            return None
        return _compared(direction, sizes[0][0], sizes[1][0])

    def _is_floor_correction(self, signs: Instruction, rest: Instruction) -> Recursion[bool]:
        """Whether two predicates make a quotient that truncates one that floors.

        `sign(x) != sign(y)` and `x % y != 0` never hold together for x >= 0 and y > 0.
        """
        if signs.opcode != "compare" or rest.opcode != "compare":
            return False
        if any(operand.opcode != "sign" for operand in signs.operands):
            return False
        if rest.operands[0].opcode != "remainder":
            return False
        sizes: list[Sizes | None] = yield self.all_of(rest.operands[0].operands)
        if sizes[0] is None or sizes[1] is None:
            return False
        divisor = sizes[1][0]
        return dim.never_negative(sizes[0][0]) and isinstance(divisor, int) and divisor > 0


Rule = Callable[[_Reader, Instruction], Found]


def _plain(rule: Callable[[Instruction], Sizes]) -> Rule:
    """Return a rule that needs no operands."""

    def found(reader: _Reader, value: Instruction) -> Found:
        yield from ()
        return rule(value)

    return found


def _constant(value: Instruction) -> Sizes:
    array: Array = value.attributes.literal.value
    return tuple(int(number) for number in array.reshape(-1))


def _dimension(value: Instruction) -> Sizes:
    dimension: int = value.attributes.dimensions[0]
    size: Size = value.operands[0].shape.dims[dimension]
    return (size,)


def _same(reader: _Reader, value: Instruction) -> Found:
    return (yield reader.sizes(value.operands[0]))


def _broadcast(reader: _Reader, value: Instruction) -> Found:
    found: Sizes | None = yield reader.sizes(value.operands[0])
    size = value.shape.size
    return found * size if found and len(found) == 1 and isinstance(size, int) else None


def _concatenate(reader: _Reader, value: Instruction) -> Found:
    parts: list[Sizes | None] = yield reader.all_of(value.operands)
    known = [part for part in parts if part is not None]
    return tuple(chain.from_iterable(known)) if len(known) == len(parts) else None


def _slice(reader: _Reader, value: Instruction) -> Found:
    found: Sizes | None = yield reader.sizes(value.operands[0])
    if found is None or value.shape.rank != 1:
        return None
    ((start, limit, stride),) = value.attributes.slice
    return found[start:limit:stride]


def _arithmetic(combine: Callable[[Size, Size], Size]) -> Rule:
    def rule(reader: _Reader, value: Instruction) -> Found:
        left, right = yield reader.all_of(value.operands)
        if left is None or right is None:
            return None
        return tuple(combine(one, other) for one, other in zip(left, right, strict=True))

    return rule


def _divided(reader: _Reader, value: Instruction) -> Found:
    """Division truncates and sizes floor: the same where neither operand is negative."""
    left, right = yield reader.all_of(value.operands)
    if left is None or right is None:
        return None
    if not all(dim.never_negative(size) for size in (*left, *right)) or 0 in right:
        return None
    combine = dim.floordiv if value.opcode == "divide" else dim.mod
    return tuple(combine(one, other) for one, other in zip(left, right, strict=True))


def _negated(reader: _Reader, value: Instruction) -> Found:
    found: Sizes | None = yield reader.sizes(value.operands[0])
    return tuple(-size for size in found) if found is not None else None


def _select(reader: _Reader, value: Instruction) -> Found:
    flag, on_true, on_false = value.operands
    chosen: bool | None = yield reader.is_true(flag)
    return None if chosen is None else (yield reader.sizes(on_true if chosen else on_false))


def _compared(direction: str, left: Size, right: Size) -> bool | None:
    if isinstance(left, int) and isinstance(right, int):
        return HOLDS[direction](left, right)
    if direction == "LT" and right == 0 and dim.never_negative(left):
        return False
    if left == right:
        return direction in ("EQ", "GE", "LE")
    return None


_RULES: dict[str, Rule] = {
    "constant": _plain(_constant),
    "get-dimension-size": _plain(_dimension),
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
