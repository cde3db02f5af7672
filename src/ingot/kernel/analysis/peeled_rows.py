# SPDX-License-Identifier: Apache-2.0
"""Rows that are peeled: a masked vector first, so that the others are stored to whole cache lines.

A vector of 64 bytes that lies across two cache lines is two accesses, and a store of it is the
slowest of all. Rows of 999 elements begin anywhere in a line, and each of their vectors does. Where
the points of a row are a few cheap ops and the row is long, the vector in front, which has as
many lanes as are left of the line, costs less than what it saves.

Invariant: only what is stored for each point alone is peeled, so results do not depend on
addresses.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.hlo import dim
from ingot.hlo.dtype import F32
from ingot.kernel.expr import Expr, is_expensive, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, LoopKernel, Pass, Store
from ingot.llvm.machine_model import LINE_BYTES, Vectors

LINE_BITS = LINE_BYTES * 8

LEAST_LINES = 4
"""Lines of a row at least: shorter ones were not measured."""


def least_lines(ops: int, *, is_costly: bool) -> int:
    """Return the lines of a row at least, if its points are so many ops.

    The vector in front is costly where rows wait for their reductions, and on AVX2, where it is
    several and masks are no registers of their own. With lanes along the grid and AVX-512, x * b of
    2 ops took 0.84 to 0.97 of the time with rows of 65 f32 or more, max(x + b, 0) of 4 ops 0.7 to
    0.8, max(x * g + b, 0) of 6 ops 0.8 to 0.95 from 97 on. Behind a mean or sum, x - mean of 2 ops
    took 0.75 to 0.9 from 65 on, x * scale * b of 4 ops 0.85 from 193 on and 1.0 to 1.2 before, a
    layer normalization of 5 ops 1.0 to 1.25 up to 300 and 0.9 with 999. With AVX2, the first took
    0.8 to 0.97, the second 1.0 to 1.4 below 257 and 0.97 above (Sapphire Rapids, one thread, in L2,
    2026-12-01).
    """
    return max(LEAST_LINES, ops * ops if is_costly else ops)


def peeled_passes(
    kernel: LoopKernel, axis: Axis | None, lanes: tuple[int, ...], vectors: Vectors
) -> tuple[bool, ...]:
    """Return which passes are peeled, `()` if none is.

    Args:
        kernel: the kernel.
        axis: the axis of the grid that lanes run along, or None: each pass has its own.
        lanes: the lanes of each pass.
        vectors: the target's vectors.

    Returns:
        One entry for each pass with lanes of its own; where lanes run along the grid, one for all.
    """
    if vectors.bits < LINE_BITS // 2 or kernel.serial:
        return ()
    if axis is not None:
        found = (_is_peeled(kernel.passes, axis, lanes[0], vectors, waits=False),)
    else:
        found = tuple(
            bool(item.axes) and _is_peeled((item,), item.axes[-1], each, vectors, waits=True)
            for item, each in zip(kernel.passes, lanes, strict=True)
        )
    return found if any(found) else ()


def _is_peeled(
    passes: tuple[Pass, ...], axis: Axis, lanes: int, vectors: Vectors, *, waits: bool
) -> bool:
    """Whether vectors of `lanes` along an axis, of all of `passes`, are peeled."""
    stores = [store for item in passes for store in item.stores]
    if not stores or not isinstance(axis.extent, int) or lanes.bit_count() > 1:
        return False
    if any(item.reductions or any(inner != axis for inner in item.axes) for item in passes):
        return False
    aligned = aligned_store(stores)
    line = elements_of_line(aligned)
    if lanes < line or not all(_is_along(store, axis) for store in stores):
        return False
    nodes = walk(tuple(expr for item in passes for expr in item.exprs))
    ops = [node for node in nodes if axis.name in node.axes and node.op != "index"]
    is_half = vectors.bits < LINE_BITS
    if any(is_expensive(op) or _is_widened(op) or (is_half and op.dtype.bits < 32) for op in ops):
        return False
    is_long = axis.extent >= least_lines(len(ops), is_costly=waits or is_half) * line
    return is_long and not _begins_lines(aligned, axis)


def _is_widened(op: Expr) -> bool:
    """Whether an op is computed in f32: vectors in memory are half a line, and fewer cross one."""
    return op.dtype.is_float and op.dtype.bits < F32.bits


def aligned_store(stores: Sequence[Store]) -> Store:
    """Return the store of a peeled pass that vectors are aligned for: of the widest elements."""
    return max(stores, key=lambda store: store.value.dtype.bits)


def elements_of_line(store: Store) -> int:
    """Return how many elements of a store's buffer a cache line has."""
    return LINE_BITS // max(store.value.dtype.bits, 8)


def _is_along(store: Store, axis: Axis) -> bool:
    return store.is_simple and coefficient(store.index, axis.name) == 1


def _begins_lines(store: Store, axis: Axis) -> bool:
    """Whether each row is known to begin a cache line, as each array does."""
    start = dim.substitute(store.index, {axis.name: 0})
    return dim.known_multiple_of(start, elements_of_line(store))
