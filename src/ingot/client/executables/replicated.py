# SPDX-License-Identifier: Apache-2.0
"""Runs a program on several virtual devices of this machine, with a thread for each.

Every device executes the same machine code with a runtime record of its own, which has its replica,
its partition and the rendezvous. A device that fails makes the others stop waiting; the first
failure is raised.

Example:
    >>> import ingot
    >>> text = "HloModule m, replica_count=2 ENTRY e { ROOT r = u32[] replica-id() }"
    >>> [int(value) for value in run_replicated(ingot.compile(ingot.parse_hlo(text)).program,
    ...                                         [[], []], Grid(2, 1))]
    [0, 1]
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

from ingot.runtime.foreign.collectives import Rendezvous, new_rendezvous
from ingot.runtime.native import native_runtime
from ingot.runtime.own_pools import OwnPool
from ingot.runtime.programs.program import Program
from ingot.runtime.records import RUNTIME
from ingot.semantics.device_groups import Grid
from ingot.support.diagnostics import ExecutionError
from ingot.support.forking import ForkLock


class _Devices(NamedTuple):
    """A thread for each device, and the pool of each."""

    threads: ThreadPoolExecutor
    pools: list[OwnPool]

    @classmethod
    def new(cls, count: int) -> Self:
        """Return `count` devices."""
        return cls(ThreadPoolExecutor(count, "ingot-device"), [OwnPool() for _ in range(count)])


_lock = ForkLock()
_idle: dict[int, list[_Devices]] = {}


def run_replicated(program: Program, arguments: Sequence[Sequence[Any]], grid: Grid) -> list[Any]:
    """Return the program's results on each device, by number (replica, then partition).

    Args:
        program: a linked program.
        arguments: the flattened arguments of each device.
        grid: replicas and partitions that the program was compiled for.

    Raises:
        ExecutionError: INGOT0510, the number of argument lists is not that of devices; or a
            device's error.
    """
    if len(arguments) != grid.devices:
        raise ExecutionError(
            f"arguments for {len(arguments)} devices, the program was compiled for {grid.devices}",
            code="INGOT0510",
            hint="the module's header says replica_count and num_partitions",
        )
    rendezvous = new_rendezvous(grid)
    errors: list[BaseException] = []

    def run(device: int) -> Any:
        record = device_record(rendezvous, grid.replica(device), grid.partition(device))
        pools[device].give_share(record, grid.devices)
        try:
            return program.run_on(ctypes.addressof(record), *arguments[device])
        except BaseException as error:
            errors.append(error)
            rendezvous.fail()
            raise

    with _threads(grid.devices) as (threads, pools):
        running = [threads.submit(run, device) for device in range(grid.devices)]
        wait(running)
    if errors:
        raise errors[0]
    return [each.result() for each in running]


@contextmanager
def _threads(count: int) -> Generator[_Devices]:
    """Lend `count` threads exclusively, since devices wait for each other."""
    with _lock:
        idle = _idle.setdefault(count, [])
        devices = idle.pop() if idle else _Devices.new(count)
    try:
        yield devices
    finally:
        with _lock:
            idle.append(devices)


def _forget_threads() -> None:
    """Drop the parent's threads in a child process, where they do not exist."""
    _idle.clear()


def device_record(rendezvous: Rendezvous, replica: int, partition: int) -> Any:
    """Return a runtime record for a device of an execution; it must live while the device runs."""
    record = RUNTIME.structure.from_buffer_copy(
        RUNTIME.structure.from_address(native_runtime().record)
    )
    rendezvous.enter(record, replica, partition)
    return record


os.register_at_fork(after_in_child=_forget_threads)
