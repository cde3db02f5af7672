# SPDX-License-Identifier: Apache-2.0
"""How the processes of one program find each other, and how their devices reach each other.

Each process writes its number of devices and the addresses at which it listens into the host's
key-value store, and waits for the others. Invariant: all processes make their clients in the same
order, so the n-th client of each belongs together.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ingot.client.pjrt.c_api import INVALID_ARGUMENT
from ingot.client.pjrt.errors import PjrtError
from ingot.client.pjrt.handles import Attribute
from ingot.client.pjrt.key_values import KeyValues
from ingot.client.pjrt.processes import Processes
from ingot.runtime.foreign.collectives.links import Host, Links, read_host
from ingot.runtime.foreign.collectives.mpi_library import finalize, mpi_library, rank_link
from ingot.runtime.foreign.collectives.rendezvous import LinkRow
from ingot.support.flags import COLLECTIVES, PROCESS_TIMEOUT
from ingot.support.records import record
from ingot.support.versions import VERSION

_clients = itertools.count()


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

    def link(self, here: int, there: int, process: int, seconds: float) -> LinkRow:
        """Return the link between two devices; see `Links.link`."""
        return self.links.link(here, there, self.hosts[process], process, seconds)

    def cut(self, devices: Collection[int]) -> None:
        """End all waiting for devices of other processes."""
        self.links.cut(devices)

    def leave(self) -> None:
        """Do nothing: a socket needs no farewell."""


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

    def link(self, here: int, there: int, process: int, seconds: float) -> LinkRow:
        """Return the link between two devices; MPI makes its connections itself."""
        return rank_link(self.ranks[process], here, there, self.num_devices)

    def cut(self, devices: Collection[int]) -> None:
        """Do nothing: what waits for MPI ends after `INGOT_PROCESS_TIMEOUT`."""

    def leave(self) -> None:
        """Finalize MPI, which waits for the other processes."""
        finalize()


def join(
    index: int, count: int, options: Mapping[str, Attribute], num_devices: int, args: Any
) -> Processes:
    """Tell the other processes of this one, and wait for them.

    Args:
        index: the number of this process.
        count: the number of processes.
        options: those of PJRT_Client_Create.
        num_devices: the number of devices of this process.
        args: the arguments of PJRT_Client_Create, with the host's key-value store.

    Raises:
        PjrtError: the processes do not fit together.
        UnsupportedError: INGOT0519, there is no MPI that can be used.
        ExecutionError: INGOT0518, another process did not come in time.
    """
    store, client = KeyValues(args), next(_clients)
    own: dict[str, Any] = {"version": VERSION, "devices": num_devices}
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


def _wants_mpi(options: Mapping[str, Attribute]) -> bool:
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
