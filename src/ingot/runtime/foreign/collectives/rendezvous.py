# SPDX-License-Identifier: Apache-2.0
"""The rendezvous: a mailbox for every ordered pair of devices.

Who gives something to another device writes the address of its data into their box and counts
`published` up; who takes it copies what it needs and counts `taken` up to the same number. The
giver waits for that before it goes on, so its data stays as it is while others read. Both counters
only ever move by one, each is written by one thread, and waiting is a futex: no lock, any number of
threads, and devices that are at different ops are told apart by the key in the box.

A giver that gives up says so first (`failed`) and then waits until nobody reads its data any more:
a taker marks the box (`reading`) before it looks whether somebody failed.

Invariant: between two exchanges of a device, `published == taken` in all its boxes.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ingot.llvm.machine_model import LINE_BYTES
from ingot.native.layout import Field, Record
from ingot.runtime.records import RUNTIME
from ingot.support.flags import COLLECTIVE_TIMEOUT

RENDEZVOUS = Record(
    "IngotRendezvous",
    Field("devices", "i64", note="replicas times partitions"),
    Field("partitions", "i64"),
    Field("patience", "i64", note="slices of waiting after which a device gives up"),
    Field("failed", "i32", own_line=True, note="1: every device that waits gives up"),
    Field("boxes", "i64", own_line=True, note="IngotBox[devices * devices], giver first"),
)

BOX = Record(
    "IngotBox",
    Field("published", "i32", own_line=True, note="how often the giver has given"),
    Field("taken", "i32", note="how often the taker has taken"),
    Field("reading", "i32", note="1 while the taker reads the data"),
    Field("data", "ptr", note="what is given now"),
    Field("key", "i64", note="the op at which it is given"),
)

SLICE_NANOSECONDS = 20_000_000
"""A device that waits looks around this often: whether others failed, whether it waited enough."""


class Rendezvous:
    """Where the devices of one execution meet; lives as long as the execution."""

    def __init__(self, num_replicas: int, num_partitions: int, timeout_seconds: float) -> None:
        """Make empty boxes for every pair of devices."""
        devices = num_replicas * num_partitions
        boxes = RENDEZVOUS.offset("boxes")
        self._memory: Any = ctypes.create_string_buffer(
            boxes + devices * devices * BOX.size + LINE_BYTES
        )
        start = ctypes.addressof(self._memory)
        self.address = start + -start % LINE_BYTES
        self.num_replicas = num_replicas
        self.num_partitions = num_partitions
        RENDEZVOUS.write(self.address, "devices", devices)
        RENDEZVOUS.write(self.address, "partitions", num_partitions)
        slices = max(1, int(timeout_seconds * 1e9 / SLICE_NANOSECONDS))
        RENDEZVOUS.write(self.address, "patience", slices)

    def fail(self) -> None:
        """Let every device that waits, now or later, give up with an error."""
        RENDEZVOUS.write(self.address, "failed", 1)


def new_rendezvous(
    num_replicas: int, num_partitions: int = 1, *, timeout_seconds: float | None = None
) -> Rendezvous:
    """Return a rendezvous for one execution; `.address` goes into the runtime records.

    Args:
        num_replicas: replicas of the execution.
        num_partitions: partitions of each replica.
        timeout_seconds: how long a device waits for others; default: `INGOT_COLLECTIVE_TIMEOUT`.
    """
    patience = COLLECTIVE_TIMEOUT.value() if timeout_seconds is None else timeout_seconds
    return Rendezvous(num_replicas, num_partitions, patience)


def device_number(runtime: int) -> int:
    """Return the number of the device that the runtime record at `runtime` is for."""
    row: Any = RUNTIME.structure.from_address(runtime)
    partitions = RENDEZVOUS.read(row.rendezvous, "partitions") if row.rendezvous else 1
    return row.replica * partitions + row.partition
