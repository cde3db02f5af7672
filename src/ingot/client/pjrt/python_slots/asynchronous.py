# SPDX-License-Identifier: Apache-2.0
"""Python slots of asynchronous transfers: transfer managers, and copies to a later target.

The copy itself is synchronous; asynchronous is when the host brings the data. Invariant: a manager
holds the storages that it fills, and the event of each; a storage whose data never comes fails when
the manager is destroyed, so that no wait is endless.

Source: pjrt_c_api.h (PJRT_AsyncHostToDeviceTransferManager_*, PJRT_Buffer_CopyRawToHostFuture).
"""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

from ingot.client.pjrt.c_api import INVALID_ARGUMENT, TYPE_NAMES, record
from ingot.client.pjrt.errors import ErrorFactory, PjrtError
from ingot.client.pjrt.handles import Handle, lookup, read_text, read_words
from ingot.client.pjrt.layouts import host_strides, layout_address, read_order
from ingot.client.pjrt.native import Native
from ingot.client.pjrt.native_code.buffers import DELETED_TEXT
from ingot.client.pjrt.native_code.transfer import element_bytes
from ingot.client.pjrt.objects import Memory
from ingot.client.pjrt.python_slots.slots import Slots, slot
from ingot.client.pjrt.python_slots.transfer import StoredArray, array_bytes, copy_strided
from ingot.client.pjrt.records import BUFFER, EVENT, STORAGE
from ingot.native.layout import Field, Record
from ingot.semantics.call_layouts import Order
from ingot.support import records

_MANAGER = Record("IngotPjrtTransferManager", Field("device", "ptr"), Field("count", "i64"))
_SPEC = record("PJRT_ShapeSpec")
_ABANDONED = "The transfer manager was destroyed before all data of this buffer came."
_NO_STREAM = (
    "There is no such stream: streams come from the receive callbacks of an execution, and no "
    "program for a CPU has a recv from the host (docs/pjrt.md)."
)
_READY = record("PJRT_Buffer_CopyRawToHostFuture_Callback").structure


@records.mutable
class _Target:
    """A buffer that is being filled; `buffer` is 0 once the host has it, `event` once it is set."""

    storage: int
    size: int
    event: int
    buffer: int
    order: Order


class TransferManager(Handle):
    """Buffers whose data comes later."""

    def __init__(self, native: Native, errors: ErrorFactory, memory: Memory) -> None:
        """Start with none."""
        super().__init__(_MANAGER)
        self.native, self.errors, self.memory = native, errors, memory
        self.targets: list[_Target] = []
        self.set(device=memory.device.address)

    def add(self, dims: list[int], kind: int, order: Order) -> None:
        """Make a buffer whose data comes later."""
        native, size = self.native, array_bytes(dims, kind)
        storage = native.new_storage(size, self.memory)
        event = native.new_late_event(storage)
        native.call("retain", event)
        native.call("retain", storage)
        buffer = native.new_buffer(storage, kind, dims, size, self.memory)
        BUFFER.write(buffer, "layout", layout_address(order))
        self.targets.append(_Target(storage, size, event, buffer, order))

    def target(self, index: int) -> _Target:
        """Return a buffer's state.

        Raises:
            PjrtError: there is no such buffer.
        """
        if not 0 <= index < len(self.targets):
            raise PjrtError(
                INVALID_ARGUMENT,
                f"the transfer manager has {len(self.targets)} buffers, no {index}",
            )
        return self.targets[index]

    def pending(self, index: int) -> _Target:
        """Return the state of a buffer that still expects data; PjrtError if it does not."""
        found = self.target(index)
        if not found.event:
            raise PjrtError(INVALID_ARGUMENT, f"all data of buffer {index} has come already")
        return found

    def finish(self, target: _Target, problem: PjrtError | None = None) -> None:
        """Set the event of a buffer whose data is complete, or will not come."""
        event, target.event = target.event, 0
        error = 0 if problem is None else self.errors.make(problem)
        self.native.call("event_set", event, error)
        self.native.call("event_release", event)

    def end(self) -> None:
        """Drop all buffers and events."""
        for target in self.targets:
            if target.event:
                self.finish(target, PjrtError(INVALID_ARGUMENT, _ABANDONED))
            if target.buffer:
                self.native.call("buffer_destroy", target.buffer)
            self.native.call("storage_release", target.storage)
        self.forget()


