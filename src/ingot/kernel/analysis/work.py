# SPDX-License-Identifier: Apache-2.0
"""The work of a kernel: weighted ops at its points, its units, and the chunks that threads take.

A kernel of little work is one chunk: waking another thread would cost more. A larger kernel has an
even number of chunks of some microseconds each, so that two threads end together. Very large
kernels and those of unknown size have larger chunks.

Invariant: work and chunks depend on the kernel and its extents alone, never on the number of
threads.
"""

from __future__ import annotations

from collections.abc import Iterable

from ingot.hlo import dim
from ingot.hlo.dim import Dim, ceil_div, round_up
from ingot.kernel.analysis.lane_counts import LANE_BITS
from ingot.kernel.expr import Expr, is_expensive, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, LoopKernel, Pass
from ingot.llvm.machine_model import L3_BYTES, TRANSCENDENTAL_FLOPS

LARGE_SHARE = 400_000
"""Weighted element ops, about twenty microseconds: smaller kernels are not divided."""

SHARE = LARGE_SHARE // 2
"""Weighted element ops of a share at least."""

IN_ORDER = 1 << 62
"""Elements of an axis per unit where units run in order: more than any axis has."""

MANY_SHARES = 32
"""Kernels that would have more shares have larger ones."""


def share_of(total: int | Dim) -> int:
    """Return the weighted element ops of a share of a kernel that has `total`."""
    if isinstance(total, Dim) or total <= LARGE_SHARE:
        return LARGE_SHARE
    return min(max(ceil_div(total, MANY_SHARES), SHARE), LARGE_SHARE)


def block_of(extent: int | Dim, work: int, share: int, step: int) -> int:
    """Return the elements of an axis per unit, a multiple of `step`; each is `work`."""
    most = max(step, share // max(work, 1) // step * step)
    if isinstance(extent, Dim) or extent <= most:
        return most
    count = _even(ceil_div(extent, most))
    return ceil_div(extent, count * step) * step


def grain_of(units: int | Dim, work: int | Dim, share: int) -> int | Dim:
    """Return the units in a share; each is `work`."""
    if isinstance(units, Dim) or isinstance(work, Dim):
        return dim.maximum(dim.floordiv(share, dim.maximum(work, 1)), 1)
    count = _even(-(-units * work // share))
    return max(ceil_div(units, max(count, 1)), 1)


def _even(count: int) -> int:
    """Return a number of shares, rounded up so that two threads get equally many."""
    return round_up(count, 2) if count > 1 else count


NO_WORK = 1
"""Weight of a point that computes nothing."""

RECOMPUTED = 4
"""Weight up to which an update's index and value, loads and conversions, are computed again rather
than kept on the stack."""

STREAMED_BYTES, STREAMED_NODES = 8 * L3_BYTES, 12
"""A kernel of at least this many bytes and at most this many expressions is memory bound."""


def weight(exprs: tuple[Expr, ...]) -> int:
    """Return the weighted ops of expressions."""
    return NO_WORK + weighted(node for node in walk(exprs) if node.op not in ("constant", "index"))


def weighted(nodes: Iterable[Expr]) -> int:
    """Return how many ops `nodes` are, an expensive one counted as several."""
    return sum(TRANSCENDENTAL_FLOPS if is_expensive(node) else 1 for node in nodes)


def pass_work(item: Pass) -> int | Dim:
    """Return the weighted ops of a pass at one grid point."""
    return dim.product(axis.extent for axis in item.axes) * weight(item.exprs)


def unit_work(kernel: LoopKernel) -> int | Dim:
    """Return the weighted ops at one grid point."""
    total: int | Dim = 0
    for item in kernel.passes:
        total = total + pass_work(item)
    return total


def share(kernel: LoopKernel) -> int:
    """Return the work of a share of a kernel."""
    return share_of(unit_work(kernel) * dim.product(item.extent for item in kernel.grid))


def chunks_of(kernel: LoopKernel, units: int | Dim, points: int) -> tuple[int | Dim, int | Dim]:
    """Return units per chunk, and the number of chunks; a unit has `points` points.

    Units that must run in order are one chunk.
    """
    if kernel.serial:
        return units, 1
    grain = grain_of(units, unit_work(kernel) * points, share(kernel))
    return grain, ceil_div(units, dim.maximum(grain, 1))


def block_points(axis: Axis, block: int) -> int:
    """Return the points of a block of an axis: no more than the axis has."""
    return min(block, axis.extent) if isinstance(axis.extent, int) else block


def computes_little(kernel: LoopKernel) -> bool:
    """Whether the index and the value of each update are little more than loads."""
    stores = kernel.stores
    return all(weight((*each.values, each.value)) <= RECOMPUTED for each in stores)


def streams(kernel: LoopKernel, axis: Axis | None) -> bool:
    """Whether a kernel reads and writes more than caches hold, and computes little on it.

    LLVM then compiles it without optimizing, in a third of the time: it runs no slower, if values
    fit a register each. Folds of elements that are widened do: a sum of bf16 took 8 times as long,
    of rows 5 times. `axis` is the vector axis.
    """
    total = sum(b.size * b.dtype.bits // 8 for b in kernel.buffers if isinstance(b.size, int))
    if total < STREAMED_BYTES or kernel.serial or kernel.local_buffers:
        return False
    names = [axis.name] if axis is not None else [i.axes[-1].name for i in kernel.passes if i.axes]
    nodes = list(walk(kernel.exprs))
    if len(nodes) > STREAMED_NODES or any(map(is_expensive, nodes)):
        return False
    loads = [node for node in nodes if node.op == "load"]
    folds = any(item.reductions for item in kernel.passes)
    if folds and any(load.dtype.bits < LANE_BITS for load in loads):
        return False
    steps = [coefficient(load.payload.index, name) for load in loads for name in names]
    return len(names) == 1 and not any(load.args for load in loads) and set(steps) <= {0, 1}
