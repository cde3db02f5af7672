# SPDX-License-Identifier: Apache-2.0
"""Python slots of buffers: those made in unusual ways, and layouts that are not row-major.

Buffers are dense; arrays of the host may have strides.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from ingot.client.pjrt.c_api import INVALID_ARGUMENT, TYPE_NAMES, UNIMPLEMENTED
from ingot.client.pjrt.errors import ErrorFactory, PjrtError
from ingot.client.pjrt.handles import lookup, read_text, read_words
from ingot.client.pjrt.layouts import (
    MEMORY_LAYOUT,
    dense_order,
    dense_strides,
    host_strides,
    layout_address,
    order_of_buffer,
    read_order,
)
from ingot.client.pjrt.native import Native, memory_of
from ingot.client.pjrt.native_code.transfer import element_bytes
from ingot.client.pjrt.objects import Memory
from ingot.client.pjrt.python_slots.slots import Slots, slot
from ingot.client.pjrt.records import BUFFER, STORAGE
from ingot.runtime.arguments.c_arrays import int64_array
from ingot.runtime.cuda.arrays import ALIGNMENT
from ingot.semantics.call_layouts import Order, row_major
from ingot.support.records import record

_TILED = 0
_RELEASE: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def byte_view(address: int, dims: list[int], strides: list[int], item: int) -> Any:
    """Return host memory as an array whose last axis is the bytes of an element."""
    low = sum(min(0, stride * (size - 1)) for size, stride in zip(dims, strides, strict=True))
    high = sum(max(0, stride * (size - 1)) for size, stride in zip(dims, strides, strict=True))
    memory: Any = (ctypes.c_uint8 * (high - low + item)).from_address(address + low)
    return np.ndarray((*dims, item), np.uint8, buffer=memory, offset=-low, strides=(*strides, 1))


def array_bytes(dims: list[int], kind: int) -> int:
    """Return the bytes of an array; PjrtError if its elements have none."""
    item = element_bytes(TYPE_NAMES.get(kind, ""))
    if not item:
        raise PjrtError(
            INVALID_ARGUMENT, f"a buffer cannot have elements of PJRT_Buffer_Type {kind}"
        )
    return math.prod(dims) * item


def copy_strided(native: Native, buffer: StoredArray, data: int, strides: list[int]) -> None:
    """Fill a storage with the host's array at `data`, which has these byte strides."""
    dims, item = buffer.dims, buffer.item
    if not math.prod(dims):
        return
    source = byte_view(data, dims, strides, item)
    if STORAGE.read(buffer.storage, "gpu"):
        axes = [*reversed(buffer.order), len(dims)]
        dense = np.ascontiguousarray(source.transpose(axes))
        native.write(buffer.storage, 0, dense.ctypes.data, dense.nbytes)
        return
    buffer.view(STORAGE.read(buffer.storage, "data"))[...] = source


@record
class StoredArray:
    """An array in a storage: its dimensions, its layout, and the bytes of an element."""

    storage: int
    dims: list[int]
    order: Order
    item: int

    def view(self, address: int) -> Any:
        """Return memory that is stored like it as an array (`byte_view`)."""
        strides = dense_strides(self.dims, self.order, self.item)
        return byte_view(address, self.dims, strides, self.item)


