# SPDX-License-Identifier: Apache-2.0
"""How large whole numbers may be: what an element type holds exactly, and what an op makes of it.

`RULES` gives the bound of an op's result from those of its operands; ops that are not in it move or
choose elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ingot.hlo.dtype import PRED, DType, Kind
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

Array = np.ndarray[Any, np.dtype[Any]]


def numbers(draw: np.random.Generator, shape: Shape, bound: int) -> Array:
    """Return whole numbers of at most `bound`."""
    element, dims = shape.dtype, shape.static_dims
    if element is PRED:
        return draw.integers(0, 2, dims).astype(np.bool_)
    low = -bound if may_be_negative(element) else 0
    values = draw.integers(low, bound + 1, dims)
    if element.is_complex:
        return (values + 1j * draw.integers(low, bound + 1, dims)).astype(element.numpy)
    return values.astype(element.numpy)


def may_be_negative(element: DType) -> bool:
    """Whether an element type has negative numbers."""
    return element.is_float or element.is_complex or (element.is_integer and element.is_signed)


def limit(element: DType) -> int:
    """Return the number up to which all whole numbers are exact."""
    if element is PRED:
        return 1
    if element.is_complex:
        return 1 << 22
    if element.is_float:
        return 1 << min(element.mantissa + 1, 50)
    return (1 << min(element.bits - element.is_signed, 50)) - 1


Rule = Callable[[Instruction, list[int]], int]


def _times(made: Instruction, known: list[int]) -> int:
    return math.prod(known) * (2 if made.shape.dtype.kind is Kind.COMPLEX else 1)


def largest(made: Instruction, known: list[int]) -> int:
    """Return the bound of an op that moves or chooses elements."""
    return max(known)


RULES: Mapping[str, Rule] = {
    "iota": lambda made, _: max(made.shape.static_dims),
    "add": lambda _, known: sum(known),
    "subtract": lambda _, known: sum(known),
    "multiply": _times,
    "not": lambda _, known: 1,
    "gather": lambda _, known: known[0],
    "dynamic-slice": lambda _, known: known[0],
    "dynamic-update-slice": lambda _, known: max(known[:2]),
}
