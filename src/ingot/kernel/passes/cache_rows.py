# SPDX-License-Identifier: Apache-2.0
"""Values that a later pass needs again: kept in a local buffer, or read back.

`cache_rows`: softmax needs exp(x - max) for the sum and for the result. Fusion computes both in one
kernel, and a row of exponentials fits in the L1 cache, so the second pass reads it from there. Only
kernels whose passes run along rows, of a known and moderate length, cache values.

`reuse_stores`: a conjugate gradient's residual is a result of its kernel and is folded there; the
next direction needs the fold and the residual. The later pass reads the residual that the earlier
one has stored.

Invariant: a later pass reads only elements that an earlier pass stored at the same grid point.
"""

from __future__ import annotations

from ingot.hlo.dim import Dim
from ingot.hlo.dtype import PRED
from ingot.kernel import expr as ex
from ingot.kernel.expr import Expr, is_expensive, walk
from ingot.kernel.ir import Axis, Buffer, LoopKernel, Pass, Store
from ingot.kernel.rewrite import ExprSubstitution
from ingot.llvm.machine_model import L2_BYTES
from ingot.support.records import replace

MAX_ROW_BYTES = L2_BYTES // 16
"""Longest row that is cached, all cached values together."""


def cache_rows(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with shared expensive values kept in local buffers between passes."""
    passes = list(kernel.passes)
    rows: list[Buffer] = []
    for later in range(1, len(passes)):
        for earlier in range(later):
            if passes[earlier].axes == passes[later].axes and _is_row(passes[later].axes):
                first = len(kernel.buffers) + len(kernel.local_buffers) + len(rows)
                rows.extend(_share(passes, earlier, later, first))
    if not rows or sum(_bytes(buffer) for buffer in rows) > MAX_ROW_BYTES:
        return kernel
    return replace(kernel, passes=tuple(passes), local_buffers=(*kernel.local_buffers, *rows))


def _is_row(axes: tuple[Axis, ...]) -> bool:
    return len(axes) == 1 and isinstance(axes[0].extent, int)


def _bytes(buffer: Buffer) -> int:
    assert isinstance(buffer.size, int)
    return buffer.size * buffer.dtype.bytes


def _share(passes: list[Pass], earlier: int, later: int, number: int) -> list[Buffer]:
    """Keep what `later` takes over from `earlier`; edit both; return the buffers."""
    (axis,) = passes[later].axes
    assert isinstance(axis.extent, int)
    candidates = set(walk(passes[earlier].exprs))
    shared = _shared(passes[later].exprs, candidates, axis.name)
    where = Dim.symbol(axis.name)
    replacements: dict[Expr, Expr] = {}
    stores: list[Store] = []
    buffers: list[Buffer] = []
    for value in shared:
        buffer = number + len(buffers)
        buffers.append(Buffer(value.dtype, axis.extent, True))
        stores.append(Store(buffer, where, value))
        replacements[value] = ex.load(buffer, where, value.dtype)
    if buffers:
        old = passes[earlier]
        passes[earlier] = replace(old, stores=(*old.stores, *stores))
        passes[later] = ExprSubstitution(replacements).sweep(passes[later])
    return buffers


def _shared(roots: tuple[Expr, ...], candidates: set[Expr], axis: str) -> list[Expr]:
    """Return the largest expensive expressions under `roots` that are candidates too.

    A product stands for its factors: a sum of the product is rounded once, so it needs them.
    """
    found: dict[Expr, None] = {}
    seen: set[Expr] = set()
    stack = list(roots)
    while stack:
        item = stack.pop()
        if item in seen or axis not in item.axes:
            continue
        seen.add(item)
        is_shared = item in candidates and item.op != "multiply"
        if is_shared and any(map(is_expensive, walk((item,)))):
            found[item] = None
        else:
            stack.extend(item.args)
    return list(found)


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
