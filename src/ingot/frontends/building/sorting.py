# SPDX-License-Identifier: Apache-2.0
"""Stable sorts of several arrays by the first of them.

Equal elements are ordered by their index, so every sort is stable. Floats are in their total order,
as in XLA (NaN above infinity, 0 above -0), or by value: all NaN are equal and the greatest, and so
are both zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape


def sort_by_first(
    b: ArrayBuilder,
    operands: Sequence[Instruction],
    axis: int,
    *,
    descending: bool = False,
    by_value: bool = False,
) -> Instruction:
    """Sort along `axis` by the first operand, stably; the others are put in the same order.

    Args:
        b: where.
        operands: arrays of the same dimensions.
        axis: along which.
        descending: the greatest first.
        by_value: floats by value and not in their total order.

    Returns:
        The sorted array, or a tuple if there are several.
    """
    elements = [operand.shape.dtype for operand in operands]
    way = "descending" if descending else "ascending"
    name = "_".join((way, *(("value",) if by_value else ()), *(e.name for e in elements)))
    reducers = b.reducers
    if ("sort", name) not in reducers:
        reducers["sort", name] = _comparator(name, elements, "GT" if descending else "LT", by_value)
    return b.emit(
        "sort",
        *operands,
        dimensions=(axis,),
        is_stable=True,
        to_apply=reducers["sort", name],
    )


def _comparator(
    name: str, elements: Sequence[DType], direction: str, by_value: bool
) -> Computation:
    """Return the comparator of the first of several keys."""
    b = Builder(name)
    given = [
        b.parameter(2 * n + side, Shape.array(element, ()))
        for n, element in enumerate(elements)
        for side in range(2)
    ]
    keys = given[:2]
    if by_value and elements[0].is_float:
        keys = [_by_value(b, key) for key in keys]
    order = "TOTALORDER" if elements[0].is_float else ""
    return b.build(b.compare(*keys, direction=direction, type=order))


def _by_value(b: Builder, key: Instruction) -> Instruction:
    """Return one NaN for all, and one zero."""
    element = key.shape.dtype
    zero, nan = (b.constant(np.asarray(value, element.numpy)) for value in (0, np.nan))
    key = b.select(b.compare(key, zero, direction="EQ"), zero, key)
    return b.select(b.compare(key, key, direction="NE"), nan, key)
