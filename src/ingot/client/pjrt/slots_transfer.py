# SPDX-License-Identifier: Apache-2.0
"""Python slots of buffers: those made in unusual ways, and layouts that are not row-major.

Buffers are always dense and row-major; only arrays of the host have other layouts.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from ingot.client.pjrt.c_api import INVALID_ARGUMENT, TYPE_NAMES, UNIMPLEMENTED, record
from ingot.client.pjrt.errors import ErrorFactory, PjrtError
from ingot.client.pjrt.handles import lookup, read_text, read_words
from ingot.client.pjrt.native import Native, memory_of
from ingot.client.pjrt.native_transfer import element_bytes
from ingot.client.pjrt.objects import Memory
from ingot.client.pjrt.records import BUFFER, STORAGE
from ingot.client.pjrt.slots import Slots, slot
from ingot.runtime.cuda.arrays import ALIGNMENT

_TILED = 0
_RELEASE: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_LAYOUT = record("PJRT_Buffer_MemoryLayout")


def byte_view(address: int, dims: list[int], strides: list[int], item: int) -> Any:
    """Return host memory as an array whose last axis is the bytes of an element."""
    low = sum(min(0, stride * (size - 1)) for size, stride in zip(dims, strides, strict=True))
    high = sum(max(0, stride * (size - 1)) for size, stride in zip(dims, strides, strict=True))
    memory: Any = (ctypes.c_uint8 * (high - low + item)).from_address(address + low)
    return np.ndarray((*dims, item), np.uint8, buffer=memory, offset=-low, strides=(*strides, 1))


def dense_strides(dims: list[int], order: list[int], item: int) -> list[int]:
    """Return byte strides of a dense array.

    Args:
        dims: its dimensions.
        order: its axes, the one with the smallest stride first.
        item: bytes of an element.
    """
    strides = [0] * len(dims)
    for axis in order:
        strides[axis] = item
        item *= dims[axis]
    return strides


def array_bytes(dims: list[int], kind: int) -> int:
    """Return the bytes of an array; PjrtError if its elements have none."""
    item = element_bytes(TYPE_NAMES.get(kind, ""))
    if not item:
        raise PjrtError(
            INVALID_ARGUMENT, f"a buffer cannot have elements of PJRT_Buffer_Type {kind}"
        )
    return math.prod(dims) * item


def require_row_major(address: int, rank: int) -> None:
    """Raise PjrtError if a device layout is another one."""
    layout = _LAYOUT.structure.from_address(address)
    order = read_words(layout.minor_to_major, rank) if layout.layout_type == _TILED else []
    plain = layout.layout_type != _TILED or order == list(range(rank))[::-1]
    if not plain or (layout.layout_type == _TILED and layout.num_tiles):
        raise PjrtError(
            UNIMPLEMENTED,
            f"a buffer cannot have the layout {order}: buffers of Ingot are row-major",
        )


def host_strides(address: int, dims: list[int], item: int) -> list[int]:
    """Return the byte strides of a host's layout; null is row-major."""
    if not address:
        return dense_strides(dims, list(range(len(dims)))[::-1], item)
    layout = _LAYOUT.structure.from_address(address)
    words = read_words(layout.minor_to_major, layout.minor_to_major_size)
    if layout.layout_type != _TILED:
        return words
    if layout.num_tiles:
        raise PjrtError(UNIMPLEMENTED, "tiled layouts are not for a CPU's memory")
    return dense_strides(dims, words, item)


def copy_in(
    native: Native, storage: int, data: int, dims: list[int], kind: int, layout: int
) -> None:
    """Fill a storage with the host's array at `data`."""
    item = element_bytes(TYPE_NAMES[kind])
    copy_strided(native, storage, data, dims, host_strides(layout, dims, item), item)


def copy_strided(
    native: Native, storage: int, data: int, dims: list[int], strides: list[int], item: int
) -> None:
    """Fill a storage with the host's array at `data`, which has these byte strides."""
    if not math.prod(dims):
        return
    source = byte_view(data, dims, strides, item)
    if STORAGE.read(storage, "gpu"):
        dense = np.ascontiguousarray(source)
        native.write(storage, 0, dense.ctypes.data, dense.nbytes)
        return
    row_major = host_strides(0, dims, item)
    byte_view(STORAGE.read(storage, "data"), dims, row_major, item)[...] = source


