# SPDX-License-Identifier: Apache-2.0
"""Python slots of buffers that take over another buffer's memory, now or later.

An alias is a buffer that has no memory until the host names the buffer whose memory it gets; a
donation with a dependency has its memory at once, but must not be read before the host allows it.
Both are views that hold the storage of the donated buffer. Invariant: the event of such a view is
late (the host decides when it happens), and it happens after the data of the storage is computed.

Source: pjrt_c_api.h (PJRT_Client_CreateAliasBuffer, PJRT_Buffer_DonateWithControlDependency),
common_pjrt_client.cc.
"""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

from ingot.client.pjrt.c_api import FAILED_PRECONDITION, INVALID_ARGUMENT, record
from ingot.client.pjrt.errors import ErrorFactory, PjrtError
from ingot.client.pjrt.handles import Handle, lookup, read_text, read_words
from ingot.client.pjrt.layouts import layout_address, order_of_buffer, read_order
from ingot.client.pjrt.native import Native
from ingot.client.pjrt.native_code.buffers import DELETED_TEXT
from ingot.client.pjrt.objects import Device, Memory
from ingot.client.pjrt.python_slots.slots import Slots, slot
from ingot.client.pjrt.python_slots.transfer import array_bytes
from ingot.client.pjrt.records import BUFFER, EVENT, STORAGE
from ingot.semantics.call_layouts import Order
from ingot.support import records

_DEPENDENCY = record("PJRT_Buffer_DonateWithControlDependency_Callback").structure


@records.record
class _Shape:
    """The properties that an alias and the buffer whose memory it gets must share."""

    kind: int
    dims: tuple[int, ...]
    memory: int
    order: Order


def _shape_of(buffer: int) -> _Shape:
    dims = read_words(BUFFER.read(buffer, "dims"), BUFFER.read(buffer, "rank"))
    kind, memory = BUFFER.read(buffer, "type"), BUFFER.read(buffer, "memory")
    return _Shape(kind, tuple(dims), memory, order_of_buffer(buffer))


class Promise(Handle):
    """PJRT_FulfillAliasBufferCallback: the storage of an alias, and its event."""

    def __init__(self, native: Native, shape: _Shape, storage: int, event: int) -> None:
        """Hold both; the alias itself may be destroyed before it is fulfilled."""
        super().__init__(EVENT)
        self.shape, self.storage, self.event = shape, storage, event
        native.call("retain", storage)
        native.call("retain", event)


