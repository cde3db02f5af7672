# SPDX-License-Identifier: Apache-2.0
"""Executions whose devices are of several processes, all of them played by this one."""

from __future__ import annotations

import ctypes
import socket
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from ingot.client.executable import Executable
from ingot.client.replicated import device_record
from ingot.runtime.foreign.collectives import Rendezvous, new_rendezvous
from ingot.runtime.foreign.collectives.rendezvous import Network
from ingot.runtime.foreign.collectives.targets import socket_transport
from ingot.semantics.device_groups import Grid, grid_of


@contextmanager
def networks(processes: Sequence[int]) -> Generator[list[Network]]:
    """Connect devices of several processes.

    Args:
        processes: for each device, the process that has it.
    """
    devices = range(len(processes))
    links = [[-1] * len(processes) for _ in devices]
    with ExitStack() as stack:
        for one in devices:
            for other in range(one):
                if processes[one] != processes[other]:
                    for made, (here, there) in zip(
                        socket.socketpair(), ((one, other), (other, one)), strict=True
                    ):
                        stack.enter_context(made)
                        links[here][there] = made.fileno()
        yield [
            Network(
                process,
                processes,
                [links[device] for device in devices if processes[device] == process],
                socket_transport(),
            )
            for process in range(max(processes) + 1)
        ]


def run_as_processes(
    executable: Executable,
    inputs: Sequence[Sequence[Any]],
    processes: Sequence[int],
    programs: Sequence[int] | None = None,
) -> list[Any]:
    """Return what each device gives, or what it raises.

    Args:
        executable: a program for several devices.
        inputs: the arguments of each device.
        processes: for each device, the process that has it.
        programs: for each process, the digest of its program.
    """
    grid = grid_of(executable.module)
    with networks(processes) as found, ThreadPoolExecutor(grid.devices) as threads:
        meetings = [
            new_rendezvous(grid, network=network, program=programs[n] if programs else 0)
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
    executable: Executable, grid: Grid, meeting: Rendezvous, device: int, inputs: Sequence[Any]
) -> Any:
    record = device_record(meeting, grid.replica(device), grid.partition(device))
    return executable.program.run_on(ctypes.addressof(record), *inputs)
