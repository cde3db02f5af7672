# SPDX-License-Identifier: Apache-2.0
"""A child process that answers messages, for code that may crash, hang or exhaust memory.

There are two kinds: `spawned` runs a module of Ingot's in a new interpreter, even if this process
has other threads; `forked` continues a function in a copy of this process, which must have one
thread. Both get a `Channel`, ignore Ctrl-C (their parent decides), and are the first that the
system kills when memory is short.

Invariant: when the parent ends, the child ends, too, because its channel is closed; a forked one
ends at once, whatever it does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

from ingot.support.channel import Channel, channel_pair
from ingot.support.diagnostics import ResourceError
from ingot.support.forking import ForkLock

_LOG_BYTES = 2000
"""Bytes of a child's last output that are kept."""
_PR_SET_PDEATHSIG = 1
_FIRST_TO_GO = "1000"


class Worker:
    """A child process, with this side's end of its channel.

    Attributes:
        pid: its number.
        channel: for requests to it and its answers.
    """

    def __init__(self, pid: int, channel: Channel, log: BinaryIO | None = None) -> None:
        """Take over a process that has just begun; `log` is the file that it prints to."""
        self.pid = pid
        self.channel = channel
        self._log = log
        self._status: int | None = None

    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self._status is None and not self._reap(os.WNOHANG)

    def signal(self, number: int) -> None:
        """Send a signal, if the process has not ended."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process and close its channel."""
        self.signal(signal.SIGKILL)
        self.wait()
        self.abandon()

    def wait(self) -> int:
        """Wait for the process; return its exit status, or minus the signal that killed it."""
        if self._status is None:
            self._reap(0)
        return self._status or 0

    def abandon(self) -> None:
        """Close the channel but leave the process: in a forked child it is the parent's."""
        self.channel.close()
        if self._log is not None:
            self._log.close()

    def how_it_ended(self) -> str:
        """Return a description of the signal or the status that the process ended with."""
        status = self.wait()
        if status >= 0:
            return f"exit status {status}"
        known = {item.value: item.name for item in signal.Signals}
        return known.get(-status, f"signal {-status}")

    def printed(self, most: int = _LOG_BYTES) -> str:
        """Return the process's last output, at most `most` bytes, if it prints to a file."""
        if self._log is None:
            return ""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - most))
        return self._log.read().decode("utf-8", "replace").strip()

    def forget_printed(self) -> None:
        """Let `printed` return only later output."""
        if self._log is not None:
            self._log.truncate(0)

    def _reap(self, options: int) -> bool:
        """Record how the process ended, if it did."""
        try:
            pid, status = os.waitpid(self.pid, options)
        except ChildProcessError:  # Other code in this process has waited for it.
            self._status = 0
            return True
        if pid:
            self._status = os.waitstatus_to_exitcode(status)
        return bool(pid)


class OneWorker:
    """Holds the child process of one kind of work, when there is one."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._worker: Worker | None = None
        self._lock = ForkLock()

    def end(self) -> None:
        """End the child, if there is one; the lock is held."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    def after_fork_in_child(self) -> None:
        """In a forked child: do not use the parent's child process."""
        if self._worker is not None:
            self._worker.abandon()
            self._worker = None


def spawned(module: str) -> Worker:
    """Start `python -m module` with the descriptors of its channel as arguments.

    Raises:
        ResourceError: INGOT0413, no process can be started.
    """
    log = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  (the worker closes it)
    here, there = channel_pair()
    ends = (there.connection.fileno(), there.outgoing, there.incoming, log.fileno())
    first = max(2, *ends) + 1
    actions: list[tuple[Any, ...]] = [
        (os.POSIX_SPAWN_DUP2, end, first + index) for index, end in enumerate(ends)
    ]
    actions.append((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))
    actions += [(os.POSIX_SPAWN_DUP2, first + 3, number) for number in (1, 2)]
    command = [sys.executable, "-P", "-m", module, *(str(first + index) for index in range(3))]
    paths = [path or os.getcwd() for path in sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONIOENCODING": "utf-8"}
    try:
        pid = os.posix_spawn(sys.executable, command, environment, file_actions=actions)
    except (OSError, ValueError) as error:
        here.close()
        raise ResourceError(
            f"no process can be started with {sys.executable!r}: {error}",
            code="INGOT0413",
            hint="data of your own can be read in this process: INGOT_ISOLATED_READER=0",
        ) from error
    finally:
        there.close()
    return Worker(pid, here, log)


def forked(run: Callable[[Channel], None]) -> Worker:
    """Start a copy of this process, which must have no other thread, that ends after `run`."""
    here, there = channel_pair()
    pid = os.fork()
    if pid:
        there.close()
        return Worker(pid, here)
    status = 1
    try:
        here.close()
        prepare()
        _end_with_parent()
        run(there)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def prepare() -> None:
    """Set this process to ignore Ctrl-C, and to be killed first when memory is short."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(_FIRST_TO_GO)


def _end_with_parent() -> None:
    """Let the system kill this process when the thread that forked it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def inherited(arguments: list[str]) -> Channel:
    """Return the channel that `spawned` passed to this process as arguments."""
    connection, outgoing, incoming = map(int, arguments)
    return Channel(socket.socket(fileno=connection), outgoing, incoming)
