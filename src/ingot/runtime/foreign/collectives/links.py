# SPDX-License-Identifier: Apache-2.0
"""Links: two stream sockets for each pair of devices of two processes, made when first needed.

Between processes of one machine that can read each other's memory there are rings besides.

A process listens from the start on a Unix socket, for processes of this machine (in this network
namespace), and on a TCP port, for others. It publishes its addresses (`Host`) with a secret, which
a process that connects must send. Of two devices the process of the one with the smaller number
connects; the other one waits.

Invariant: links are never used by a forked child, which closes its copies; so the end of a process
is noticed by the others.

Source: unix(7), tcp(7); Gloo's TCP transport for the options of sockets.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import socket
import struct
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from typing import Any

from ingot.runtime.foreign.collectives.memory_readers import allow_readers, greet_reader
from ingot.runtime.foreign.collectives.rendezvous import LinkRow
from ingot.runtime.foreign.collectives.rings import SharedRing, offer_ring, take_ring
from ingot.support.diagnostics import ExecutionError
from ingot.support.forking import ForkLock
from ingot.support.records import record

_HELLO = struct.Struct("<qqq32s")
OUTGOING, INCOMING = 0, 1
_OTHER_WAY = (INCOMING, OUTGOING)
_GREETING_SECONDS = 10
_BUFFER_BYTES = 4 << 20
_BACKLOG = 512
_ELSEWHERE, _ANY_PORT = "192.0.2.1", 9
"""An address that no machine has: the route to it is the default route."""
_USER_TIMEOUT_MILLISECONDS = 30_000
"""Seconds after which a machine that does not answer is taken to be gone."""


@record
class Host:
    """Where a process can be reached.

    Attributes:
        machine: an identifier of the machine and network namespace.
        path: its Unix socket, an abstract name.
        addresses: the addresses that other machines may reach it by, the likeliest first.
        port: its TCP port.
        secret: a process that connects must send it, as hexadecimal digits.
    """

    machine: str
    path: str
    addresses: tuple[str, ...]
    port: int
    secret: str

    def text(self) -> str:
        """Return this as JSON."""
        return json.dumps(asdict(self))


def read_host(text: str) -> Host:
    """Return what `Host.text` wrote."""
    fields: dict[str, Any] = json.loads(text)
    fields["addresses"] = tuple(fields["addresses"])
    return Host(**fields)


class _Pair:
    """The link between two devices while it is made: sockets, and whether memory can be read."""

    def __init__(self) -> None:
        self.sockets: dict[int, socket.socket] = {}
        self.rings: dict[int, SharedRing] = {}
        self.reader = 0

    @property
    def is_made(self) -> bool:
        """Whether both ways are there."""
        return len(self.sockets) == len(_OTHER_WAY)

    @property
    def row(self) -> LinkRow:
        """The link as exchanges know it."""
        ways = self.sockets
        sent, got = (
            ring.address if ring else 0 for ring in map(self.rings.get, (OUTGOING, INCOMING))
        )
        return LinkRow(ways[OUTGOING].fileno(), ways[INCOMING].fileno(), self.reader, sent, got)


class Links:
    """The links of one process.

    Attributes:
        host: where this process can be reached.
    """

    def __init__(self, towards: str = "") -> None:
        """Begin to listen.

        Args:
            towards: the address of a machine in the network of the others; it decides which of this
                machine's addresses are published.
        """
        allow_readers()
        self._pairs: dict[tuple[int, int], _Pair] = {}
        self._changed = threading.Condition(ForkLock())
        self._listeners = [_unix_listener(), _tcp_listener()]
        path = self._listeners[0].getsockname()[1:].decode()
        port = self._listeners[1].getsockname()[1]
        self.host = Host(_machine(), path, own_addresses(towards), port, secrets.token_hex(16))
        os.register_at_fork(after_in_child=self._close)
        for listener in self._listeners:
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def link(self, here: int, there: int, host: Host, process: int, seconds: float) -> LinkRow:
        """Return the link between two devices.

        Args:
            here: number of a device of this process.
            there: number of a device of another process.
            host: where that process can be reached.
            process: its number.
            seconds: how long to wait for it to connect.

        Raises:
            ExecutionError: INGOT0518, it cannot be reached, or does not connect.
        """
        with self._changed:
            found = self._pairs.get((here, there))
        if found is None and here < there:
            found = self._connect(here, there, host, process)
        if found is None or not found.is_made:
            found = self._wait(here, there, process, seconds)
        return found.row

    def cut(self, devices: Collection[int]) -> None:
        """End all waiting for devices of another process."""
        with self._changed:
            found = [pair for (_, there), pair in self._pairs.items() if there in devices]
        for pair in found:
            for each in pair.sockets.values():
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            for ring in pair.rings.values():
                ring.close()

    def _connect(self, here: int, there: int, host: Host, process: int) -> _Pair:
        pair, can_read = _Pair(), False
        try:
            for way in (OUTGOING, INCOMING):
                made = pair.sockets[way] = self._socket_to(host)
                made.sendall(_HELLO.pack(there, here, _OTHER_WAY[way], host.secret.encode()))
                if way == OUTGOING:
                    pair.reader, can_read = greet_reader(made, is_first=True)
                # The data of a direction is read by its receiver.
                is_read = bool(pair.reader) if way == OUTGOING else can_read
                ring = offer_ring(made, is_wanted=is_read) if _is_local(made) else None
                if ring is not None:
                    pair.rings[way] = ring
                _tune(made)
        except OSError as problem:
            addresses = " or ".join(host.addresses)
            raise _unreachable(
                process, f"it does not answer at {addresses}, port {host.port}: {problem}"
            ) from problem
        with self._changed:
            self._pairs[here, there] = pair
        return pair

    def _socket_to(self, host: Host) -> socket.socket:
        if host.machine != self.host.machine:
            return _connected(host)
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(_GREETING_SECONDS)
        made.connect("\0" + host.path)
        return made

    def _wait(self, here: int, there: int, process: int, seconds: float) -> _Pair:
        end = time.monotonic() + seconds
        with self._changed:
            while True:
                pair = self._pairs.get((here, there))
                if pair is not None and pair.is_made:
                    return pair
                left = end - time.monotonic()
                if left <= 0:
                    raise _unreachable(
                        process, f"it has not connected device {there} in {seconds:g} seconds"
                    )
                self._changed.wait(left)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                made, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._greet, args=(made,), daemon=True).start()

    def _greet(self, made: socket.socket) -> None:
        """Read which device connects; close a connection without the secret."""
        try:
            made.settimeout(_GREETING_SECONDS)
            hello = made.recv(_HELLO.size, socket.MSG_WAITALL)
            here, there, way, secret = _HELLO.unpack(hello)
            if not hmac.compare_digest(secret, self.host.secret.encode()):
                raise ConnectionRefusedError("a stranger")
            reader = greet_reader(made, is_first=False)[0] if way == INCOMING else 0
            ring = take_ring(made) if _is_local(made) else None
            _tune(made)
        except (OSError, struct.error):
            made.close()
            return
        with self._changed:
            pair = self._pairs.setdefault((here, there), _Pair())
            pair.sockets[way] = made
            pair.reader |= reader
            if ring is not None:
                pair.rings[way] = ring
            self._changed.notify_all()

    def _close(self) -> None:
        """Close all sockets, in a forked child."""
        for each in self._listeners:
            each.close()
        for pair in self._pairs.values():
            for each in pair.sockets.values():
                each.close()


def _unreachable(process: int, why: str) -> ExecutionError:
    return ExecutionError(
        f"there is no connection to process {process}: {why}",
        code="INGOT0518",
        hint="every process must run the same programs in the same order; a firewall must let the "
        "machines connect to each other's ports (INGOT_PROCESS_TIMEOUT is how long to wait)",
    )


def _is_local(made: socket.socket) -> bool:
    return made.family == socket.AF_UNIX


def _unix_listener() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.bind(f"\0ingot-{secrets.token_hex(16)}")
    made.listen(_BACKLOG)
    return made


def _tcp_listener() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.bind(("", 0))
    made.listen(_BACKLOG)
    return made


def _tune(made: socket.socket) -> None:
    """Set a socket to send at once, to have large buffers, and to notice a machine that is gone."""
    made.settimeout(None)
    for name in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        made.setsockopt(socket.SOL_SOCKET, name, _BUFFER_BYTES)
    if made.family == socket.AF_INET:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 5)):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MILLISECONDS)


def _connected(host: Host) -> socket.socket:
    """Return a connection to a process of another machine.

    Raises:
        OSError: none of its addresses answers.
    """
    problem = OSError("it has no address")
    for address in host.addresses:
        try:
            return socket.create_connection((address, host.port), _GREETING_SECONDS)
        except OSError as error:
            problem = error
    raise problem


def own_addresses(towards: str) -> tuple[str, ...]:
    """Return this machine's IPv4 addresses on the routes to another one and to the world.

    A loopback address comes last, since a machine's own name may resolve to one.

    Args:
        towards: `host:port`, or empty.
    """
    name = towards.rpartition(":")[0].strip("[]")
    found = [address for address in map(_source_address, (name, _ELSEWHERE)) if address]
    found.sort(key=_is_loopback)
    return tuple(dict.fromkeys(found)) or ("127.0.0.1",)


def _is_loopback(address: str) -> bool:
    return address.startswith("127.")


def _source_address(name: str) -> str:
    """Return the address that packets to a machine come from; empty if there is no route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((name, _ANY_PORT))  # Nothing is sent: this only asks for the route.
        except OSError:
            return ""
        return probe.getsockname()[0] if name else ""


@cache
def _machine() -> str:
    """Return an identifier that exactly the processes share that can connect by Unix sockets."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    return f"{boot}-{os.stat('/proc/self/ns/net').st_ino}"
