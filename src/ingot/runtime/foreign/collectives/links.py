# SPDX-License-Identifier: Apache-2.0
"""Links: a stream socket for each pair of devices of two processes, made when it is first needed.

A process listens at two places from the start: a Unix socket for processes of this machine (in this
network namespace), a TCP port for others. What it publishes of itself (`Host`) has a secret, which
who connects must say. Of two devices the process of the one with the smaller number connects, so
nobody waits for a connection but who is connected to.

Invariant: links are never used by a forked child, which closes its copies; so a process that ends
is seen to have ended.

Source: unix(7), tcp(7); Gloo's TCP transport for what to set on a socket.
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
from dataclasses import asdict, dataclass
from functools import cache

from ingot.support.diagnostics import ExecutionError
from ingot.support.forking import ForkLock

_HELLO = struct.Struct("<qq32s")
_GREETING_SECONDS = 10
_BUFFER_BYTES = 4 << 20
_BACKLOG = 512
_USER_TIMEOUT_MILLISECONDS = 30_000
"""A machine that does not answer for so long is taken to be gone."""


@dataclass(frozen=True, slots=True)
class Host:
    """Where a process can be reached.

    Attributes:
        machine: what processes of one machine and network namespace have in common.
        path: its Unix socket, an abstract name.
        address: its address for other machines.
        port: its TCP port.
        secret: what those who connect must say, as hexadecimal digits.
    """

    machine: str
    path: str
    address: str
    port: int
    secret: str

    def text(self) -> str:
        """Return this as JSON."""
        return json.dumps(asdict(self))


def read_host(text: str) -> Host:
    """Return what `Host.text` wrote."""
    return Host(**json.loads(text))


class Links:
    """The links of one process.

    Attributes:
        host: where this process can be reached.
    """

    def __init__(self, towards: str = "") -> None:
        """Begin to listen.

        Args:
            towards: the address of a machine that others can be reached by; it decides which of
                this machine's addresses they are told.
        """
        self._arrived: dict[tuple[int, int], socket.socket] = {}
        self._changed = threading.Condition(ForkLock())
        self._listeners = [_unix_listener(), _tcp_listener()]
        path = self._listeners[0].getsockname()[1:].decode()
        port = self._listeners[1].getsockname()[1]
        self.host = Host(_machine(), path, own_address(towards), port, secrets.token_hex(16))
        os.register_at_fork(after_in_child=self._close)
        for listener in self._listeners:
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def link(self, here: int, there: int, host: Host, process: int, seconds: float) -> int:
        """Return the file descriptor of the link between two devices.

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
            found = self._arrived.get((here, there))
        if found is None and here < there:
            found = self._connect(here, there, host, process)
        if found is None:
            found = self._wait(here, there, process, seconds)
        return found.fileno()

    def cut(self, devices: Collection[int]) -> None:
        """Let nobody wait for devices of another process any more."""
        with self._changed:
            for (_, there), link in self._arrived.items():
                if there in devices:
                    with suppress(OSError):
                        link.shutdown(socket.SHUT_RDWR)

    def _connect(self, here: int, there: int, host: Host, process: int) -> socket.socket:
        try:
            if host.machine == self.host.machine:
                made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                made.connect("\0" + host.path)
            else:
                made = socket.create_connection((host.address, host.port), _GREETING_SECONDS)
            _tune(made)
            made.sendall(_HELLO.pack(there, here, host.secret.encode()))
        except OSError as problem:
            raise _unreachable(
                process, f"it does not answer at {host.address}:{host.port}: {problem}"
            ) from problem
        with self._changed:
            self._arrived[here, there] = made
        return made

    def _wait(self, here: int, there: int, process: int, seconds: float) -> socket.socket:
        end = time.monotonic() + seconds
        with self._changed:
            while (here, there) not in self._arrived:
                left = end - time.monotonic()
                if left <= 0:
                    raise _unreachable(
                        process, f"it has not connected device {there} in {seconds:g} seconds"
                    )
                self._changed.wait(left)
            return self._arrived[here, there]

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                made, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._greet, args=(made,), daemon=True).start()

    def _greet(self, made: socket.socket) -> None:
        """Read who connects; close the connection of a stranger."""
        try:
            made.settimeout(_GREETING_SECONDS)
            hello = made.recv(_HELLO.size, socket.MSG_WAITALL)
            here, there, secret = _HELLO.unpack(hello)
        except (OSError, struct.error):
            made.close()
            return
        if not hmac.compare_digest(secret, self.host.secret.encode()):
            made.close()
            return
        _tune(made)
        with self._changed:
            self._arrived[here, there] = made
            self._changed.notify_all()

    def _close(self) -> None:
        """Close all sockets, in a forked child."""
        for each in (*self._listeners, *self._arrived.values()):
            each.close()


def _unreachable(process: int, why: str) -> ExecutionError:
    return ExecutionError(
        f"there is no connection to process {process}: {why}",
        code="INGOT0518",
        hint="every process must run the same programs in the same order; a firewall must let the "
        "machines connect to each other's ports (INGOT_PROCESS_TIMEOUT is how long to wait)",
    )


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
    """Send at once, with large buffers, and see that the other machine is gone."""
    made.settimeout(None)
    for name in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        made.setsockopt(socket.SOL_SOCKET, name, _BUFFER_BYTES)
    if made.family == socket.AF_INET:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 5)):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MILLISECONDS)


def own_address(towards: str) -> str:
    """Return this machine's address on the way to another (`host:port`, or empty)."""
    name = towards.rpartition(":")[0].strip("[]") or "192.0.2.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((name, 9))  # Nothing is sent: this only asks for the route.
        except OSError:
            return "127.0.0.1"
        return probe.getsockname()[0]


@cache
def _machine() -> str:
    """Return what only processes have in common that can connect by Unix sockets."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    return f"{boot}-{os.stat('/proc/self/ns/net').st_ino}"
