# SPDX-License-Identifier: Apache-2.0
"""A later pass reads a result back instead of computing it a second time.

A conjugate gradient's residual is a result of its kernel and is folded there; the next direction
needs the fold and the residual. The later pass reads the residual that the earlier one has stored.

Invariant: a later pass reads only elements that an earlier pass stored at the same grid point.
"""

from __future__ import annotations

from ingot.hlo.dtype import PRED
from ingot.kernel import expr as ex
from ingot.kernel.expr import Expr, walk
from ingot.kernel.ir import LoopKernel, Pass
from ingot.kernel.rewrite import ExprSubstitution
from ingot.support.records import replace

LEAST_SAVED = 3
"""Expressions that need not be computed again, from which on one more load pays."""


def reuse_stores(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with stored values read back by later passes over the same axes."""
    passes = list(kernel.passes)
    if kernel.serial:
        return kernel
    for number, later in enumerate(passes):
        stored: dict[Expr, Expr] = {}
        for earlier in passes[:number]:
            if later.axes and earlier.axes == later.axes and not earlier.is_running:
                stored |= _stored(earlier)
        if stored:
            made = ExprSubstitution(stored).sweep(later)
            passes[number] = made if _saves(later, made) else later
    return replace(kernel, passes=tuple(passes)) if passes != list(kernel.passes) else kernel


def _stored(item: Pass) -> dict[Expr, Expr]:
    """Return a load of each value that a pass computes and stores whole."""
    return {
        store.value: ex.load(store.buffer, store.index, store.value.dtype)
        for store in item.stores
        if store.is_simple and store.value.args and store.value.dtype is not PRED
    }


def _saves(later: Pass, made: Pass) -> bool:
    """Whether fewer expressions are computed, and no more is loaded."""
    before, after = walk(later.exprs), walk(made.exprs)
    loads = [sum(node.op == "load" for node in nodes) for nodes in (before, after)]
    return loads[1] <= loads[0] and len(before) - len(after) >= LEAST_SAVED