class TransferSlots(Slots):
    """The slots, over the linked machine code."""

    def __init__(self, native: Native, errors: ErrorFactory) -> None:
        """Hold the native functions and the factory of errors."""
        self.native = native
        self.errors = errors

    def from_host(self, args: Any) -> None:
        """PJRT_Client_BufferFromHostBuffer: strides that are not dense, device layouts."""
        dims = read_words(args.dims, args.num_dims)
        size = array_bytes(dims, args.type)
        if args.device_layout:
            require_row_major(args.device_layout, len(dims))
        item = element_bytes(TYPE_NAMES[args.type])
        strides = read_words(args.byte_strides, args.num_byte_strides)
        memory = memory_of(args.device, args.memory)
        storage = self.native.new_storage(size, memory)
        strides = strides or host_strides(0, dims, item)
        copy_strided(self.native, storage, args.data, dims, strides, item)
        args.buffer = self.native.new_buffer(storage, args.type, dims, size, memory)
        args.done_with_host_buffer = self.native.done_event()

    def to_host(self, args: Any) -> None:
        """PJRT_Buffer_ToHostBuffer into a layout that is not row-major."""
        dims = read_words(BUFFER.read(args.src, "dims"), BUFFER.read(args.src, "rank"))
        item = element_bytes(TYPE_NAMES[BUFFER.read(args.src, "type")])
        strides = host_strides(args.host_layout, dims, item)
        with self.native.used_storage(args.src) as storage:
            if math.prod(dims):
                byte_view(args.dst, dims, strides, item)[...] = self._seen(storage, dims, item)
            args.event = self.native.ready_event(storage)

    def _seen(self, storage: int, dims: list[int], item: int) -> Any:
        """Return the bytes of a storage that the host can read: its own, or a copy."""
        if not STORAGE.read(storage, "gpu"):
            row_major = host_strides(0, dims, item)
            return byte_view(STORAGE.read(storage, "data"), dims, row_major, item)
        copied = np.empty((*dims, item), np.uint8)
        self.native.read(storage, 0, copied.ctypes.data, copied.nbytes)
        return copied

    @slot("PJRT_Client_CreateUninitializedBuffer")
    def uninitialized(self, args: Any) -> None:
        """Make a buffer of uninitialized memory."""
        dims = read_words(args.shape_dims, args.shape_num_dims)
        size = array_bytes(dims, args.shape_element_type)
        memory = memory_of(args.device, args.memory)
        storage = self.native.new_storage(size, memory)
        kind = args.shape_element_type
        args.buffer = self.native.new_buffer(storage, kind, dims, size, memory)

    @slot("PJRT_Client_CreateErrorBuffer")
    def error_buffer(self, args: Any) -> None:
        """Make a buffer that fails: readers get the error."""
        dims = read_words(args.shape_dims, args.shape_num_dims)
        size = array_bytes(dims, args.shape_element_type)
        text = read_text(args.error_message, args.error_message_size)
        memory = lookup(args.memory, Memory)
        storage = self.native.new_storage(size, memory)
        error = self.errors.make(PjrtError(args.error_code, text))
        STORAGE.write(storage, "event", self.native.failed_event(error))
        kind = args.shape_element_type
        args.buffer = self.native.new_buffer(storage, kind, dims, size, memory)

    @slot("PJRT_Client_CreateViewOfDeviceBuffer")
    def view(self, args: Any) -> None:
        """Make a buffer over memory of the host; an array in another layout is copied."""
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
        if host_strides(args.layout, dims, item) == host_strides(0, dims, item):
            storage = self.native.new_view(args.device_buffer_ptr, size, *owner)
            STORAGE.write(storage, "gpu", gpu)
        elif gpu:
            raise PjrtError(UNIMPLEMENTED, "arrays of a GPU that come from elsewhere are row-major")
        else:
            storage = self.native.new_storage(size, memory)
            given = (args.device_buffer_ptr, dims, args.element_type, args.layout)
            copy_in(self.native, storage, *given)
            _RELEASE(release)(args.device_buffer_ptr, args.on_delete_callback_arg)
        args.buffer = self.native.new_buffer(storage, args.element_type, dims, size, memory)

    @slot("PJRT_Buffer_GetMemoryLayout")
    def memory_layout(self, args: Any) -> None:
        """Return the layout of a buffer: row-major."""
        rank = BUFFER.read(args.buffer, "rank")
        args.layout_struct_size = _LAYOUT.size
        args.layout_type = _TILED
        args.minor_to_major, args.minor_to_major_size = self._row_major(rank), rank
        args.tile_dims = args.tile_dim_sizes = 0
        args.num_tiles = 0

    _orders: dict[int, Any] = {}  # noqa: RUF012 (grows with the ranks that are asked for)

    def _row_major(self, rank: int) -> int:
        """Return the address of rank-1, ..., 1, 0, which lives as long as the process."""
        order = self._orders.setdefault(rank, (ctypes.c_int64 * max(1, rank))(*range(rank)[::-1]))
        return ctypes.addressof(order)
