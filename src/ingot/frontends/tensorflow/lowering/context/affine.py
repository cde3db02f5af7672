# SPDX-License-Identifier: Apache-2.0
"""Integer scalars as sums of products: what `begin` and `end` of a slice have in common.

`x[i * 4 : i * 4 + 4]` in a loop is a slice of constant size at an offset that only run time knows.
`difference` finds that: both bounds are written as sums of integer multiples of products of
instructions, through additions, multiplications, conversions and moves of elements.

Invariant: two forms are equal only if the values are, in arithmetic that does not overflow: bounds
of slices that lie inside a tensor do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np

from ingot.frontends.tensorflow.lowering.context.values import Size
from ingot.hlo.instruction import Instruction

Monomial = tuple[Instruction, ...]
Form = Mapping[Monomial, int]
"""Each product of instructions, by what it is multiplied; the empty product is the constant."""

Origins = Mapping[Instruction, Instruction]


def difference(limit: Instruction, start: Instruction, origins: Origins) -> Form:
    """Return `limit - start`; `origins` says what elements of bodies are outside."""
    forms = _Forms(origins)
    total = _sum(forms.of(limit), forms.of(start), -1)
    return {product: count for product, count in total.items() if count}


_MOST_TERMS = 16
_DEEPEST = 64


class _Forms:
    """The forms of instructions, each found once."""

    def __init__(self, origins: Origins) -> None:
        self._origins = origins
        self._known: dict[Instruction, Form] = {}

    def of(self, value: Instruction, depth: int = 0) -> Form:
        """Return an integer scalar as a sum of products."""
        if value not in self._known:
            self._known[value] = self._found(_element(value, self._origins), depth)
        return self._known[value]

    def _found(self, value: Instruction | int, depth: int) -> Form:
        if isinstance(value, int):
            return {(): value}
        itself: Form = {(value,): 1}
        made = _FORMS.get(value.opcode)
        if made is None or depth > _DEEPEST or not value.shape.dtype.is_integer:
            return itself
        found = made([self.of(operand, depth + 1) for operand in value.operands])
        return itself if len(found) > _MOST_TERMS else found


def _element(value: Instruction, origins: Origins) -> Instruction | int:
    """Follow moves of one element to where it is computed; a constant gives its number."""
    while value.opcode != "constant":
        before = origins.get(value) or _moved(value)
        if before is None:
            return value
        value = before
    return int(np.asarray(value.attributes.literal.array).ravel()[0])


def _moved(value: Instruction) -> Instruction | None:
    """Return the element that an instruction moves or converts, if it does nothing else."""
    if value.opcode == "slice" and _is_single(value):
        return _sliced(value)
    if value.opcode == "convert":
        return value.operands[0] if value.operands[0].shape.dtype.is_integer else None
    is_move = value.opcode in ("reshape", "copy") and _is_single(value.operands[0])
    return value.operands[0] if is_move else None


def _is_single(value: Instruction) -> bool:
    return all(size == 1 for size in value.shape.dims)


def _is_single_row(value: Instruction) -> bool:
    return value.shape.rank > 0 and all(size == 1 for size in value.shape.dims[:-1])


def _sliced(value: Instruction) -> Instruction | None:
    """Return the operand of a concatenation of single elements, in a row, that a slice picks."""
    joined = value.operands[0]
    while joined.opcode == "reshape" and _is_single_row(joined):
        joined = joined.operands[0]
    if joined.opcode != "concatenate" or not _is_single_row(joined):
        return None
    if not all(_is_single(item) for item in joined.operands):
        return None
    bounds: tuple[tuple[Size, Size, int], ...] = value.attributes.slice
    start = bounds[-1][0]
    return joined.operands[start] if isinstance(start, int) else None


def _sum(left: Form, right: Form, factor: int = 1) -> Form:
    total = Counter(left)
    for product, count in right.items():
        total[product] += factor * count
    return total


def _product(left: Form, right: Form) -> Form:
    total: Counter[Monomial] = Counter()
    for first, count in left.items():
        for second, other in right.items():
            key = tuple(sorted((*first, *second), key=id))
            total[key] += count * other
    return total


_FORMS: dict[str, Callable[[list[Form]], Form]] = {
    "add": lambda parts: _sum(parts[0], parts[1]),
    "subtract": lambda parts: _sum(parts[0], parts[1], -1),
    "multiply": lambda parts: _product(parts[0], parts[1]),
    "negate": lambda parts: _sum({}, parts[0], -1),
}