class TransferSlots(Slots):
    """The slots, over the linked machine code."""

    def __init__(self, native: Native, errors: ErrorFactory) -> None:
        """Hold the native functions and the factory of errors."""
        self.native = native
        self.errors = errors

    def new_buffer(
        self, storage: int, kind: int, dims: list[int], order: Order, memory: Memory
    ) -> int:
        """Return a new buffer in a layout; it takes over the reference to `storage`."""
        size = array_bytes(dims, kind)
        buffer = self.native.new_buffer(storage, kind, dims, size, memory)
        BUFFER.write(buffer, "layout", layout_address(order))
        return buffer

    def from_host(self, args: Any) -> None:
        """PJRT_Client_BufferFromHostBuffer: strides that are not dense, device layouts.

        Raises:
            PjrtError: the elements have no size (INVALID_ARGUMENT); the layout has tiles or does
                not order the dimensions (UNIMPLEMENTED); memory is exhausted (RESOURCE_EXHAUSTED).
        """
        dims = read_words(args.dims, args.num_dims)
        size = array_bytes(dims, args.type)
        order = read_order(args.device_layout, len(dims))
        item = element_bytes(TYPE_NAMES[args.type])
        strides = read_words(args.byte_strides, args.num_byte_strides)
        memory = memory_of(args.device, args.memory)
        storage = self.native.new_storage(size, memory)
        strides = strides or host_strides(0, dims, item)
        copy_strided(self.native, StoredArray(storage, dims, order, item), args.data, strides)
        args.buffer = self.new_buffer(storage, args.type, dims, order, memory)
        args.done_with_host_buffer = self.native.done_event()

    def to_host(self, args: Any) -> None:
        """PJRT_Buffer_ToHostBuffer where the layout of the buffer or of the host is its own.

        Raises:
            PjrtError: the buffer is deleted (INVALID_ARGUMENT); the host wants a layout with tiles
                (UNIMPLEMENTED).
        """
        dims = read_words(BUFFER.read(args.src, "dims"), BUFFER.read(args.src, "rank"))
        item = element_bytes(TYPE_NAMES[BUFFER.read(args.src, "type")])
        strides = host_strides(args.host_layout, dims, item)
        with self.native.used_storage(args.src) as storage:
            if math.prod(dims):
                stored = StoredArray(storage, dims, order_of_buffer(args.src), item)
                byte_view(args.dst, dims, strides, item)[...] = self._seen(stored)
            args.event = self.native.ready_event(storage)

    def _seen(self, stored: StoredArray) -> Any:
        """Return the bytes of a storage that the host can read: its own, or a copy."""
        if not STORAGE.read(stored.storage, "gpu"):
            return stored.view(STORAGE.read(stored.storage, "data"))
        copied = np.empty(math.prod(stored.dims) * stored.item, np.uint8)
        self.native.read(stored.storage, 0, copied.ctypes.data, copied.nbytes)
        return stored.view(copied.ctypes.data).copy()

    @slot("PJRT_Client_CreateUninitializedBuffer")
    def uninitialized(self, args: Any) -> None:
        """Make a buffer of uninitialized memory.

        Raises:
            PjrtError: the elements have no size (INVALID_ARGUMENT); the layout has tiles or does
                not order the dimensions (UNIMPLEMENTED); memory is exhausted (RESOURCE_EXHAUSTED).
        """
        dims = read_words(args.shape_dims, args.shape_num_dims)
        size = array_bytes(dims, args.shape_element_type)
        memory = memory_of(args.device, args.memory)
        order = read_order(args.shape_layout, len(dims))
        storage = self.native.new_storage(size, memory)
        args.buffer = self.new_buffer(storage, args.shape_element_type, dims, order, memory)

    @slot("PJRT_Client_CreateErrorBuffer")
    def error_buffer(self, args: Any) -> None:
        """Make a buffer that fails: readers get the error.

        Raises:
            PjrtError: the elements have no size (INVALID_ARGUMENT); the layout has tiles or does
                not order the dimensions (UNIMPLEMENTED); memory is exhausted (RESOURCE_EXHAUSTED).
        """
        dims = read_words(args.shape_dims, args.shape_num_dims)
        size = array_bytes(dims, args.shape_element_type)
        text = read_text(args.error_message, args.error_message_size)
        memory = lookup(args.memory, Memory)
        order = read_order(args.shape_layout, len(dims))
        storage = self.native.new_storage(size, memory)
        error = self.errors.make(PjrtError(args.error_code, text))
        STORAGE.write(storage, "event", self.native.failed_event(error))
        args.buffer = self.new_buffer(storage, args.shape_element_type, dims, order, memory)

    @slot("PJRT_Client_CreateViewOfDeviceBuffer")
    def view(self, args: Any) -> None:
        """Make a buffer over memory of the host; an array that is not dense is copied.

        Raises:
            PjrtError: the elements have no size (INVALID_ARGUMENT); a layout has tiles, or an array
                of a GPU is not dense and aligned (UNIMPLEMENTED).
        """
        dims = read_words(args.dims, args.num_dims)
        size = array_bytes(dims, args.element_type)
        release = args.on_delete_callback or self.native.address("ingot_pjrt_nothing")
        owner = (release, args.on_delete_callback_arg)
        item = element_bytes(TYPE_NAMES[args.element_type])
        has_memory = args.struct_size >= args.__class__.memory.offset + 8
        memory = memory_of(args.device, args.memory if has_memory else 0)
        gpu = memory.device.structure.gpu
        if gpu and args.device_buffer_ptr % ALIGNMENT:
            raise PjrtError(
                UNIMPLEMENTED, f"arrays of a GPU begin at multiples of {ALIGNMENT} bytes"
            )
        strides = host_strides(args.layout, dims, item)
        order = dense_order(dims, strides, item)
        if order is not None:
            storage = self.native.new_view(args.device_buffer_ptr, size, *owner)
            STORAGE.write(storage, "gpu", gpu)
        elif gpu:
            raise PjrtError(UNIMPLEMENTED, "arrays of a GPU that come from elsewhere are dense")
        else:
            order = row_major(len(dims))
            storage = self.native.new_storage(size, memory)
            stored = StoredArray(storage, dims, order, item)
            copy_strided(self.native, stored, args.device_buffer_ptr, strides)
            _RELEASE(release)(args.device_buffer_ptr, args.on_delete_callback_arg)
        args.buffer = self.new_buffer(storage, args.element_type, dims, order, memory)

    @slot("PJRT_Buffer_GetMemoryLayout")
    def memory_layout(self, args: Any) -> None:
        """Return the layout of a buffer."""
        order = order_of_buffer(args.buffer)
        args.layout_struct_size = MEMORY_LAYOUT.size
        args.layout_type = _TILED
        args.minor_to_major, args.minor_to_major_size = self._words(order), len(order)
        args.tile_dims = args.tile_dim_sizes = 0
        args.num_tiles = 0

    _orders: dict[Order, Any] = {}  # noqa: RUF012 (grows with the layouts that are asked for)

    def _words(self, order: Order) -> int:
        """Return the address of the numbers of an order, which lives as long as the process."""
        words = self._orders.setdefault(order, int64_array(order))
        return ctypes.addressof(words)
