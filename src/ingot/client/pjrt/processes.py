# SPDX-License-Identifier: Apache-2.0
"""The processes of one program: which devices each has.

Devices are numbered process after process. How several processes find and reach each other is in
`process_links`, which one process alone does not import.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ingot.client.pjrt.c_api import INVALID_ARGUMENT
from ingot.client.pjrt.errors import PjrtError
from ingot.client.pjrt.handles import Attribute
from ingot.runtime.foreign.collectives.rendezvous import (
    NO_LINK,
    LinkRow,
    Network,
    one_process,
)
from ingot.support.records import record

if TYPE_CHECKING:
    from ingot.client.pjrt.process_links import Ranks, Sockets


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
    reach: Sockets | Ranks | None = None

    def process_of(self, device: int) -> int:
        """Return the process that has a device."""
        ends = itertools.accumulate(self.num_devices)
        return next(process for process, end in enumerate(ends) if device < end)

    def network(self, devices: Sequence[int]) -> Network:
        """Return how devices of the client reach each other; make missing links.

        Raises:
            ExecutionError: INGOT0518, another process cannot be reached.
        """
        owners = [self.process_of(device) for device in devices]
        reach = self.reach
        if reach is None or set(owners) == {self.index}:
            return one_process(len(devices))

        def link(here: int, there: int) -> LinkRow:
            process = self.process_of(there)
            return NO_LINK if process == self.index else reach.link(here, there, process)

        local = [n for n, owner in zip(devices, owners, strict=True) if owner == self.index]
        links = [[link(here, there) for there in devices] for here in local]
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


def find_processes(options: dict[str, Attribute], num_devices: int, args: Any) -> Processes:
    """Return the processes of a new client.

    Args:
        options: PJRT_Client_Create's: `node_id` and `num_nodes`, if there are several.
        num_devices: the number of devices of this process.
        args: PJRT_Client_Create's arguments.

    Raises:
        PjrtError: the options are not numbers of processes, or the processes do not fit together.
        UnsupportedError: INGOT0519, there is no MPI that can be used.
        ExecutionError: INGOT0518, another process did not come in time.
    """
    index, count = options.get("node_id", 0), options.get("num_nodes", 1)
    if not isinstance(index, int) or not isinstance(count, int) or not 0 <= index < count:
        raise PjrtError(INVALID_ARGUMENT, f"there is no process {index} of {count}")
    if count == 1:
        return Processes(num_devices=(num_devices,))
    if not args.kv_get_callback or not args.kv_put_callback:
        raise PjrtError(INVALID_ARGUMENT, f"{count} processes need the host's key-value store")
    from ingot.client.pjrt.process_links import join

    return join(index, count, options, num_devices, args)
