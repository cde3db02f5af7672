# SPDX-License-Identifier: Apache-2.0
"""Between which numbers the elements of an integer instruction lie, as far as its operands tell.

Invariant: a value that may wrap has the whole range of its type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ingot.hlo.dtype import PRED, greatest, least
from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.pattern import splat_of

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


def _maximum(root: Instruction, depth: int) -> Range:
    (a, b), (c, d) = _of_operands(root, depth)
    return max(a, c), max(b, d)


def _minimum(root: Instruction, depth: int) -> Range:
    (a, b), (c, d) = _of_operands(root, depth)
    return min(a, c), min(b, d)


def _clamp(root: Instruction, depth: int) -> Range:
    least_, given, most = _of_operands(root, depth)
    low, high = (min(max(given[at], least_[at]), most[at]) for at in (0, 1))
    return low, high


def _add(root: Instruction, depth: int) -> Range:
    (a, b), (c, d) = _of_operands(root, depth)
    return a + c, b + d


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
    "maximum": _maximum,
    "minimum": _minimum,
    "clamp": _clamp,
    "add": _add,
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
