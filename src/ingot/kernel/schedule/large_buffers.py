# SPDX-License-Identifier: Apache-2.0
"""Gathers from large buffers: tables that do not fit into caches.

Cache misses of one gather instruction wait for each other, and no prefetcher helps. Separate loads
miss in parallel. While the table is in a cache, the gather instruction is faster.
"""

from __future__ import annotations

from ingot.kernel.expr import walk
from ingot.kernel.ir import Buffer, LoopKernel
from ingot.llvm.machine_model import L3_BYTES

LARGE_BYTES = L3_BYTES // 2
"""More than this misses caches and pages."""


def large_buffers(kernel: LoopKernel) -> frozenset[int]:
    """Return the numbers of large buffers that are read at indices which are values."""
    loads = (node for node in walk(kernel.exprs) if node.op == "load" and node.args)
    read = {load.payload.buffer for load in loads}
    return frozenset(n for n, each in enumerate(kernel.buffers) if n in read and _is_large(each))


def _is_large(buffer: Buffer) -> bool:
    return isinstance(buffer.size, int) and buffer.size * buffer.dtype.bits // 8 > LARGE_BYTES