class AliasSlots(Slots):
    """The slots, over the linked machine code."""

    def __init__(self, native: Native, errors: ErrorFactory) -> None:
        """Hold the native functions and the factory of errors."""
        self.native = native
        self.errors = errors
        self._waiting: dict[int, tuple[int, int]] = {}
        self._numbers = itertools.count(1)
        kind: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        self._callback = kind(self._dependency_ready)

    @slot("PJRT_Client_CreateAliasBuffer")
    def create(self, args: Any) -> None:
        """Make a buffer that gets another one's memory later.

        Raises:
            PjrtError: the elements have no size (INVALID_ARGUMENT); the layout has tiles or does
                not order the dimensions (UNIMPLEMENTED); memory is exhausted (RESOURCE_EXHAUSTED).
        """
        dims, memory = read_words(args.shape_dims, args.shape_num_dims), lookup(args.memory, Memory)
        size = array_bytes(dims, args.shape_element_type)
        order = read_order(args.shape_layout, len(dims))
        shape = _Shape(args.shape_element_type, tuple(dims), args.memory, order)
        storage, event = self._late_view(0, size, 0)
        promise = Promise(self.native, shape, storage, event)
        args.alias_buffer = self._buffer(storage, shape, size, memory)
        args.fulfill_alias_buffer_cb = promise.address

    def _buffer(self, storage: int, shape: _Shape, size: int, memory: Memory) -> int:
        buffer = self.native.new_buffer(storage, shape.kind, shape.dims, size, memory)
        BUFFER.write(buffer, "layout", layout_address(shape.order))
        return buffer

    @slot("PJRT_Client_FulfillAliasBuffer")
    def fulfill(self, args: Any) -> None:
        """Give an alias the memory of a buffer, which is donated, or an error.

        Raises:
            PjrtError: there is no callback, or the buffer is deleted or of another shape
                (INVALID_ARGUMENT); the host sees its memory, or it has none yet
                (FAILED_PRECONDITION).
        """
        if not args.fulfill_alias_buffer_cb:
            raise PjrtError(INVALID_ARGUMENT, "there is no alias to fulfill: the callback is null")
        promise = lookup(args.fulfill_alias_buffer_cb, Promise)
        promise.forget()
        try:
            if args.status_code:
                text = read_text(args.error_message, args.error_message_size)
                problem = PjrtError(args.status_code, text)
                self.native.call("event_set", promise.event, self.errors.make(problem))
                self.native.call("event_release", promise.event)
                return
            self._hand_over(promise, args.buffer)
        finally:
            self.native.call("storage_release", promise.storage)

    def _hand_over(self, promise: Promise, buffer: int) -> None:
        try:
            source = self._give_away(buffer, promise.shape)
        except PjrtError as problem:
            self.native.call("event_set", promise.event, self.errors.make(problem))
            self.native.call("event_release", promise.event)
            raise
        STORAGE.write(promise.storage, "context", source)
        STORAGE.write(promise.storage, "data", STORAGE.read(source, "data"))
        STORAGE.write(promise.storage, "gpu", STORAGE.read(source, "gpu"))
        self._pass_on(source, promise.event)

    def _late_view(self, data: int, size: int, source: int) -> tuple[int, int]:
        """Return a storage that releases `source` when freed, and a reference to its event."""
        release = self.native.address("ingot_pjrt_release_source")
        storage = self.native.new_view(data, size, release, source)
        return storage, self.native.new_late_event(storage)

    def _give_away(self, buffer: int, shape: _Shape | None = None) -> int:
        """Take the storage out of a buffer, which is deleted; return a reference to it.

        Raises:
            PjrtError: it is deleted, shown to the host, without memory, or not of that shape.
        """
        storage = self.native.call("use", buffer) if buffer else 0
        if not storage:
            raise PjrtError(INVALID_ARGUMENT, DELETED_TEXT)
        try:
            if shape is not None and _shape_of(buffer) != shape:
                raise PjrtError(
                    INVALID_ARGUMENT, f"the alias is {shape}, the buffer {_shape_of(buffer)}"
                )
            if STORAGE.read(storage, "external"):
                raise PjrtError(
                    FAILED_PRECONDITION, "the host sees the buffer's memory: it cannot be donated"
                )
            if STORAGE.read(storage, "bytes") and not STORAGE.read(storage, "data"):
                raise PjrtError(
                    FAILED_PRECONDITION, "the buffer is itself an alias without memory so far"
                )
            self.native.call("retain", storage)
        finally:
            self.native.call("unuse", buffer)
        self.native.call("discard", buffer)
        return storage

    def _pass_on(self, source: int, event: int) -> None:
        """Let an event happen when that of a storage does; takes over the reference."""
        ready = self.native.ready_event(source)
        self.native.call("on_ready", ready, self.native.address("ingot_pjrt_pass_on"), event)
        self.native.call("event_release", ready)

    @slot("PJRT_Buffer_DonateWithControlDependency")
    def donate(self, args: Any) -> None:
        """Make a buffer of another one's memory, to be read when the host allows it.

        Raises:
            PjrtError: the buffer is deleted (INVALID_ARGUMENT); the host sees its memory, or it has
                none yet (FAILED_PRECONDITION).
        """
        shape = _shape_of(args.buffer)
        device = lookup(BUFFER.read(args.buffer, "device"), Device)
        memory = next(item for item in device.memories if item.address == shape.memory)
        size, source = BUFFER.read(args.buffer, "bytes"), self._give_away(args.buffer)
        storage, event = self._late_view(STORAGE.read(source, "data"), size, source)
        STORAGE.write(storage, "gpu", STORAGE.read(source, "gpu"))
        self.native.call("retain", event)
        self.native.call("retain", source)
        args.out_buffer = self._buffer(storage, shape, size, memory)
        number = next(self._numbers)
        self._waiting[number] = (source, event)
        args.callback_data = number
        args.dependency_ready_callback = ctypes.cast(self._callback, ctypes.c_void_p).value

    def _dependency_ready(self, address: int) -> None:
        """Handle the host's call that the dependency of a donation has happened, or failed."""
        given: Any = _DEPENDENCY.from_address(address)
        source, event = self._waiting.pop(given.callback_data)
        if given.error_code:
            text = read_text(given.error_message, given.error_message_size)
            error = self.errors.make(PjrtError(given.error_code, text))
            self.native.call("event_set", event, error)
            self.native.call("event_release", event)
        else:
            self._pass_on(source, event)
        self.native.call("storage_release", source)
