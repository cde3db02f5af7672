# SPDX-License-Identifier: Apache-2.0
"""Folds that find the index of the greatest or least element: their steps, and joining lanes.

`argmax` reaches HLO as a reduction of elements with their positions, whose computation compares and
selects. Each lane can run such a fold by itself. Joining lanes is different, because a lane no
longer knows that what it holds came first: equal elements, and NaNs, are decided by position.

The result of comparisons and selections depends only on how their arguments compare. So a table
over representative elements proves which fold a computation is (`_gives`).

Invariant: joined lanes give the index that the elements in order would; where equal elements
differ in the sign of zero, the value may be that of either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ingot.hlo.dtype import PRED, DType
from ingot.hlo.opset.elementwise import HOLDS
from ingot.kernel import expr as ex
from ingot.kernel.expr import Expr, compare, is_position, select, walk
from ingot.kernel.index_math import MIN_INDEX_BITS
from ingot.kernel.ir import Combiner, Pass, Reduction
from ingot.support.records import record

Array = np.ndarray[Any, Any]


_MEANING: Mapping[str, Callable[..., Array]] = {
    "select": np.where, "and": np.logical_and, "or": np.logical_or, "not": np.logical_not,
    "minimum": np.minimum, "maximum": np.maximum,
}  # fmt: skip
"""Ops whose results depend on how their operands compare alone."""


@record
class ArgFold:
    """A fold that finds an index, by its arguments: an element and its index, then another pair.

    Attributes:
        step: the second pair is the next on the axis.
        join: the second pair may stand anywhere.
    """

    step: Combiner
    join: Combiner


@lru_cache(maxsize=256)
def arg_fold(item: Pass, fold: Reduction) -> ArgFold | None:
    """Return how a fold finds the index of an extreme on the pass's one axis, None if it does not.

    A step is less work than what the program wrote, which also tells which index comes first.
    """
    if item.is_running or len(fold.inputs) != 2 or len(item.axes) != 1:
        return None
    value, index = fold.inputs
    if not is_position(index) or item.axes[0].name not in index.axes:
        return None
    is_ordered = not value.dtype.is_complex and value.dtype is not PRED
    if not is_ordered or not index.dtype.is_integer or index.dtype.bits < MIN_INDEX_BITS:
        return None
    if not _starts_before(fold):
        return None
    for direction, otherwise in (("GT", "GE"), ("LT", "LE")):
        join = _by_index(direction, value.dtype, index.dtype)
        if _gives(fold.combiner, join, value.dtype):
            return ArgFold(_in_order(otherwise, value.dtype, index.dtype), join)
    return None


def _starts_before(fold: Reduction) -> bool:
    """Whether the initial index is before every other, and its value is none that wins over all."""
    if any(init.op != "constant" for init in fold.inits):
        return False
    value, index = (init.payload.value for init in fold.inits)
    return not np.isnan(value) and index <= 0


def _by_index(direction: str, element: DType, index_type: DType) -> Combiner:
    """Return the choice of the element that compares so, NaN before all, or of the first index."""
    a, index = ex.argument(0, element), ex.argument(1, index_type)
    b, other = ex.argument(2, element), ex.argument(3, index_type)
    is_first, same = compare("LT", index, other), compare("EQ", a, b)
    wins = compare(direction, a, b)
    if element.is_float:
        a_is_nan, b_is_nan = compare("NE", a, a), compare("NE", b, b)
        same = ex.compute("or", same, ex.compute("and", a_is_nan, b_is_nan))
        b_is_none = ex.compute("not", b_is_nan)
        wins = ex.compute("or", wins, ex.compute("and", a_is_nan, b_is_none))
    stays = ex.compute("or", wins, ex.compute("and", same, is_first))
    return Combiner((select(stays, a, b), select(stays, index, other)))


def _in_order(otherwise: str, element: DType, index_type: DType) -> Combiner:
    """Return the choice of the second element unless the first one is `otherwise` to it, or NaN."""
    a, index = ex.argument(0, element), ex.argument(1, index_type)
    b, other = ex.argument(2, element), ex.argument(3, index_type)
    moves = ex.compute("not", compare(otherwise, a, b))
    if element.is_float:
        moves = ex.compute("and", moves, compare("EQ", a, a))
    return Combiner((select(moves, b, a), select(moves, other, index)))


def _gives(combiner: Combiner, wanted: Combiner, element: DType) -> bool:
    """Whether two folds agree on elements of every order whose first index is the lesser."""
    if not all(_is_comparison(node) for node in walk(combiner.results)):
        return False
    samples = [0, 1, 2]
    if element.is_float:
        samples = [float("nan"), float("-inf"), -1.0, -0.0, 0.0, 1.0, float("inf")]
    left, right = (part.ravel() for part in np.meshgrid(samples, samples))
    arguments = (left, np.zeros(left.shape, np.int64), right, np.ones(left.shape, np.int64))
    found, expected = (_meaning(each, arguments) for each in (combiner, wanted))
    pairs = zip(found, expected, strict=True)
    return all(np.array_equal(one, other, equal_nan=True) for one, other in pairs)


def _is_comparison(node: Expr) -> bool:
    if node.op == "compare":
        return node.payload.type != "TOTALORDER"
    return node.op == "argument" or node.op in _MEANING


def _meaning(combiner: Combiner, arguments: tuple[Array, ...]) -> tuple[Array, ...]:
    """Return what a fold gives for arrays of arguments."""
    values: dict[Expr, Array] = {}
    for node in walk(combiner.results):
        operands = [values[arg] for arg in node.args]
        if node.op == "argument":
            values[node] = arguments[node.payload]
        elif node.op == "compare":
            values[node] = HOLDS[node.payload.direction](*operands)
        else:
            values[node] = _MEANING[node.op](*operands)
    return tuple(values[result] for result in combiner.results)
