# SPDX-License-Identifier: Apache-2.0
"""The limit of a host's backlog on a device, as native functions.

A host that is `most_ahead` programs ahead waits until half of them are done: each holds memory for
its results, which would have left the caches before it is written. Invariant: a job that ends while
a host tests the backlog changes `finished`, or is counted as done, so no host sleeps forever.

Source: XLA's CPU client stops at 32.
"""

from __future__ import annotations

from ingot.client.pjrt.records import Device
from ingot.native.functions import inlined
from ingot.native.operations import unlikely
from ingot.native.types import i64
from ingot.runtime.threading.sync import EVERYBODY, futex_wait, futex_wake

MOST_AHEAD = 8
"""Programs in a device's queue, at most: enough to keep the worker busy while the host does other
work."""

_LEAST_AHEAD = 2
"""Programs in the queue that no size of results forbids: the one that runs, and the next."""

_BYTES_AHEAD = 1 << 23
"""Bytes that the results of a longer queue may take. The time of `x + 1` in a loop that waits for
nothing, over that with up to 8 programs ahead: 6 MB 0.58, 12 MB 0.74, 40 MB 0.64; with 1 MB nothing
changes (AMD EPYC with an L3 cache of 32 MB, one thread, 2026-11-30)."""

_FEW_AHEAD = MOST_AHEAD // 2
"""Programs in the longest queue at which a waiting host continues: it is not woken for each."""


def most_ahead(result_bytes: int) -> int:
    """Return how many executions of a program may wait, from the bytes of its results."""
    return max(_LEAST_AHEAD, min(MOST_AHEAD, _BYTES_AHEAD // max(result_bytes, 1)))


@inlined
def wait_for_backlog(device: Device, most: i64) -> None:
    """Wait while a device has a long queue: from `most` jobs until it has half as many."""
    if unlikely(device.unfinished.load("seq_cst") >= most):
        few = most >> 1
        while device.unfinished.load("seq_cst") > few:
            seen = device.finished.load("seq_cst")
            device.waiting.fetch_add(1, "seq_cst")
            if device.unfinished.load("seq_cst") > few:
                futex_wait(device.finished, seen)
            device.waiting.fetch_sub(1, "seq_cst")


@inlined
def note_done(device: Device) -> None:
    """Count a job of the queue as done; wake hosts that wait."""
    before = device.unfinished.fetch_sub(1, "seq_cst")
    device.finished.fetch_add(1, "seq_cst")
    if device.waiting.load("seq_cst") != 0 and before <= _FEW_AHEAD + 1:
        futex_wake(device.finished, EVERYBODY)
