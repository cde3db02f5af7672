"""The table that a host gets: `api_address()` is the address of a PJRT_Api.

Joins machine code and Python slots. Invariant: every slot is filled; those that Ingot does not have
return UNIMPLEMENTED and say which they are, since a null slot would end the process.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
from functools import cache, partial
from typing import Any

from ingot import __version__
from ingot.client.pjrt import hot
from ingot.client.pjrt.c_api import API, API_MAJOR, API_MINOR, EXTENSIONS, HEADER_BYTES
from ingot.client.pjrt.errors import UNIMPLEMENTED, ErrorFactory, PjrtError
from ingot.client.pjrt.extensions import ExtensionSlots
from ingot.client.pjrt.native import Native
from ingot.client.pjrt.records import DEVICE
from ingot.client.pjrt.slots_client import ClientSlots
from ingot.client.pjrt.slots_executable import ExecutableSlots
from ingot.client.pjrt.slots_transfer import TransferSlots
from ingot.client.pjrt.trampolines import fill_targets
from ingot.support import flags

_lock = threading.Lock()
_VERSION_BYTES = 24
_POLL_SECONDS = 0.001


def version() -> str:
    """Return what clients call themselves."""
    return f"ingot {__version__}"


def _unimplemented(name: str) -> Any:
    def slot(args: Any) -> None:
        raise PjrtError(UNIMPLEMENTED, f"Ingot does not have {name}")

    return slot


class Plugin:
    """The linked machine code, the Python slots, and the table."""

    def __init__(self) -> None:
        """Link everything."""
        flags.check_environment()
        self._errors = ErrorFactory()
        python = self._python_names()
        self._library = hot.link(python)
        native = Native(self._library)
        self._errors.new = partial(native.call, "error")
        self.clients = ClientSlots(native, version())
        executables = ExecutableSlots(native, self._errors, version())
        transfers = TransferSlots(native, self._errors)
        extensions = ExtensionSlots(native)
        tables = (self.clients, executables, transfers, extensions)
        slots = {name: slot for table in tables for name, slot in table.table().items()}
        targets = {
            name: self._errors.target(name, slots.get(name) or _unimplemented(name))
            for name in python
        }
        helpers = {
            "execution_failed": executables.execution_failed,
            "release_executable": executables.release,
            "execute_many": executables.execute_many,
            "from_host": self._errors.target(
                "PJRT_Client_BufferFromHostBuffer", transfers.from_host
            ),
            "to_host": self._errors.target("PJRT_Buffer_ToHostBuffer", transfers.to_host),
        }
        fill_targets(self._library, [*hot.HELPERS, *python], {**helpers, **targets})
        self._table = self._make_table()
        self.address = ctypes.addressof(self._table)
        os.register_at_fork(after_in_child=self._after_fork)
        atexit.register(self._wait_until_idle)
        # Hosts call until the very end of the process, after the interpreter's.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def _python_names(self) -> list[str]:
        """Return the slots that are not machine code."""
        compiled = set(hot.compiled_slots())
        extensions = [name for names in EXTENSIONS.values() for name in names]
        return [name for name in (*API, *extensions) if name not in compiled]

    def _make_table(self) -> Any:
        """Return struct PJRT_Api, with its extensions behind it."""
        size = HEADER_BYTES + 8 * len(API)
        starts = [size]
        for names in EXTENSIONS.values():
            starts.append(starts[-1] + 24 + 8 * len(names))
        words = (ctypes.c_uint64 * (starts[-1] // 8))()
        base = ctypes.addressof(words)
        words[0], words[1] = size, base + size
        words[2], words[4] = _VERSION_BYTES, API_MAJOR | API_MINOR << 32
        self._fill(words, HEADER_BYTES, API)
        numbered = enumerate(EXTENSIONS.items())
        for index, (kind, names) in numbered:
            at, last = starts[index] // 8, index == len(EXTENSIONS) - 1
            words[at], words[at + 1] = 24 + 8 * len(names), kind
            words[at + 2] = 0 if last else base + starts[index + 1]
            self._fill(words, starts[index] + 24, names)
        return words

    def _fill(self, words: Any, start: int, names: list[str]) -> None:
        for index, name in enumerate(names):
            words[start // 8 + index] = self._library.address(name)

    def _wait_until_idle(self) -> None:
        """Let running programs end before the interpreter takes their code apart."""
        for client in self.clients.clients:
            for device in client.devices:
                while DEVICE.read(device.address, "unfinished"):
                    time.sleep(_POLL_SECONDS)

    def _after_fork(self) -> None:
        for client in self.clients.clients:
            for device in client.devices:
                device.after_fork_in_child()


@cache
def _plugin() -> Plugin:
    return Plugin()


def api_address() -> int:
    """Return the address of the process's PJRT_Api; the first call links it."""
    with _lock:
        return _plugin().address
