# SPDX-License-Identifier: Apache-2.0
"""Which folds may run in lanes along the axis that they fold.

Each lane starts from the identity of the op; at the end the lanes are folded. Lanes of a fold that
finds an index are joined by index (`argminmax`). A running fold takes a whole vector at a time if
its elements are dense. Sums and products of floats are then made in another order than along the
axis, as in any other reduction.

Invariant: the answer depends on the pass alone.
"""

from __future__ import annotations

from ingot.hlo.interfaces import Trait, ops_with
from ingot.kernel.expr import EXACT, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Pass, Reduction
from ingot.kernel.loop.argminmax import arg_fold

LANE_COMBINERS = ops_with(Trait.ASSOCIATIVE)
"""Combiners with an identity: lanes may start from it and be folded at the end."""

LONG_ROW = 128
"""Least elements of a row in which each lane finds the index of an extreme, before joining."""

SHORTEST_SCAN = 32
"""Shorter scans go element by element."""


def folds_lanes(item: Pass) -> bool:
    """Whether every reduction of the pass may be kept in lanes and folded at the end."""
    return all(
        starts_from_identity(fold) or _finds_index_in_long_row(item, fold)
        for fold in item.reductions
    )


def starts_from_identity(fold: Reduction) -> bool:
    """Whether accumulators start from the combiner's identity, the initial value coming last."""
    return fold.combiner.opcode in LANE_COMBINERS


def scans_lanes(item: Pass) -> bool:
    """Whether a running fold may take vectors at once: its elements are dense.

    Sums and products of narrow floats are folded one by one, each rounded to its type.
    """
    (axis,), (fold,) = item.axes, item.reductions
    wheres = [store.index for store in item.stores]
    wheres += [node.payload.index for node in walk(item.exprs) if node.op == "load"]
    is_dense = all(coefficient(where, axis.name) in (0, 1, -1) for where in wheres)
    is_long = not isinstance(axis.extent, int) or axis.extent >= SHORTEST_SCAN
    element = fold.inputs[0].dtype
    is_narrow = element.is_float and element.bits < 32
    rounds = is_narrow and starts_from_identity(fold) and fold.combiner.opcode not in EXACT
    return is_dense and is_long and not rounds


def _finds_index_in_long_row(item: Pass, fold: Reduction) -> bool:
    """Whether a fold finds an index, and joining lanes is little work beside finding it."""
    is_short = any(isinstance(a.extent, int) and a.extent < LONG_ROW for a in item.axes)
    return not is_short and arg_fold(item, fold) is not None
