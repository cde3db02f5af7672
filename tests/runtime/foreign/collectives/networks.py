# SPDX-License-Identifier: Apache-2.0
"""Executions whose devices are of several processes, all of them played by this one."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from ingot.client.executables.replicated import device_record
from ingot.runtime.foreign.collectives import Rendezvous, new_rendezvous
from ingot.runtime.foreign.collectives.couriers import new_courier
from ingot.runtime.foreign.collectives.rendezvous import NO_LINK, LinkRow, Network
from ingot.runtime.foreign.collectives.rings import offer_ring
from ingot.runtime.foreign.collectives.targets import socket_transport
from ingot.semantics.device_groups import Grid, grid_of


@contextmanager
def networks(processes: Sequence[int], can_read: bool = True) -> Generator[list[Network]]:
    """Connect devices of several processes.

    Args:
        processes: for each device, the process that has it.
        can_read: whether they read each other's memory.
    """
    devices = range(len(processes))
    links = [[NO_LINK] * len(processes) for _ in devices]
    reader = os.getpid() if can_read else 0
    with ExitStack() as stack:
        for one in devices:
            for other in range(one):
                if processes[one] != processes[other]:
                    pairs = [each for _ in range(2) for each in socket.socketpair()]
                    there, here, back, forth = [stack.enter_context(e).fileno() for e in pairs]
                    sent, got = (stack.enter_context(_ring()) if can_read else 0 for _ in range(2))
                    links[one][other] = LinkRow(there, forth, reader, sent, got)
                    links[other][one] = LinkRow(back, here, reader, got, sent)
        yield [
            Network(
                process,
                processes,
                [links[device] for device in devices if processes[device] == process],
                socket_transport(),
            )
            for process in range(max(processes) + 1)
        ]


@contextmanager
def _ring() -> Generator[int]:
    """Give the address of a ring."""
    first, second = socket.socketpair()
    with first, second:
        ring = offer_ring(first, is_wanted=True)
    assert ring is not None
    yield ring.address


def run_as_processes(
    executable: Any,
    inputs: Sequence[Sequence[Any]],
    processes: Sequence[int],
    programs: Sequence[int] | None = None,
    can_read: bool = True,
    has_couriers: bool = True,
) -> list[Any]:
    """Return what each device gives, or what it raises.

    Args:
        executable: a program for several devices, compiled.
        inputs: the arguments of each device.
        processes: for each device, the process that has it.
        programs: for each process, the digest of its program.
        can_read: whether processes read each other's memory.
        has_couriers: whether collectives may run while the device computes.
    """
    grid = grid_of(executable.module)
    with networks(processes, can_read) as found, ThreadPoolExecutor(grid.devices) as threads:
        meetings = [
            new_rendezvous(
                grid,
                network=network,
                program=programs[n] if programs else 0,
                couriers=[new_courier() for _ in network.here] if has_couriers else (),
            )
            for n, network in enumerate(found)
        ]

        def run(device: int) -> Any:
            meeting = meetings[processes[device]]
            try:
                return _run(executable, grid, meeting, device, inputs[device])
            except Exception as problem:
                meeting.fail()
                return problem

        return list(threads.map(run, range(grid.devices)))


def _run(
    executable: Any, grid: Grid, meeting: Rendezvous, device: int, inputs: Sequence[Any]
) -> Any:
    record = device_record(meeting, grid.replica(device), grid.partition(device))
    return executable.program.run_on(ctypes.addressof(record), *inputs)
