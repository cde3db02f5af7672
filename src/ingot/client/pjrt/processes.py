# SPDX-License-Identifier: Apache-2.0
"""The processes of one program: which devices each has.

Devices are numbered process after process. How several processes find and reach each other is in
`process_links`, which one process alone does not import.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Sequence
from typing import Any, Protocol

from ingot.runtime.foreign.collectives.rendezvous import (
    NO_LINK,
    LinkRow,
    Network,
    one_process,
)
from ingot.support.diagnostics import ExecutionError
from ingot.support.flags import PROCESS_TIMEOUT
from ingot.support.records import record


class Transport(Protocol):
    """How the processes of a program communicate."""

    @property
    def transport(self) -> Any:
        """The transport's record."""
        ...

    def link(self, here: int, there: int, process: int, seconds: float) -> LinkRow:
        """Return the link between two devices, of which `there` is one of another process.

        Args:
            here: number of a device of this process.
            there: number of a device of the other process.
            process: its number.
            seconds: how long to wait for it.

        Raises:
            ExecutionError: INGOT0518, it cannot be reached.
        """
        ...

    def cut(self, devices: Collection[int]) -> None:
        """End all waiting for devices of other processes."""

    def leave(self) -> None:
        """Say farewell to the other processes, which may mean to wait for them."""


@record
class Processes:
    """The processes of a client.

    Attributes:
        index: the number of this process.
        num_devices: the number of devices of each process.
        reach: how they reach each other; None for a single process.
    """

    index: int = 0
    num_devices: tuple[int, ...] = (1,)
    reach: Transport | None = None

    def process_of(self, device: int) -> int:
        """Return the process that has a device."""
        ends = itertools.accumulate(self.num_devices)
        return next(process for process, end in enumerate(ends) if device < end)

    def network(self, devices: Sequence[int]) -> Network:
        """Return how devices of the client reach each other; make missing links.

        If one process cannot be reached, the others still get their links: they then find out
        themselves which one it is, instead of waiting for this one.

        Raises:
            ExecutionError: INGOT0518, another process cannot be reached.
        """
        owners = [self.process_of(device) for device in devices]
        reach = self.reach
        if reach is None or set(owners) == {self.index}:
            return one_process(len(devices))

        problems: list[ExecutionError] = []
        end = time.monotonic() + PROCESS_TIMEOUT.value()

        def link(here: int, there: int) -> LinkRow:
            process = self.process_of(there)
            if process == self.index:
                return NO_LINK
            try:
                return reach.link(here, there, process, max(0.0, end - time.monotonic()))
            except ExecutionError as problem:
                problems.append(problem)
                return NO_LINK

        local = [n for n, owner in zip(devices, owners, strict=True) if owner == self.index]
        links = [[link(here, there) for there in devices] for here in local]
        if problems:
            raise problems[0]
        return Network(self.index, owners, links, reach.transport)

    def lose(self, process: int) -> None:
        """End all waiting for a process."""
        if self.reach is not None and process != self.index:
            first = sum(self.num_devices[:process])
            self.reach.cut(range(first, first + self.num_devices[process]))

    def leave(self) -> None:
        """Wait, where the transport asks for it, for the other processes to end as well."""
        if self.reach is not None:
            self.reach.leave()
