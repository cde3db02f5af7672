# SPDX-License-Identifier: Apache-2.0
"""The rendezvous: where the devices of one execution meet, and how they reach other processes.

Invariant: the record and everything that it points to live as long as the execution.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

from ingot.runtime.foreign.collectives import records
from ingot.runtime.foreign.collectives.records import SLICE_NANOSECONDS, Box, Transport, Turn
from ingot.runtime.foreign.errors import set_error
from ingot.runtime.records import RUNTIME
from ingot.runtime.threading.fibers import fibers_of
from ingot.semantics.device_groups import Grid
from ingot.support.flags import COLLECTIVE_TIMEOUT, PROCESS_TIMEOUT

RENDEZVOUS = records.Rendezvous.c_layout
_ELSEWHERE = -1


class LinkRow(NamedTuple):
    """A link's fields; see `records.Link`."""

    outgoing: int = _ELSEWHERE
    incoming: int = _ELSEWHERE
    reader: int = 0
    sent: int = 0
    got: int = 0


NO_LINK = LinkRow()
"""The entry for a device of this process, to which there is no link."""


class Network:
    """Which process has which device of an execution, and the links between them.

    Attributes:
        here: the devices of this process, in order.
    """

    def __init__(
        self,
        process: int,
        processes: Sequence[int],
        links: Sequence[Sequence[LinkRow]],
        transport: Any = None,
    ) -> None:
        """Make the tables.

        Args:
            process: the number of this process.
            processes: for each device, the process that has it.
            links: for each device of this process, in their order, its link to each device.
            transport: an `IngotTransport`, as a ctypes structure; None if all devices are of this
                process.
        """
        self.here = tuple(n for n, owner in enumerate(processes) if owner == process)
        slots = [_ELSEWHERE] * len(processes)
        for slot, device in enumerate(self.here):
            slots[device] = slot
        self.transport = transport
        self.process = process
        self._slots = array("q", slots)
        self._processes = array("q", processes)
        self._links = array("q", [word for row in links for link in row for word in link] or [0])
        rows = partners_of(process, processes)
        self.num_partners = len(rows[0]) if rows else 0
        self._partners = array("q", [device for row in rows for device in row] or [0])

    @property
    def is_remote(self) -> bool:
        """Whether some devices are of other processes."""
        return self.transport is not None

    @property
    def fields(self) -> dict[str, int]:
        """The fields of a rendezvous about the network; valid while this object lives."""
        tables = {
            "slots": self._slots,
            "processes": self._processes,
            "links": self._links,
            "partners": self._partners,
        }
        addresses = {name: table.buffer_info()[0] for name, table in tables.items()}
        remote: dict[str, int] = {}
        if self.is_remote:
            remote = {
                "transport": ctypes.addressof(self.transport),
                "leave": self.transport.leave,
            }
        return {
            **addresses,
            **remote,
            "process": self.process,
            "local_devices": len(self.here),
        }


def partners_of(process: int, processes: Sequence[int]) -> list[list[int]]:
    """Return which devices of other processes each device of this process greets.

    The n-th device of a process greets the n-th of each other one. Further devices greet its last
    one, so that each device greets every process. Rows are filled up with -1.

    Args:
        process: the number of this process.
        processes: for each device, the process that has it.
    """
    devices: dict[int, list[int]] = {}
    for device, owner in enumerate(processes):
        devices.setdefault(owner, []).append(device)
    here = devices.pop(process, [])
    rows: list[list[int]] = [[] for _ in here]
    if not here:
        return rows
    for _, there in sorted(devices.items()):
        for number in range(max(len(here), len(there))):
            rows[min(number, len(here) - 1)].append(there[min(number, len(there) - 1)])
    width = max(map(len, rows))
    return [row + [-1] * (width - len(row)) for row in rows]


def one_process(devices: int) -> Network:
    """Return the network of devices that are all of this process."""
    return Network(0, [0] * devices, [])


