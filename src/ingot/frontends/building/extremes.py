# SPDX-License-Identifier: Apache-2.0
"""The greatest or least element along an axis together with its index.

One reduction of pairs, whose computation compares and selects; kernels know such folds
(`kernel.loop.argminmax`). The first of equal elements is found, and the first NaN before all
numbers.
"""

from __future__ import annotations

from ingot.frontends.building.arrays import ArrayBuilder, index_type, neutral
from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import PRED, S32, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape


def _extreme_computation(direction: str, element: DType, index_element: DType) -> Computation:
    """Return the reducer of (value, index) pairs: the first index of the extreme, NaN first."""
    b = Builder(f"arg_{direction.lower()}_{element.name}")
    shapes = (Shape.array(element, ()), Shape.array(index_element, ()))
    value, index, other, other_index = (b.parameter(n, shapes[n % 2]) for n in range(4))
    wins = b.compare(value, other, direction=direction)
    same = b.compare(value, other, direction="EQ")
    if element.is_float:
        strange, other_strange = (b.compare(x, x, direction="NE") for x in (value, other))
        wins = b.or_(wins, b.and_(strange, b.not_(other_strange)))
        same = b.or_(same, b.and_(strange, other_strange))
    first = b.and_(same, b.compare(index, other_index, direction="LT"))
    stays = b.or_(wins, first)
    return b.build(b.tuple(b.select(stays, value, other), b.select(stays, index, other_index)))


def extreme(
    b: ArrayBuilder, x: Instruction, axis: int, *, largest: bool
) -> tuple[Instruction, Instruction]:
    """Return the largest or smallest elements along an axis and their first indices.

    Indices are s32, or s64 where the axis has more elements than that; truth values are s32.
    """
    if x.shape.dtype is PRED:
        x = b.convert_to(x, S32)
    element, index_element = x.shape.dtype, index_type((x.shape.dims[axis],))
    direction = "GT" if largest else "LT"
    key = (f"arg{direction}{index_element.name}", element.name)
    reducers = b.reducers
    if key not in reducers:
        reducers[key] = _extreme_computation(direction, element, index_element)
    start = b.constant(neutral("maximum" if largest else "minimum", element), element)
    # If no element is better than the start, all are equal to it, and the first is at 0.
    first = b.constant(0, index_element)
    indices = b.iota_of(index_element, x.shape.dims, axis)
    both = b.emit("reduce", x, indices, start, first, dimensions=(axis,), to_apply=reducers[key])
    return b.element_of(both, 0), b.element_of(both, 1)


def arg_extreme(b: ArrayBuilder, x: Instruction, axis: int, largest: bool) -> Instruction:
    """Return the first index of the largest or smallest element along an axis."""
    return extreme(b, x, axis, largest=largest)[1]
