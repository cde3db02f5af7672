# SPDX-License-Identifier: Apache-2.0
"""Factors of gather and scatter: which dimensions of operand, indices and windows run together.

Every index is on its own, and so is every place of a window that takes a whole dimension of the
operand: it begins at 0 whatever the index says. A scatter's indices are on their own only if the
operand adds nothing to what devices combine, or if a dimension of the operand runs along with them.

Source: shardy/dialect/sdy/transforms/propagation/op_sharding_rule_registry.cc
(addGatherScatterFactors).
"""

from __future__ import annotations

from typing import NamedTuple

from ingot.hlo.opset.indexing import IndexMap
from ingot.hlo.shape import Shape

Places = tuple[int | None, ...]


class IndexedPlaces(NamedTuple):
    """The factors of each dimension; those of the windowed array are numbered by its dimensions."""

    operand: Places
    indices: Places
    windowed: Places


def indexed_places(
    how: IndexMap, operand: Shape, indices: Shape, windowed: Shape, is_free: bool
) -> IndexedPlaces:
    """Return the factors; the indices' own are none unless each `is_free` of the others.

    Args:
        how: gather's or scatter's dimension numbers.
        operand: what is read or written.
        indices: where.
        windowed: gather's result or scatter's updates.
        is_free: whether indices that no dimension of the operand runs along with have factors.
    """
    places: tuple[list[int | None], ...] = tuple(
        [None] * shape.rank for shape in (operand, indices, windowed)
    )
    windows = zip(how.window_dims, how.operand_window_dims(operand.rank), strict=True)
    for window, place in windows:
        if windowed.dims[window] == operand.dims[place]:
            places[0][place] = places[2][window] = window
    alongside = dict(zip(how.indices_batching_dims, how.operand_batching_dims, strict=True))
    batch = [axis for axis in range(windowed.rank) if axis not in how.window_dims]
    for factor, axis in zip(batch, how.indices_batch_dims(indices.rank), strict=True):
        if axis in alongside:
            places[0][alongside[axis]] = factor
        if axis in alongside or is_free:
            places[1][axis] = places[2][factor] = factor
    return IndexedPlaces(*map(tuple, places))
