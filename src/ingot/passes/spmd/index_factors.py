# SPDX-License-Identifier: Apache-2.0
"""Factors of gather and scatter: dimensions of operand, indices and windows that go together.

Indices are independent of each other, so each of their dimensions is a factor. So is a dimension of
the windows that takes a whole dimension of the operand, since it begins at 0 whatever the index is.
The dimensions of a scatter's indices are factors only if the operand is the identity of the fold
over devices, or if they are batching dimensions of the operand, too.

Source: shardy/dialect/sdy/transforms/propagation/op_sharding_rule_registry.cc
(addGatherScatterFactors).
"""

from __future__ import annotations

from typing import NamedTuple

from ingot.hlo.opset.indexing import IndexMap
from ingot.hlo.shape import Shape

DimFactors = tuple[int | None, ...]
"""The factor of each dimension of a value; None where the dimension must be whole."""


class IndexedFactors(NamedTuple):
    """The factors of each array's dimensions, numbered by the dimensions of the windowed array."""

    operand: DimFactors
    indices: DimFactors
    windowed: DimFactors


def indexed_factors(
    how: IndexMap, operand: Shape, indices: Shape, windowed: Shape, is_free: bool
) -> IndexedFactors:
    """Return the factors of a gather or scatter.

    Args:
        how: gather's or scatter's dimension numbers.
        operand: the array that is read or written.
        indices: at which indices.
        windowed: gather's result or scatter's updates.
        is_free: whether dimensions of the indices that are not batching dimensions are factors.
    """
    factors: tuple[list[int | None], ...] = tuple(
        [None] * shape.rank for shape in (operand, indices, windowed)
    )
    windows = zip(how.window_dims, how.operand_window_dims(operand.rank), strict=True)
    for window, dim in windows:
        if windowed.dims[window] == operand.dims[dim]:
            factors[0][dim] = factors[2][window] = window
    alongside = dict(zip(how.indices_batching_dims, how.operand_batching_dims, strict=True))
    batch = [axis for axis in range(windowed.rank) if axis not in how.window_dims]
    for factor, axis in zip(batch, how.indices_batch_dims(indices.rank), strict=True):
        if axis in alongside:
            factors[0][alongside[axis]] = factor
        if axis in alongside or is_free:
            factors[1][axis] = factors[2][factor] = factor
    return IndexedFactors(*map(tuple, factors))
