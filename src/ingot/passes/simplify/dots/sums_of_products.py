# SPDX-License-Identifier: Apache-2.0
"""sum-to-dot: sums of products of broadcasts, which are matrix products, become dots.

    reduce(multiply(broadcast(x[i,k]), broadcast(y[k,j])), dimensions={k}), to_apply=add
        => dot(x, y)

Each side may have several factors: weights of the rows are multiplied into one side first.

Source: XLA does the same in its algebraic simplifier. Invariant: `dot-strength-reduction` takes no
dot that this pass makes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from ingot.hlo.builder import Builder
from ingot.hlo.dim import Dim, product
from ingot.hlo.dtype import F32, F64
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.reduction import ReduceAttributes
from ingot.hlo.opset.shaping import DimensionsAttributes
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.op_pass import in_order, op_pass
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.semantics.reducers import is_identity, reducer_opcode
from ingot.support.records import record

MIN_SIDE, MIN_RESULTS, MIN_DEPTH = 8, 256, 4
"""Rows and columns, results, and products of each at least. Against loops sums of 1000 outer
products of 16 and 16 numbers took 0.43 of the time, of 8 and 32 0.2, of 4096 of 32 and 32 0.32, 5
of 500 and 500 0.2, 10 of 16 and 16 1.0; rows times rows, 200 of 200 0.25, 16 of 100 0.88, 16 of 4
1.04, 100 of 6 0.93; 200 matrices of 16x8 by 8x16 0.61, 64 of 20x20 0.48, with the batch innermost
2.6 (Sapphire Rapids, one thread, 2026-12-01)."""

MOST_FACTORS = 8
"""Factors of a product at most."""


@op_pass("sum-to-dot", "reduce")
def sum_to_dot(op: Instruction, module: Module, context: PassContext) -> bool:
    """Makes a dot of a sum of products of broadcasts."""
    if context.fp < Fp.CONTRACT:
        return False
    sides = _sides_of(op)
    if sides is None:
        return False
    op.computation.replace(op, in_order(op, lambda: _dot(op, sides)))
    return True


@record
class _Factor:
    """A factor of a product: a value, and the product's dimension of each dimension of it."""

    value: Instruction
    dimensions: tuple[int, ...]


@record
class _Side:
    """A side of a dot: the product's dimensions that it varies along, in order, and its factors."""

    dimensions: tuple[int, ...]
    factors: tuple[_Factor, ...]


def _sides_of(op: Instruction) -> tuple[_Side, _Side] | None:
    """Return both sides of the dot that a reduction is, None if it is none that pays."""
    if len(op.operands) != 2 or op.control_predecessors:
        return None
    value, start = op.operands
    given = op.as_(ReduceAttributes)
    is_product = value.opcode == "multiply" and value.shape.dtype in (F32, F64)
    if not is_product or reducer_opcode(given.to_apply) != "add" or not is_identity(start, "add"):
        return None
    factors = _factors_of(value, op)
    along = sorted({frozenset(one.dimensions) for one in factors}, key=len, reverse=True)
    others = [item for item in along if not item <= along[0]] if along else []
    if not others:
        return None
    first, second = along[0], others[0]
    lhs = [one for one in factors if first.issuperset(one.dimensions)]
    rhs = [one for one in factors if not first.issuperset(one.dimensions)]
    if not all(second.issuperset(one.dimensions) for one in rhs):
        return None
    dims, summed = value.shape.dims, frozenset(given.dimensions)
    if first | second != frozenset(range(len(dims))) or not summed <= first & second:
        return None
    if len(dims) - 1 in (first & second) - summed:
        return None  # loops have their lanes along the batch
    parts = (first - second, second - first, summed)
    rows, columns, depth = (_size(dims, part) for part in parts)
    if min(rows, columns) < MIN_SIDE or rows * columns < MIN_RESULTS or depth < MIN_DEPTH:
        return None
    return _Side(tuple(sorted(first)), tuple(lhs)), _Side(tuple(sorted(second)), tuple(rhs))


def _size(dims: tuple[int | Dim, ...], part: frozenset[int]) -> int:
    """Return the elements along some dimensions; 0 if a size is not a number."""
    found = product(dims[dimension] for dimension in part)
    return found if isinstance(found, int) else 0


def _factors_of(value: Instruction, reader: Instruction) -> list[_Factor]:
    """Return the factors of a product that `reader` alone reads; none if there are too many."""
    inside, stack = {reader}, [value]
    found: list[_Factor] = []
    while stack:
        item = stack.pop()
        if item.opcode == "multiply" and inside.issuperset(item.users):
            inside.add(item)
            stack += item.operands
        elif item.opcode == "broadcast":
            along = item.as_(DimensionsAttributes).dimensions
            found.append(_Factor(item.operands[0], along))
        else:
            found.append(_Factor(item, tuple(range(item.shape.rank))))
        if len(found) + len(stack) > MOST_FACTORS:
            return []
    return found


def _dot(op: Instruction, sides: tuple[_Side, _Side]) -> Instruction:
    """Return the dot of both sides, its dimensions in the order of the sum's."""
    build = Builder(op.computation, op.metadata)
    dims, summed = op.operands[0].shape.dims, op.as_(ReduceAttributes).dimensions
    lhs, rhs = sides
    batch = [d for d in lhs.dimensions if d in rhs.dimensions and d not in summed]
    free = [[d for d in side.dimensions if d not in (*summed, *batch)] for side in sides]
    order = [*batch, *free[0], *free[1]]

    def places(side: _Side, of: Iterable[int]) -> tuple[int, ...]:
        return tuple(side.dimensions.index(dimension) for dimension in of)

    made = build.dot(
        _product(lhs, dims, build),
        _product(rhs, dims, build),
        shape=op.shape.with_dims(tuple(dims[dimension] for dimension in order)),
        lhs_batch_dims=places(lhs, batch),
        lhs_contracting_dims=places(lhs, summed),
        rhs_batch_dims=places(rhs, batch),
        rhs_contracting_dims=places(rhs, summed),
    )
    if order == sorted(order):
        return made
    return build.transpose(made, dimensions=tuple(map(order.index, sorted(order))))


def _product(side: _Side, dims: tuple[int | Dim, ...], build: Builder) -> Instruction:
    """Return the product of a side's factors along its dimensions."""
    sizes = tuple(dims[dimension] for dimension in side.dimensions)

    def placed(factor: _Factor) -> Instruction:
        along = tuple(map(side.dimensions.index, factor.dimensions))
        return build.broadcast_in_order(factor.value, sizes, along)

    return reduce(build.multiply, map(placed, side.factors))
