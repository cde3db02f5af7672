# SPDX-License-Identifier: Apache-2.0
"""The table that a host gets: `api_address()` is the address of a PJRT_Api.

It joins machine code and Python slots. Invariant: every slot is filled, since a null slot would
crash the process; docs/pjrt.md lists what each group does on a CPU.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import time
from functools import cache, partial
from itertools import pairwise
from typing import Any

from ingot.client.pjrt.c_api import (
    API,
    API_MAJOR,
    API_MINOR,
    EXTENSIONS,
    HEADER_BYTES,
    PROFILER,
    PROFILER_API,
)
from ingot.client.pjrt.errors import ErrorFactory
from ingot.client.pjrt.handles import keep_forever
from ingot.client.pjrt.native import Native
from ingot.client.pjrt.native_code import module as native_module
from ingot.client.pjrt.python_slots.alias import AliasSlots
from ingot.client.pjrt.python_slots.asynchronous import AsyncSlots
from ingot.client.pjrt.python_slots.client import ClientSlots
from ingot.client.pjrt.python_slots.executable import ExecutableSlots
from ingot.client.pjrt.python_slots.extensions import ExtensionSlots
from ingot.client.pjrt.python_slots.profiler import ProfilerSlots
from ingot.client.pjrt.python_slots.transfer import TransferSlots
from ingot.client.pjrt.records import DEVICE
from ingot.client.pjrt.trampolines import fill_targets
from ingot.support import flags
from ingot.support.forking import ForkLock, defers_fork
from ingot.support.versions import VERSION

_lock = ForkLock()
_VERSION_BYTES = 24
_EXTENSION_BYTES = 24
_PROFILER_HEADER_BYTES = 16
_POLL_SECONDS = 0.001


def version() -> str:
    """Return the version that clients report."""
    return f"ingot {VERSION}"


class _Table:
    """A C struct that begins with its size and ends with addresses, at a fixed address."""

    def __init__(self, header_bytes: int, entries: list[int], kind: int = 0) -> None:
        """Fill it; the second word of an extension is its kind."""
        start = header_bytes // 8
        self.words: Any = (ctypes.c_uint64 * (start + len(entries)))()
        self.words[0], self.words[1] = ctypes.sizeof(self.words), kind
        self.words[start:] = entries
        self.address = ctypes.addressof(self.words)
        self.kept: list[_Table] = []


class Plugin:
    """The linked machine code, the Python slots, and the table."""

    def __init__(self) -> None:
        """Link everything."""
        flags.check_environment()
        self._errors = ErrorFactory()
        python = self._python_names()
        self._library = native_module.link(python)
        self._close_gate = self._library.function("ingot_pjrt_close_gate", ctypes.c_int64)
        self._open_gate = self._library.function("ingot_pjrt_open_gate", None)
        native = Native(self._library)
        self._errors.new = partial(native.call, "error")
        self.clients = ClientSlots(native, version())
        executables = ExecutableSlots(native, self._errors, version())
        transfers = TransferSlots(native, self._errors)
        extensions = ExtensionSlots(native)
        later = AsyncSlots(native, self._errors)
        aliases = AliasSlots(native, self._errors)
        tables = (
            *(self.clients, executables, transfers, later, aliases),
            *(extensions, ProfilerSlots()),
        )
        slots = {name: slot for table in tables for name, slot in table.table().items()}
        targets = {name: self._errors.target(name, slots[name]) for name in python}
        helpers = {
            "execution_failed": executables.execution_failed,
            "release_executable": executables.release,
            "execute_on_devices": executables.execute_on_devices,
            "from_host": self._errors.target(
                "PJRT_Client_BufferFromHostBuffer", transfers.from_host
            ),
            "to_host": self._errors.target("PJRT_Buffer_ToHostBuffer", transfers.to_host),
        }
        fill_targets(self._library, [*native_module.HELPERS, *python], {**helpers, **targets})
        self._table = self._make_table()
        self.address = self._table.address
        self.is_inherited = False
        os.register_at_fork(after_in_child=self._after_fork)
        atexit.register(self._leave)
        # Hosts call until the end of the process, even after the interpreter's.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def _python_names(self) -> list[str]:
        """Return the slots that are not machine code."""
        compiled = set(native_module.compiled_slots())
        extensions = [name for names in EXTENSIONS.values() for name in names]
        names = dict.fromkeys((*API, *extensions, *PROFILER_API))
        return [name for name in names if name not in compiled]

    def _make_table(self) -> _Table:
        """Return struct PJRT_Api, with its extensions."""
        profiler = _Table(_PROFILER_HEADER_BYTES, self._addresses(PROFILER_API))
        api = _Table(HEADER_BYTES, self._addresses(API))
        parts = [_Table(_EXTENSION_BYTES, [profiler.address, 0], PROFILER)]
        for kind, names in EXTENSIONS.items():
            parts.append(_Table(_EXTENSION_BYTES, self._addresses(names), kind))
        for before, after in pairwise(parts):
            before.words[2] = after.address
        api.words[1] = parts[0].address
        api.words[2], api.words[4] = _VERSION_BYTES, API_MAJOR | API_MINOR << 32
        api.kept.extend((profiler, *parts))
        return api

    def _addresses(self, names: list[str]) -> list[int]:
        return [self._library.address(name) for name in names]

    def _leave(self) -> None:
        """Wait for running programs, and for threads that destroy some, when the interpreter ends.

        From here on nothing is destroyed any more. A program that runs longer than
        `INGOT_EXIT_TIMEOUT` (an endless loop) ends with the process.
        """
        keep_forever()
        end = time.monotonic() + flags.EXIT_TIMEOUT.value()
        while self._is_busy():
            if time.monotonic() > end:
                return
            time.sleep(_POLL_SECONDS)
        for client in self.clients.clients:
            client.platform.processes.leave()

    def _is_busy(self) -> bool:
        """Whether programs run, or threads destroy some."""
        devices = [device for client in self.clients.clients for device in client.devices]
        return bool(self._close_gate()) or any(
            DEVICE.read(device.address, "unfinished") for device in devices
        )

    def _after_fork(self) -> None:
        self.is_inherited = bool(self.clients.clients)
        self._open_gate()
        for client in self.clients.clients:
            for device in client.devices:
                device.after_fork_in_child()


@cache
def _plugin() -> Plugin:
    return Plugin()


def is_inherited() -> bool:
    """Whether this is a forked child of a process with a client: its threads do not exist here."""
    return _plugin().is_inherited


@defers_fork
def api_address() -> int:
    """Return the address of the process's PJRT_Api; the first call links it."""
    with _lock:
        return _plugin().address
