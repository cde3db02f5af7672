# SPDX-License-Identifier: Apache-2.0
"""The native functions that Python slots call, and helpers that slots share.

Invariant: calls that may wait or copy much release the GIL (ctypes does), because a job that they
wait for may need it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from ingot.client.pjrt.c_api import INTERNAL, INVALID_ARGUMENT, RESOURCE_EXHAUSTED
from ingot.client.pjrt.errors import PjrtError
from ingot.client.pjrt.handles import lookup
from ingot.client.pjrt.native_code.buffers import DELETED_TEXT
from ingot.client.pjrt.native_code.emit import NO_MEMORY_TEXT
from ingot.client.pjrt.native_code.gpu import GPU_ERROR_TEXT
from ingot.client.pjrt.native_code.module import exported_functions
from ingot.client.pjrt.objects import Device, Memory
from ingot.client.pjrt.records import EVENT, STORAGE
from ingot.llvm.linking import Library
from ingot.llvm.types import I32, I64, VOID
from ingot.native.functions import llvm_signature
from ingot.runtime.arguments.c_arrays import int64_array
from ingot.support.deep_stack import on_large_stack

T = TypeVar("T")

_C_TYPES: dict[Any, Any] = {I32: ctypes.c_int32, I64: ctypes.c_int64, VOID: None}
_COMPILE_STACK_BYTES = 256 << 20


class Native:
    """The functions `ingot_pjrt_*` of the linked module."""

    def __init__(self, library: Library) -> None:
        """Bind them."""
        self.library = library
        self._functions: dict[str, Any] = {}

    def call(self, name: str, *args: Any) -> int:
        """Call one of the functions; null is 0."""
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = self._bound(f"ingot_pjrt_{name}")
        return int(function(*args) or 0)

    def _bound(self, symbol: str) -> Any:
        """Return a function of the module for Python, with the types of its annotations."""
        result, params = llvm_signature(exported_functions()[symbol])
        types = [_C_TYPES.get(each, ctypes.c_void_p) for each in (result, *params)]
        return self.library.function(symbol, *types)

    def address(self, name: str) -> int:
        """Return the address of a function of the module."""
        return self.library.address(name)

    def done_event(self) -> int:
        """Return an event that has happened."""
        return self.call("ready")

    def new_event(self) -> int:
        """Return a new event that has not happened."""
        return self._made("event")

    def new_late_event(self, storage: int) -> int:
        """Give a new storage an event that a later call of the host will set; return the event."""
        event = self.new_event()
        EVENT.write(event, "late", 1)
        STORAGE.write(storage, "event", event)
        return event

    def failed_event(self, error: int) -> int:
        """Return a new event that has failed; takes over the reference to the error."""
        event = self.new_event()
        self.call("event_set", event, error)
        return event

    def _made(self, name: str, *args: Any) -> int:
        """Return the object that a function makes; PjrtError if there is no memory."""
        made = self.call(name, *args)
        if not made:
            raise PjrtError(RESOURCE_EXHAUSTED, NO_MEMORY_TEXT)
        return made

    def new_storage(self, size: int, memory: Memory) -> int:
        """Return a new storage of `size` bytes in a memory; PjrtError if there is no room."""
        storage = self.call("storage", memory.device.structure.gpu, size)
        if not storage:
            raise PjrtError(RESOURCE_EXHAUSTED, f"out of memory while allocating {size} bytes")
        return storage

    def new_buffer(
        self, storage: int, type_code: int, dims: Sequence[int], size: int, memory: Memory
    ) -> int:
        """Return a new buffer that takes over the reference to `storage`."""
        array = int64_array(dims)
        addresses = (memory.device.address, memory.address)
        try:
            return self._made("buffer", storage, type_code, array, len(dims), size, *addresses)
        except PjrtError:
            self.call("storage_release", storage)
            raise

    def new_view(self, data: int, size: int, release: int, context: int) -> int:
        """Return a new storage over memory of the host; `release(data, context)` ends it."""
        return self._made("view", data, size, release, context)

    def write(self, storage: int, offset: int, source: int, size: int) -> None:
        """Copy bytes of the host into a storage.

        Raises:
            PjrtError: the GPU that has it refuses.
        """
        self._move(
            STORAGE.read(storage, "data") + offset, STORAGE.read(storage, "gpu"), source, 0, size
        )

    def read(self, storage: int, offset: int, target: int, size: int) -> None:
        """Copy bytes of a storage to the host.

        Raises:
            PjrtError: the GPU that has it refuses, or failed before.
        """
        self._move(
            target, 0, STORAGE.read(storage, "data") + offset, STORAGE.read(storage, "gpu"), size
        )

    def _move(self, target: int, to: int, source: int, of: int, size: int) -> None:
        if not self.call("move", target, to, source, of, size):
            raise PjrtError(INTERNAL, GPU_ERROR_TEXT)

    @contextmanager
    def used_storage(self, buffer: int) -> Generator[int]:
        """Use the storage of a buffer, once its data is computed, or has failed.

        Raises:
            PjrtError: the buffer is deleted.
        """
        storage = self.call("use", buffer)
        if not storage:
            raise PjrtError(INVALID_ARGUMENT, DELETED_TEXT)
        try:
            event = STORAGE.read(storage, "event")
            if event:
                self.call("event_wait", event)
            yield storage
        finally:
            self.call("unuse", buffer)

    def ready_event(self, storage: int) -> int:
        """Return a reference to the event of a storage whose data is computed, or has failed."""
        event = STORAGE.read(storage, "event")
        if not event:
            return self.done_event()
        self.call("retain", event)
        return event


def memory_of(device: int, memory: int) -> Memory:
    """Return the memory that a slot's arguments name.

    Args:
        device: handle of a device, or null.
        memory: handle of a memory, or null: then the device's default memory.
    """
    if memory:
        return lookup(memory, Memory)
    return lookup(device, Device).memories[0]


def on_compile_stack(function: Callable[[], T]) -> T:
    """Return `function()`, run on a thread of its own: hosts compile on threads with small stacks.

    LLVM and recursive passes need more than the 2 MB that jaxlib's threads have.
    """
    return on_large_stack(_COMPILE_STACK_BYTES, function, daemon=False)
