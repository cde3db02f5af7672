# SPDX-License-Identifier: Apache-2.0
"""What schedules of products share: sums as folds of a loop, and how operands lie in memory."""

from __future__ import annotations

from ingot.kernel import expr as ex
from ingot.kernel.expr import Expr, loads_of, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Combiner, Reduction, Store
from ingot.kernel.rewrite import ExprSubstitution


def is_along(operand: Expr, axis: str) -> bool:
    """Whether the loads of an operand are dense along an axis."""
    loads = loads_of((operand,))
    return any(coefficient(load.payload.index, axis) == 1 for load in loads)


def sum_of(number: int, value: Expr) -> Reduction:
    """Return reduction `number`, the sum of a value."""
    element = value.dtype
    arguments = (ex.argument(0, element), ex.argument(1, element))
    add = Combiner((ex.compute("add", *arguments),))
    return Reduction(number, add, (ex.scalar(0, element),), (value,))


def with_sums(stores: tuple[Store, ...], total: Expr) -> tuple[Store, ...]:
    """Return the stores of a product with `total` in place of its sums."""
    exprs = tuple(expr for store in stores for expr in store.exprs)
    leaves = [node for node in walk(exprs) if node.op == "accumulator"]
    return ExprSubstitution(dict.fromkeys(leaves, total)).stores(stores)
