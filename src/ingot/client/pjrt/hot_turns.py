# SPDX-License-Identifier: Apache-2.0
"""How far a host may be ahead of a device, as native functions.

A host that is `MOST_AHEAD` programs ahead waits until half of them are done: each holds memory for
its results, which would be long out of the caches when it is written. Invariant: a job that ends
while a host looks changes `finished`, or is seen to have ended, so no host sleeps for ever.

Source: XLA's CPU client stops at 32.
"""

from __future__ import annotations

from ingot.client.pjrt.records import Device
from ingot.native.functions import inlined
from ingot.native.operations import unlikely
from ingot.runtime.sync import EVERYBODY, futex_wait, futex_wake

MOST_AHEAD = 8
"""Programs in a device's queue: enough for the worker to have something to do whatever the host
does in between."""

_FEW_AHEAD = MOST_AHEAD // 2
"""So many are left when the host goes on: it is not woken for each."""


@inlined
def wait_turn(device: Device) -> None:
    """Wait if a device has `MOST_AHEAD` jobs in its queue, until it has few."""
    if unlikely(device.unfinished.load("seq_cst") >= MOST_AHEAD):
        while device.unfinished.load("seq_cst") > _FEW_AHEAD:
            seen = device.finished.load("seq_cst")
            device.waiting.fetch_add(1, "seq_cst")
            if device.unfinished.load("seq_cst") > _FEW_AHEAD:
                futex_wait(device.finished, seen)
            device.waiting.fetch_sub(1, "seq_cst")


@inlined
def note_end(device: Device) -> None:
    """Count a job of the queue as done; wake hosts that wait for their turn."""
    before = device.unfinished.fetch_sub(1, "seq_cst")
    device.finished.fetch_add(1, "seq_cst")
    if device.waiting.load("seq_cst") != 0 and before <= _FEW_AHEAD + 1:
        futex_wake(device.finished, EVERYBODY)