class AsyncSlots(Slots):
    """The slots, over the linked machine code."""

    def __init__(self, native: Native, errors: ErrorFactory) -> None:
        """Hold the native functions and the factory of errors."""
        self.native = native
        self.errors = errors
        self._futures: dict[int, _Future] = {}
        self._numbers = itertools.count(1)
        kind: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        self._callback = kind(self._future_ready)

    @slot("PJRT_Client_CreateBuffersForAsyncHostToDevice")
    def create(self, args: Any) -> None:
        """Make buffers, and the manager that fills them.

        Raises:
            PjrtError: the elements have no size (INVALID_ARGUMENT); the layout has tiles or does
                not order the dimensions (UNIMPLEMENTED); memory is exhausted (RESOURCE_EXHAUSTED).
                No buffer is left then.
        """
        manager = TransferManager(self.native, self.errors, lookup(args.memory, Memory))
        try:
            layouts = read_words(args.device_layouts, args.num_device_layouts)
            for index in range(args.num_shape_specs):
                spec = _SPEC.structure.from_address(args.shape_specs + index * _SPEC.size)
                order = read_order(layouts[index] if layouts else 0, spec.num_dims)
                manager.add(read_words(spec.dims, spec.num_dims), spec.element_type, order)
        except BaseException:
            manager.end()
            raise
        args.transfer_manager = manager.address

    def _manager(self, args: Any) -> TransferManager:
        return lookup(args.transfer_manager, TransferManager)

    @slot("PJRT_AsyncHostToDeviceTransferManager_Destroy")
    def destroy(self, args: Any) -> None:
        """Destroy a manager, and the buffers that were not retrieved."""
        self._manager(args).end()

    @slot("PJRT_AsyncHostToDeviceTransferManager_TransferData")
    def transfer(self, args: Any) -> None:
        """Copy a part of a buffer's data.

        Raises:
            PjrtError: there is no such buffer, its data has come already, or the bytes lie outside
                of it (INVALID_ARGUMENT); a copy to a GPU failed (INTERNAL).
        """
        manager = self._manager(args)
        target = manager.pending(args.buffer_index)
        first, size = args.offset, args.transfer_size
        if first < 0 or size < 0 or first + size > target.size:
            raise PjrtError(
                INVALID_ARGUMENT,
                f"bytes {first} to {first + size} are not in a buffer of {target.size} bytes",
            )
        self.native.write(target.storage, first, args.data, size)
        args.done_with_h2d_transfer = self.native.done_event()
        if args.is_last_transfer:
            manager.finish(target)

    @slot("PJRT_AsyncHostToDeviceTransferManager_TransferLiteral")
    def transfer_literal(self, args: Any) -> None:
        """Copy all of a buffer's data.

        Raises:
            PjrtError: there is no such buffer, its data has come already, or the literal has
                another size (INVALID_ARGUMENT); its layout has tiles (UNIMPLEMENTED).
        """
        manager = self._manager(args)
        target = manager.pending(args.buffer_index)
        dims, kind = read_words(args.shape_dims, args.shape_num_dims), args.shape_element_type
        if array_bytes(dims, kind) != target.size:
            raise PjrtError(
                INVALID_ARGUMENT,
                f"the literal {dims} does not fill a buffer of {target.size} bytes",
            )
        item = element_bytes(TYPE_NAMES[kind])
        stored = StoredArray(target.storage, dims, target.order, item)
        copy_strided(self.native, stored, args.data, host_strides(args.shape_layout, dims, item))
        args.done_with_h2d_transfer = self.native.done_event()
        manager.finish(target)

    @slot("PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer")
    def retrieve(self, args: Any) -> None:
        """Return a buffer, once.

        Raises:
            PjrtError: there is no such buffer, or it was retrieved already (INVALID_ARGUMENT).
        """
        target = self._manager(args).target(args.buffer_index)
        if not target.buffer:
            raise PjrtError(INVALID_ARGUMENT, f"buffer {args.buffer_index} was retrieved already")
        args.buffer_out, target.buffer = target.buffer, 0

    @slot("PJRT_AsyncHostToDeviceTransferManager_SetBufferError")
    def set_error(self, args: Any) -> None:
        """Let a buffer fail: its data will not come.

        Raises:
            PjrtError: there is no such buffer, or its data has come already (INVALID_ARGUMENT).
        """
        manager = self._manager(args)
        text = read_text(args.error_message, args.error_message_size)
        manager.finish(manager.pending(args.buffer_index), PjrtError(args.error_code, text))

    @slot("PJRT_AsyncHostToDeviceTransferManager_Device")
    def device(self, args: Any) -> None:
        """Return the device of the buffers."""
        args.device_out = self._manager(args).structure.device

    @slot("PJRT_AsyncHostToDeviceTransferManager_BufferCount")
    def count(self, args: Any) -> None:
        """Return the number of buffers."""
        args.buffer_count = len(self._manager(args).targets)

    @slot("PJRT_AsyncHostToDeviceTransferManager_BufferSize")
    def size(self, args: Any) -> None:
        """Return the bytes of a buffer.

        Raises:
            PjrtError: there is no such buffer (INVALID_ARGUMENT).
        """
        args.buffer_size = self._manager(args).target(args.buffer_index).size

    @slot("PJRT_AsyncHostToDeviceTransferManager_AddMetadata")
    def metadata(self, args: Any) -> None:
        """Ignore metadata, which is for traces of other transports."""

    @slot("PJRT_Device_CreateAsyncTrackingEvent")
    def tracking_event(self, args: Any) -> None:
        """Return a dummy event: the host's waiting times are not used."""
        args.event = Handle(EVENT).address

    @slot("PJRT_AsyncTrackingEvent_Destroy")
    def tracking_event_destroy(self, args: Any) -> None:
        """Do nothing: the event is a dummy."""
        lookup(args.event, Handle).forget()

    @slot(
        "PJRT_CopyToDeviceStream_Destroy",
        "PJRT_CopyToDeviceStream_AddChunk",
        "PJRT_CopyToDeviceStream_TotalBytes",
        "PJRT_CopyToDeviceStream_GranuleSize",
        "PJRT_CopyToDeviceStream_CurrentBytes",
    )
    def stream(self, args: Any) -> None:
        """Refuse: a stream feeds a `recv` from the host, which no program has.

        Raises:
            PjrtError: always (INVALID_ARGUMENT).
        """
        raise PjrtError(INVALID_ARGUMENT, _NO_STREAM)

    @slot("PJRT_Buffer_CopyRawToHostFuture")
    def copy_later(self, args: Any) -> None:
        """Copy a part of a buffer once the host has named the target.

        Raises:
            PjrtError: the buffer is deleted or donated (INVALID_ARGUMENT).
        """
        storage = self.native.call("use", args.buffer)
        if not storage:
            raise PjrtError(INVALID_ARGUMENT, DELETED_TEXT)
        try:
            event = self.native.new_event()
            self.native.call("retain", storage)
        finally:
            self.native.call("unuse", args.buffer)
        self.native.call("retain", event)
        number = next(self._numbers)
        self._futures[number] = _Future(storage, event, args.offset, args.transfer_size)
        args.event, args.callback_data = event, number
        args.future_ready_callback = ctypes.cast(self._callback, ctypes.c_void_p).value

    def _future_ready(self, address: int) -> None:
        """Handle the host's call that names the target, or names none."""
        given = _READY.from_address(address)
        future = self._futures.pop(given.callback_data)
        error = 0
        try:
            if given.error_code:
                text = read_text(given.error_message, given.error_message_size)
                raise PjrtError(given.error_code, text)
            before = STORAGE.read(future.storage, "event")
            if before:
                self.native.call("event_wait", before)
                error = EVENT.read(before, "error")
            if error:
                self.native.call("retain", error)
            else:
                self.native.read(future.storage, future.offset, given.dst, future.size)
        except BaseException as problem:
            error = self.errors.make(problem)
        self.native.call("event_set", future.event, error)
        self.native.call("event_release", future.event)
        self.native.call("storage_release", future.storage)


@records.record
class _Future:
    """A copy to the host that waits for its target."""

    storage: int
    event: int
    offset: int
    size: int
