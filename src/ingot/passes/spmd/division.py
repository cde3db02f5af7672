# SPDX-License-Identifier: Apache-2.0
"""How an op is divided, given the shardings of its operands: factors are chosen one after another.

The annotations of the op's results come first. For each factor that is left, the largest operand
that divides it decides how; operands that divide it otherwise are gathered, whole ones are cut. A
factor stays whole if the parts of one of its dimensions would have different sizes, or if the same
devices already divide another factor.

Invariant: every operand and result of a `Division` can be divided as it says.

Example:
    `ij,jk->ik` with i of the lhs and j of the rhs divided over the same devices: i is taken, so the
    rhs is gathered and each device computes a part of the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Layout, Shape
from ingot.passes.spmd.factors import DimFactors, Factors, factors_of
from ingot.passes.spmd.sharding import (
    Column,
    Sharding,
    count_of,
    independent,
    joined,
    sharding_of,
    undivided_column,
)
from ingot.semantics.call_layouts import layout_orders
from ingot.support.records import record, replace


@record
class Division:
    """How an op is divided.

    Attributes:
        operands: the sharding that each operand must have.
        results: the sharding that each result has.
        folded: the devices' coordinates along the factors that no result has.
        fold: opcode that combines the results of those devices.
    """

    operands: tuple[Sharding, ...]
    results: tuple[Sharding, ...]
    folded: tuple[Column, ...]
    fold: str


Annotations = Sequence[Sharding | None]
"""How the program annotates that each result is divided; None, or nothing, if it does not."""


def divide(
    op: Instruction, given: Sequence[Sharding], annotated: Annotations = ()
) -> Division | None:
    """Return how `op` is divided; None if it must be computed on whole operands.

    Args:
        op: the op; the shapes of its operands are those of parts.
        given: the sharding of each operand.
        annotated: the shardings that its results are annotated with.
    """
    wholes = [
        whole_shape(o.shape, sharding) for o, sharding in zip(op.operands, given, strict=True)
    ]
    factors = factors_of(op, wholes)
    if factors is None:
        return None
    known = next((one for one in (*given, *annotated) if one is not None), None)
    if known is None:
        return None
    count = len(known.parts)
    results = op.shape.parts
    chosen = _chosen(factors, given, annotated, [*wholes, *results])
    if not chosen:
        return None
    whole = undivided_column(count)

    def shardings(mappings: Sequence[DimFactors]) -> tuple[Sharding, ...]:
        return tuple(
            sharding_of([chosen.get(factor, whole) for factor in mapping], count)
            for mapping in mappings
        )

    in_results = {factor for mapping in factors.results for factor in mapping}
    folded = tuple(column for factor, column in chosen.items() if factor not in in_results)
    return Division(shardings(factors.operands), shardings(factors.results), folded, factors.fold)


def undivided(op: Instruction, whole: Sharding) -> Division:
    """Return the division of an op that each device computes completely."""
    count = len(op.shape.elements) if op.shape.is_tuple else 1
    return Division((whole,) * len(op.operands), (whole,) * count, (), "")


def is_apart(division: Division, column: Column) -> bool:
    """Whether devices that differ in `column` have the same part of everything."""
    columns = [(column, *map(one.column, range(len(one.tiles)))) for one in division.operands]
    columns += [
        (column, *division.folded, *map(one.column, range(len(one.tiles))))
        for one in division.results
    ]
    return all(map(independent, columns))


def own_axis(division: Division, given: Sharding, kept: Sharding, rank: int) -> int | None:
    """Return the dimension of a value of `rank` along which devices can work on their own parts.

    It is the only one that `given` divides otherwise than the division does, which is `kept`; the
    devices that differ along it have the same part of everything else. None if there is none.
    """
    changed = given.changed(kept, rank)
    if len(changed) != 1 or any(kept.column(changed[0])):
        return None
    return changed[0] if is_apart(division, given.column(changed[0])) else None


def still_summed(sharding: Sharding, columns: Sequence[Column], rank: int) -> Sharding:
    """Return the sharding of a result of `rank` that is still to be summed along `columns`.

    Without columns it is `sharding`.
    """
    return sharding.of_summands(joined(columns) if columns else (), rank)


def divided_too(kept: Sharding, axis: int, column: Column, rank: int) -> Sharding:
    """Return a sharding of a value of `rank` that divides one dimension more."""
    columns = [column if dim == axis else kept.column(dim) for dim in range(rank)]
    return sharding_of(columns, len(column))


def _chosen(
    factors: Factors, given: Sequence[Sharding], annotated: Annotations, shapes: Sequence[Shape]
) -> dict[int | None, Column]:
    """Return the columns of the factors that can be divided; large operands choose first."""
    divided = [number for number, sharding in enumerate(given) if not sharding.is_replicated]
    divided.sort(key=lambda number: -_elements(shapes[number]))
    choices = [
        (wish, mapping) for wish, mapping in zip(annotated, factors.results, strict=False) if wish
    ]
    choices += [(given[number], factors.operands[number]) for number in divided]
    chosen: dict[int | None, Column] = {}
    for sharding, mapping in choices:
        for axis, factor in enumerate(mapping):
            column = sharding.column(axis)
            if factor is None or factor in chosen or count_of(column) == 1:
                continue
            even = _is_even(factors, factor, count_of(column), shapes)
            if even and independent((*chosen.values(), column)):
                chosen[factor] = column
    return chosen


def _elements(shape: Shape) -> int:
    return math.prod(size for size in shape.dims if isinstance(size, int))


def _is_even(factors: Factors, factor: int, count: int, shapes: Sequence[Shape]) -> bool:
    """Whether every dimension along a factor can be divided in `count`."""
    mappings = (*factors.operands, *factors.results)
    sizes = [
        shape.dims[axis]
        for shape, mapping in zip(shapes, mappings, strict=True)
        for axis, other in enumerate(mapping)
        if other == factor
    ]
    return all(isinstance(size, int) and size % count == 0 for size in sizes)


def local_shape(shape: Shape, sharding: Sharding) -> Shape:
    """Return the shape of one part."""
    if not shape.is_array:
        return shape
    return Shape.array(shape.dtype, sharding.local_dims(shape.dims), shape.layout)


def whole_shape(part: Shape, sharding: Sharding) -> Shape:
    """Return the shape of a value from that of its part."""
    if not sharding.tiles:
        return part
    return part.with_dims(
        tuple(size * tiles for size, tiles in zip(part.dims, sharding.tiles, strict=True))
    )


def local_shapes(shape: Shape, shardings: Sequence[Sharding]) -> Shape:
    """Return the shape of the part of a value, or of a tuple of values."""
    if not shape.is_tuple:
        return local_shape(shape, shardings[0])
    return Shape.tuple(tuple(map(local_shape, shape.elements, shardings)))


def local_attributes(op: Instruction, part: Instruction, division: Division) -> Any:
    """Return the attributes of `part`, the part of `op`: their sizes are those of parts."""
    given = op.attributes
    if op.opcode == "dynamic-slice":
        return replace(given, dynamic_slice_sizes=part.shape.dims)
    if op.opcode == "gather":
        how = given.index_map
        sizes = list(given.slice_sizes)
        for window, dim in zip(how.window_dims, how.operand_window_dims(len(sizes)), strict=True):
            sizes[dim] = part.shape.dims[window]
        return replace(given, slice_sizes=tuple(sizes))
    if op.opcode == "slice":
        tiles = division.operands[0].tiles or (1,) * part.shape.rank
        rows = zip(given.slice, tiles, strict=True)
        return replace(given, slice=tuple((low, high // n, step) for (low, high, step), n in rows))
    if op.opcode == "custom-call" and given.operand_layout_constraints:
        orders, _ = layout_orders(op)
        shapes = (
            Shape.array(operand.shape.dtype, operand.shape.dims, Layout(order))
            for operand, order in zip(part.operands, orders, strict=True)
        )
        return replace(given, operand_layout_constraints=f"{{{', '.join(map(str, shapes))}}}")
    return given
