# SPDX-License-Identifier: Apache-2.0
"""Transfers between host and devices, and between devices, as native functions.

On a CPU everything is in one memory, so a transfer is a copy, or none: an immutable host buffer is
used in place, and results can be read in place. Arrays that are not dense and row-major are
transferred by Python. Invariant: a job holds the source and the target of its copy.

Source: pjrt_c_api.h (PJRT_HostBufferSemantics). JAX's CPU client uses host memory in place only if
it begins with a cache line; here other memory is copied once it is used again (`alignment`).
"""

from __future__ import annotations

from typing import Any

from ingot.client.pjrt.c_api import TYPE_NAMES
from ingot.client.pjrt.native_code.buffers import (
    DELETED,
    destroy,
    is_ready,
    new_buffer,
    new_storage,
    new_view,
    release_storage,
    unuse,
    use,
)
from ingot.client.pjrt.native_code.emit import (
    NO_MEMORY,
    add_reference,
    arguments,
    slot,
    static_reference,
)
from ingot.client.pjrt.native_code.events import READY, new_event, release_event, set_event
from ingot.client.pjrt.native_code.gpu import GPU_FAILED, move
from ingot.client.pjrt.native_code.inline import note_wait
from ingot.client.pjrt.native_code.jobs import hold_input, new_job, promise_output
from ingot.client.pjrt.native_code.queue import submit
from ingot.client.pjrt.records import Buffer, Device, Error, Event, Gpu, Memory, Storage
from ingot.hlo.dtype import DTYPES
from ingot.llvm.machine_model import LINE_BYTES
from ingot.native.functions import exported, external, inlined, native
from ingot.native.operations import address_of, likely, unlikely
from ingot.native.pointers import Array, Pointer
from ingot.native.statics import static_array
from ingot.native.types import i32, i64

_ZERO_COPY_SEMANTICS = 2
_ZERO_COPY_FROM_BYTES = 8 << 10
"""Bytes below which a copy costs less than the event that gives the host its memory back."""

_LEAST_ALIGNMENT = 16
"""Alignment that kernels rely on, which `malloc` gives."""

FromHost = arguments("PJRT_Client_BufferFromHostBuffer")
MemoryLayout = arguments("PJRT_Buffer_MemoryLayout")


def element_bytes(name: str) -> int:
    """Return the bytes of one element in a buffer; 0 for tokens and unknown types."""
    row = DTYPES.get(name)
    storage = None if row is None else row.storage
    return 0 if storage is None or name == "token" else storage.itemsize


NUM_TYPES = len(TYPE_NAMES)
ELEMENT_BYTES: Array[i64] = static_array(
    i64, "element_bytes", [element_bytes(name) for name in TYPE_NAMES.values()]
)


@external("from_host")
def from_host(args: Pointer) -> Error | None:
    """Make a buffer of an array that is not dense and row-major, in Python."""
    ...


@external("to_host")
def to_host(args: Pointer) -> Error | None:
    """Read a buffer into another layout, in Python."""
    ...


@native
def dense_bytes(args: Pointer, item: i64) -> i64:
    """Return the bytes of the array; -1 if Python must transfer it (strides, layout, types)."""
    given = FromHost.at(args)
    size = item
    is_dense = True
    for index in range(given.num_dims):
        axis = given.num_dims - 1 - index
        extent: i64 = given.dims[axis]
        if given.num_byte_strides != 0 and extent != 1 and given.byte_strides[axis] != size:
            is_dense = False
        size = size * extent
    if item == 0 or given.device_layout is not None:
        return -1
    return size if is_dense or size == 0 else -1


@exported("ingot_pjrt_release_host")
def release_host(data: Pointer, event: Pointer | None) -> None:
    """Give the host its memory back at the end of a view."""
    assert event is not None
    set_event(Event.at(event), None)
    release_event(Event.at(event))


@native
def view_host(args: Pointer, size: i64) -> Storage | None:
    """Return a storage over the host's memory, with an event for its end for the host; or null."""
    given = FromHost.at(args)
    event = new_event()
    if event is None:
        return None
    storage = new_view(given.data, size, release_host, event)
    if storage is None:
        release_event(event)
        return None
    add_reference(event)
    given.done_with_host_buffer = event
    return storage


@native
def copy_host(args: Pointer, gpu: Gpu | None, size: i64) -> Storage | None:
    """Return a storage with a copy of the host's data, which may change afterwards; or null."""
    given = FromHost.at(args)
    storage = new_storage(gpu, size)
    if storage is None:
        return None
    if not move(storage.data, gpu, given.data, None, size):
        release_storage(storage)
        return None
    add_reference(READY)
    given.done_with_host_buffer = READY
    return storage


