# SPDX-License-Identifier: Apache-2.0
"""The limit of a host's backlog on a device, as native functions.

A host that is `MOST_AHEAD` programs ahead waits until half of them are done: each holds memory for
its results, which would have left the caches before it is written. Invariant: a job that ends while
a host tests the backlog changes `finished`, or is counted as done, so no host sleeps forever.

Source: XLA's CPU client stops at 32.
"""

from __future__ import annotations

from ingot.client.pjrt.records import Device
from ingot.native.functions import inlined
from ingot.native.operations import unlikely
from ingot.runtime.sync import EVERYBODY, futex_wait, futex_wake

MOST_AHEAD = 8
"""Programs in a device's queue, at most: enough to keep the worker busy while the host does other
    work."""

_FEW_AHEAD = MOST_AHEAD // 2
"""Programs in the queue at which a waiting host continues, so that it is not woken for each."""


@inlined
def wait_for_backlog(device: Device) -> None:
    """Wait while a device has a long queue: from `MOST_AHEAD` jobs until it has few."""
    if unlikely(device.unfinished.load("seq_cst") >= MOST_AHEAD):
        while device.unfinished.load("seq_cst") > _FEW_AHEAD:
            seen = device.finished.load("seq_cst")
            device.waiting.fetch_add(1, "seq_cst")
            if device.unfinished.load("seq_cst") > _FEW_AHEAD:
                futex_wait(device.finished, seen)
            device.waiting.fetch_sub(1, "seq_cst")


@inlined
def note_done(device: Device) -> None:
    """Count a job of the queue as done; wake hosts that wait."""
    before = device.unfinished.fetch_sub(1, "seq_cst")
    device.finished.fetch_add(1, "seq_cst")
    if device.waiting.load("seq_cst") != 0 and before <= _FEW_AHEAD + 1:
        futex_wake(device.finished, EVERYBODY)
