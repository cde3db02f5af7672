# SPDX-License-Identifier: Apache-2.0
"""How many rows TensorFlow's kernels give to a worker thread at a time.

A few random kernels start each worker's share at an offset of its own in the stream of random
numbers, so their numbers depend on the shares, and these on the number of threads.

Source: Eigen's `TensorDeviceThreadPool.h` (`parallelFor`) and `TensorCostModel.h`, TensorFlow's
`work_sharder.cc` and `local_device.cc`.
"""

from __future__ import annotations

import os

from ingot.frontends.tensorflow.api.modules import context
from ingot.hlo.dim import ceil_div

_STARTUP = 100_000
_PER_THREAD = 100_000
_TASK = 40_000
_SHARES_PER_THREAD = 4


def worker_threads() -> int:
    """Return the number of threads that TensorFlow's kernels share out their work to."""
    chosen = context.context().intra_op_parallelism_threads
    chosen = chosen or int(os.environ.get("TF_NUM_INTRAOP_THREADS") or 0)
    return chosen or len(os.sched_getaffinity(0))


def rows_per_share(rows: int, cost: int, threads: int) -> int:
    """Return how many rows each share but the last has; all `rows` if there is one share.

    Args:
        rows: number of rows, at least 1.
        cost: estimated cycles of a row, at least 1.
        threads: number of worker threads.
    """
    wanted = int((rows * cost - _STARTUP) / _PER_THREAD + 0.9)
    if rows == 1 or min(threads, wanted) <= 1:
        return rows
    smallest = max(ceil_div(rows, _SHARES_PER_THREAD * threads), int(_TASK / cost))
    size = min(rows, smallest)
    largest = min(rows, 2 * size)
    count = ceil_div(rows, size)
    best = _efficiency(count, threads)
    # Larger shares are taken while they keep the threads as busy.
    while best < 1.0 and count > 1:
        coarser = ceil_div(rows, count - 1)
        if coarser > largest:
            break
        count = ceil_div(rows, coarser)
        found = _efficiency(count, threads)
        if found + 0.01 >= best:
            size, best = coarser, max(best, found)
    return size


def _efficiency(count: int, threads: int) -> float:
    """Return which part of the threads' time `count` equal shares fill."""
    return count / (ceil_div(count, threads) * threads)
