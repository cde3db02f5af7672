# SPDX-License-Identifier: Apache-2.0
"""Host memory that does not begin with a cache line, as native functions.

NumPy's arrays of 128 KB and more begin 16 bytes after a line, so that each 64-byte vector of them
lies in two lines. A transfer uses them in place, since many are used once: a batch of data. The
second execution that takes such a buffer, as it would take weights, moves it into memory of our
own, unless a host view shows it. Invariant: memory that somebody reads stays valid until they are
done.

Six products in turn, each with 64x768 rows times weights of its own of 768x2304, took 0.62 of the
time with aligned weights, 128x768x2304 0.72, 256x768x3072 0.86; in the L2 cache a vector by 512x512
took 0.68, sums of 512x512 0.63 (Sapphire Rapids, one thread, 2026-12-01).
"""

from __future__ import annotations

from ingot.client.pjrt.native_code.buffers import new_storage, release_storage
from ingot.client.pjrt.records import STAYS, Buffer, Storage
from ingot.native.functions import native
from ingot.native.operations import memcpy

_USES_IN_PLACE = 1
"""Executions that use unaligned memory where it lies. A copy costs about as much as four readings,
what it saves is up to half of the time of a product with as few rows."""


@native
def aligned_later(buffer: Buffer, storage: Storage) -> Storage:
    """Return the storage that an execution reads of a buffer in unaligned host memory.

    `storage` is the buffer's; the execution has begun to use it.
    """
    is_seen = storage.external.load("monotonic") != 0
    if is_seen or buffer.uses.fetch_add(1) != 1 + _USES_IN_PLACE:
        return storage
    aligned = new_storage(None, storage.bytes)
    if aligned is None:
        return storage
    memcpy(aligned.data, storage.data, storage.bytes)
    buffer.storage.store(aligned)
    buffer.uses.store(STAYS)
    # Whoever begins to use the buffer after this reads the new storage.
    if buffer.users.fetch_add(0) == 1:
        release_storage(storage)
    else:
        buffer.unaligned = storage
    return aligned
