# SPDX-License-Identifier: Apache-2.0
"""The processes of one program: which devices each has, and how the devices reach each other.

Each process writes its number of devices and the addresses at which it listens into the host's
key-value store, and waits for the others. Devices are numbered process after process. Invariant:
all processes make their clients in the same order, so the n-th client of each belongs together.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

from ingot import __version__
from ingot.client.pjrt.c_api import INVALID_ARGUMENT
from ingot.client.pjrt.errors import PjrtError
from ingot.client.pjrt.handles import Attribute
from ingot.client.pjrt.key_values import KeyValues
from ingot.runtime.foreign.collectives.links import Host, Links, read_host
from ingot.runtime.foreign.collectives.mpi_library import mpi_library, rank_link
from ingot.runtime.foreign.collectives.rendezvous import (
    NO_LINK,
    LinkRow,
    Network,
    one_process,
)
from ingot.support.flags import COLLECTIVES, PROCESS_TIMEOUT
from ingot.support.records import record

_clients = itertools.count()


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
        if isinstance(self.reach, Sockets) and process != self.index:
            first = sum(self.num_devices[:process])
            self.reach.links.cut(range(first, first + self.num_devices[process]))


@record
class Sockets:
    """Processes that communicate through sockets: the addresses of each, and this one's links."""

    hosts: tuple[Host, ...]
    links: Links

    @property
    def transport(self) -> Any:
        """The transport's record."""
        from ingot.runtime.foreign.collectives.targets import socket_transport

        return socket_transport()

    def link(self, here: int, there: int, process: int) -> LinkRow:
        """Return the link between two devices; see `Links.link`."""
        return self.links.link(here, there, self.hosts[process], process, PROCESS_TIMEOUT.value())


@record
class Ranks:
    """Processes that communicate through MPI: the rank of each, and the number of devices."""

    ranks: tuple[int, ...]
    num_devices: int

    @property
    def transport(self) -> Any:
        """The transport's record."""
        from ingot.runtime.foreign.collectives.targets import mpi_transport

        return mpi_transport()

    def link(self, here: int, there: int, process: int) -> LinkRow:
        """Return the link between two devices."""
        return rank_link(self.ranks[process], here, there, self.num_devices)


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
    store, client = KeyValues(args), next(_clients)
    own: dict[str, Any] = {"version": __version__, "devices": num_devices}
    links = None
    if _wants_mpi(options):
        own["rank"] = mpi_library().rank
    else:
        links = Links(str(options.get("coordinator_address", "")))
        own["host"] = links.host.text()
    store.put(_key(client, index), json.dumps(own))
    found = [_read(store, client, process) for process in range(count)]
    _check_alike(found)
    devices = tuple(row["devices"] for row in found)
    if links is None:
        return Processes(index, devices, Ranks(tuple(row["rank"] for row in found), sum(devices)))
    return Processes(index, devices, Sockets(tuple(read_host(row["host"]) for row in found), links))


def _wants_mpi(options: dict[str, Attribute]) -> bool:
    wanted = COLLECTIVES.value()
    return (options.get("collectives") if wanted == "auto" else wanted) == "mpi"


def _check_alike(found: Sequence[dict[str, Any]]) -> None:
    """Raise PjrtError unless all processes have one version and one transport."""
    for process, row in enumerate(found):
        if row["version"] != found[0]["version"]:
            raise PjrtError(
                INVALID_ARGUMENT,
                f"process {process} runs Ingot {row['version']}, process 0 {found[0]['version']}",
            )
        if row.keys() != found[0].keys():
            raise PjrtError(
                INVALID_ARGUMENT,
                f"of process {process} and process 0 one talks through MPI, one through sockets: "
                "set INGOT_COLLECTIVES alike",
            )


def _key(client: int, process: int) -> str:
    return f"ingot/client/{client}/process/{process}"


def _read(store: KeyValues, client: int, process: int) -> dict[str, Any]:
    return json.loads(store.get(_key(client, process), PROCESS_TIMEOUT.value()))
