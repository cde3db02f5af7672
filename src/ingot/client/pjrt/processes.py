# SPDX-License-Identifier: Apache-2.0
"""The processes of one program: who has which devices, and how their devices reach each other.

Each process puts into the host's key-value store how many devices it has and where it listens, and
waits for the others'. Devices are numbered process after process. Invariant: all processes make
their clients in the same order, so the n-th client of each belongs together.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ingot import __version__
from ingot.client.pjrt.c_api import INVALID_ARGUMENT
from ingot.client.pjrt.errors import PjrtError
from ingot.client.pjrt.handles import Attribute
from ingot.client.pjrt.key_values import KeyValues
from ingot.runtime.foreign.collectives.links import Host, Links, read_host
from ingot.runtime.foreign.collectives.rendezvous import Network, one_process
from ingot.runtime.foreign.collectives.targets import socket_transport
from ingot.support.flags import PROCESS_TIMEOUT

_clients = itertools.count()


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes of a client.

    Attributes:
        index: the number of this one.
        num_devices: how many devices each has.
        hosts: where each listens; empty for a single process.
        links: this process's links; None for a single process.
    """

    index: int = 0
    num_devices: tuple[int, ...] = (1,)
    hosts: tuple[Host, ...] = ()
    links: Links | None = None

    @property
    def first_device(self) -> int:
        """The number of this process's first device."""
        return sum(self.num_devices[: self.index])

    def process_of(self, device: int) -> int:
        """Return the process that has a device."""
        ends = itertools.accumulate(self.num_devices)
        return next(process for process, end in enumerate(ends) if device < end)

    def network(self, devices: Sequence[int]) -> Network:
        """Return how devices of the client reach each other; makes the links that lack.

        Raises:
            ExecutionError: INGOT0518, another process cannot be reached.
        """
        owners = [self.process_of(device) for device in devices]
        if self.links is None or set(owners) == {self.index}:
            return one_process(len(devices))
        here = [device for device, owner in zip(devices, owners, strict=True) if self._has(owner)]
        links = [[self._link(device, other) for other in devices] for device in here]
        return Network(self.index, owners, links, socket_transport())

    def lose(self, process: int) -> None:
        """Let nobody wait for a process any more."""
        if self.links is not None and not self._has(process):
            first = sum(self.num_devices[:process])
            self.links.cut(range(first, first + self.num_devices[process]))

    def _has(self, process: int) -> bool:
        return process == self.index

    def _link(self, here: int, there: int) -> int:
        process = self.process_of(there)
        if self.links is None or self._has(process):
            return -1
        seconds = PROCESS_TIMEOUT.value()
        return self.links.link(here, there, self.hosts[process], process, seconds)


def find_processes(options: dict[str, Attribute], num_devices: int, args: Any) -> Processes:
    """Return the processes of a new client.

    Args:
        options: PJRT_Client_Create's: `node_id` and `num_nodes`, if there are several.
        num_devices: of this process.
        args: PJRT_Client_Create's arguments.

    Raises:
        PjrtError: the options are not numbers of processes, or the processes differ in Ingot's
            version.
        ExecutionError: INGOT0518, another process did not come in time.
    """
    index, count = options.get("node_id", 0), options.get("num_nodes", 1)
    if not isinstance(index, int) or not isinstance(count, int) or not 0 <= index < count:
        raise PjrtError(INVALID_ARGUMENT, f"there is no process {index} of {count}")
    if count == 1:
        return Processes(num_devices=(num_devices,))
    if not args.kv_get_callback or not args.kv_put_callback:
        raise PjrtError(INVALID_ARGUMENT, f"{count} processes need the host's key-value store")
    store, client = KeyValues(args), next(_clients)
    links = Links(str(options.get("coordinator_address", "")))
    own = {"version": __version__, "devices": num_devices, "host": links.host.text()}
    store.put(_key(client, index), json.dumps(own))
    found = [_read(store, client, process) for process in range(count)]
    for process, row in enumerate(found):
        if row["version"] != __version__:
            raise PjrtError(
                INVALID_ARGUMENT,
                f"process {process} runs Ingot {row['version']}, process {index} {__version__}",
            )
    return Processes(
        index,
        tuple(row["devices"] for row in found),
        tuple(read_host(row["host"]) for row in found),
        links,
    )


def _key(client: int, process: int) -> str:
    return f"ingot/client/{client}/process/{process}"


def _read(store: KeyValues, client: int, process: int) -> dict[str, Any]:
    return json.loads(store.get(_key(client, process), PROCESS_TIMEOUT.value()))