@slot("PJRT_Client_BufferFromHostBuffer")
def from_host_slot(args: Any) -> Error | None:
    kind: i32 = args.type
    item = ELEMENT_BYTES[i64(kind)] if 0 <= kind < NUM_TYPES else i64(0)
    size = dense_bytes(args, item)
    if unlikely(size < 0):
        return from_host(args)
    is_constant = args.host_buffer_semantics >= _ZERO_COPY_SEMANTICS
    address = address_of(args.data)
    is_aligned = address & (_LEAST_ALIGNMENT - 1) == 0
    # Either may be null.
    memory: Memory = args.device.default_memory if args.memory is None else args.memory
    device: Device = args.device if args.memory is None else memory.devices[0]
    is_seen = is_constant and is_aligned and device.gpu is None
    if is_seen and size >= _ZERO_COPY_FROM_BYTES:
        storage = view_host(args, size)
    else:
        storage = copy_host(args, device.gpu, size)
    if storage is None:
        return static_reference(NO_MEMORY)
    buffer = new_buffer(storage, kind, args.dims, args.num_dims, size, device, memory)
    args.buffer = buffer
    if buffer is None:
        release_storage(storage)
        release_event(args.done_with_host_buffer)
        return static_reference(NO_MEMORY)
    if storage.release is not None and address & (LINE_BYTES - 1) != 0:
        buffer.uses.store(1)
    return None


@exported("ingot_pjrt_copy")
def copy(
    device: Device,
    source: Storage,
    offset: i64,
    bytes: i64,
    target: Pointer,
    target_storage: Storage | None,
) -> Event | None:
    """Copy a part of a storage, now or as a job; return an event, or null without memory.

    `target_storage` is null if the target is the host's own memory.
    """
    if likely(is_ready(source)):
        to: Gpu | None = None
        if target_storage is not None:
            to = target_storage.gpu
        if not move(target, to, source.data + offset, source.gpu, bytes):
            add_reference(GPU_FAILED)
            return GPU_FAILED
        add_reference(READY)
        return READY
    job = new_job(1, i64(target_storage is not None))
    if job is None:
        return None
    event = job.event
    job.target = target
    job.offset = offset
    job.bytes = bytes
    hold_input(job, 0, source)
    if target_storage is not None:
        promise_output(job, 0, target_storage)
    add_reference(event)
    submit(device, job)
    return event


@inlined
def copy_to_host(
    buffer: Buffer, offset: i64, bytes: i64, target: Pointer, done: Array[Event | None]
) -> Error | None:
    """Copy a part of a buffer to the host; `done[0]` gets its event."""
    storage = use(buffer)
    if storage is None:
        return static_reference(DELETED)
    note_wait(buffer.device)
    event = copy(buffer.device, storage, offset, bytes, target, None)
    unuse(buffer)
    done[0] = event
    if event is None:
        return static_reference(NO_MEMORY)
    return None


@native
def is_row_major(layout: Pointer, rank: i64) -> bool:
    """Return whether a layout is row-major: tiled without tiles, dimensions in descending order."""
    given = MemoryLayout.at(layout)
    if given.layout_type != 0 or given.num_tiles != 0:
        return False
    difference: i64 = 0
    for index in range(rank):
        difference |= given.minor_to_major[index] ^ (rank - 1 - index)
    return difference == 0


@slot("PJRT_Buffer_ToHostBuffer")
def to_host_slot(args: Any) -> Error | None:
    buffer: Buffer = args.src
    if args.dst is None:
        args.dst_size = buffer.bytes
        return None
    is_plain = args.host_layout is None or (
        buffer.layout is None and is_row_major(args.host_layout, buffer.rank)
    )
    if not is_plain:
        return to_host(args)
    done = Array[Event | None].on_stack(1)
    error = copy_to_host(buffer, 0, buffer.bytes, args.dst, done)
    if error is None:
        args.event = done[0]
    return error


@slot("PJRT_Buffer_CopyRawToHost")
def raw_to_host_slot(args: Any) -> Error | None:
    done = Array[Event | None].on_stack(1)
    error = copy_to_host(args.buffer, args.offset, args.transfer_size, args.dst, done)
    if error is None:
        args.event = done[0]
    return error


@native
def copy_buffer(
    buffer: Buffer, device: Device, memory: Memory, made: Array[Buffer]
) -> Error | None:
    """Copy a buffer to another device or another memory; `made[0]` gets the new buffer."""
    storage = new_storage(device.gpu, buffer.bytes)
    if storage is None:
        return static_reference(NO_MEMORY)
    new = new_buffer(storage, buffer.type, buffer.dims, buffer.rank, buffer.bytes, device, memory)
    if new is None:
        release_storage(storage)
        return static_reference(NO_MEMORY)
    new.layout = buffer.layout
    source = use(buffer)
    if source is None:
        destroy(new)
        return static_reference(DELETED)
    event = copy(device, source, 0, buffer.bytes, storage.data, storage)
    unuse(buffer)
    if event is None:
        destroy(new)
        return static_reference(NO_MEMORY)
    release_event(event)
    made[0] = new
    return None


@slot("PJRT_Buffer_CopyToDevice")
def copy_to_device_slot(args: Any) -> Error | None:
    made = Array[Buffer].on_stack(1)
    error = copy_buffer(args.buffer, args.dst_device, args.dst_device.default_memory, made)
    if error is None:
        args.dst_buffer = made[0]
    return error


@slot("PJRT_Buffer_CopyToMemory")
def copy_to_memory_slot(args: Any) -> Error | None:
    made = Array[Buffer].on_stack(1)
    error = copy_buffer(args.buffer, args.dst_memory.devices[0], args.dst_memory, made)
    if error is None:
        args.dst_buffer = made[0]
    return error