class Rendezvous:
    """Where the devices of one execution meet; lives as long as the execution."""

    def __init__(
        self,
        grid: Grid,
        network: Network,
        timeout_seconds: float,
        program: int = 0,
        couriers: Sequence[int] = (),
    ) -> None:
        """Make empty boxes for every pair of devices of this process."""
        count = len(network.here)
        self._memory, self.address = RENDEZVOUS.on_line(count * count * Box.c_layout.size)
        self._network = network
        self._turns: Any = None
        self._couriers = array("q", couriers or [0] * count)
        fields = {
            **network.fields,
            "devices": grid.devices,
            "partitions": grid.partitions,
            "patience": max(1, int(timeout_seconds * 1e9 / SLICE_NANOSECONDS)),
            "program": program,
            "boxes": self.address + RENDEZVOUS.size,
            "couriers": self._couriers.buffer_info()[0],
        }
        for name, value in fields.items():
            RENDEZVOUS.write(self.address, name, value)

    def enter(self, runtime: Any, replica: int, partition: int) -> None:
        """Let a device of this process meet the others here.

        Args:
            runtime: the `IngotRuntime` of its execution, as a ctypes structure.
            replica: its replica-id.
            partition: its partition-id.
        """
        runtime.replica, runtime.partition = replica, partition
        runtime.rendezvous = self.address

    def use_fibers(self, devices: tuple[int, ...], settings: int) -> None:
        """Let the devices, all of this process, be fibers of the threads of a pool.

        Args:
            devices: the client's numbers of the devices, in order.
            settings: address of the process's `IngotRuntime`, which has the pool.
        """
        self._turns = (Turn.c_layout.structure * len(devices))()
        fields = {
            "stacks": fibers_of(devices),
            "settings": settings,
            "turns": ctypes.addressof(self._turns),
        }
        for name, value in fields.items():
            RENDEZVOUS.write(self.address, name, value)

    def greet(self, *, is_wanted: bool) -> None:
        """Let executions first compare their program with those of the other processes, or not."""
        count = self._network.num_partners if is_wanted else 0
        RENDEZVOUS.write(self.address, "num_partners", count)

    @property
    def has_failed(self) -> bool:
        """Whether some device gave up, so that the rendezvous can no longer be used."""
        return bool(RENDEZVOUS.read(self.address, "failed"))

    def fail(self) -> None:
        """Make every device that waits, now or later, give up with an error."""
        give_up(self.address)


def give_up(address: int) -> None:
    """Make every device that waits at a rendezvous, now or later, give up with an error."""
    RENDEZVOUS.write(address, "failed", 1)
    transport = RENDEZVOUS.read(address, "transport")
    if transport:
        cut: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(
            Transport.c_layout.read(transport, "cut")
        )
        cut(address)


def tell_reason(runtime: int) -> None:
    """Record why a collective failed, if its device was a fiber, which does not call Python.

    Args:
        runtime: address of the `IngotRuntime` of the failed execution, which has a rendezvous.
    """
    address = RUNTIME.read(runtime, "rendezvous")
    culprit = RENDEZVOUS.read(address, "culprit")
    if culprit == 0:
        return
    reason = RENDEZVOUS.read(address, "reason")
    if culprit != device_number(runtime) + 1:
        reason = RENDEZVOUS.read(address, "blamed") or records.OTHER_FAILED
    if reason:
        set_error(records.explain(reason))


def new_rendezvous(
    grid: Grid,
    *,
    network: Network | None = None,
    program: int = 0,
    timeout_seconds: float | None = None,
    couriers: Sequence[int] = (),
) -> Rendezvous:
    """Return a rendezvous for one execution; `.address` goes into the runtime records.

    Args:
        grid: replicas and partitions of the execution.
        network: who has which device; default: all are of this process.
        program: a digest of the program, on which all processes must agree.
        timeout_seconds: how long a device waits for others; default: `INGOT_COLLECTIVE_TIMEOUT`,
            or `INGOT_PROCESS_TIMEOUT` if some are of other processes.
        couriers: the `IngotCourier` of each device of this process; default: none has one.
    """
    network = network or one_process(grid.devices)
    if timeout_seconds is None:
        flag = PROCESS_TIMEOUT if network.is_remote else COLLECTIVE_TIMEOUT
        timeout_seconds = flag.value()
    return Rendezvous(grid, network, timeout_seconds, program, couriers)


def device_number(runtime: int) -> int:
    """Return the number of the device that the runtime record at `runtime` is for."""
    row: Any = RUNTIME.structure.from_address(runtime)
    partitions = RENDEZVOUS.read(row.rendezvous, "partitions") if row.rendezvous else 1
    return row.replica * partitions + row.partition
