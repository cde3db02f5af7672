# SPDX-License-Identifier: Apache-2.0
"""Storages and buffers of the PJRT C API, as native functions.

A buffer is a type, dims, a device and memory, and a storage. A storage is memory with the event
after which its data is computed. It may be held by its buffer, by host views of that, and by jobs
that read or write it. Invariant: a storage is freed with its last reference, whatever happens to
the buffer before (deleted, donated, destroyed). Any thread may delete a buffer while another one
uses it: a reader of `storage` is counted in `users` from before the read until it is done, and the
last one frees a storage that was deleted meanwhile.

Source: pjrt_c_api.h (PJRT_Buffer_*).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingot.client.pjrt.c_api import FAILED_PRECONDITION, INVALID_ARGUMENT
from ingot.client.pjrt.native_code.emit import (
    add_reference,
    drop_reference,
    slot,
    static_error,
    static_reference,
)
from ingot.client.pjrt.native_code.events import READY, is_done, release_event, static_event
from ingot.client.pjrt.native_code.gpu import GPU_FAILED, allocate_on, free_on, wait_for_gpu
from ingot.client.pjrt.native_code.inline import note_wait
from ingot.client.pjrt.records import (
    GONE,
    STAYS,
    STORAGE_HEADER_BYTES,
    Buffer,
    Device,
    Error,
    Event,
    Gpu,
    Memory,
    Storage,
)
from ingot.native.functions import exported, inlined, native
from ingot.native.operations import address_of, memset, unlikely
from ingot.native.pointers import Array, Pointer, sizeof
from ingot.native.types import i32, i64
from ingot.runtime.entries import ingot_allocate, ingot_free

DELETED_TEXT = "Buffer has been deleted or donated."
UNFULFILLED_TEXT = "The buffer is an alias that has no memory so far."

DELETED = static_error("deleted_error", INVALID_ARGUMENT, DELETED_TEXT)
DELETED_EVENT = static_event("deleted_event", DELETED)
UNFULFILLED = static_error("unfulfilled_error", FAILED_PRECONDITION, UNFULFILLED_TEXT)


@native
def new_storage_on(gpu: Gpu, size: i64) -> Storage | None:
    """Return a storage over new memory of a GPU, or null."""
    data = allocate_on(gpu, size)
    if data is None:
        return None
    storage = new_view(data, size, None, None)
    if storage is None:
        free_on(gpu, data)
        return None
    storage.gpu = gpu
    return storage


@exported("ingot_pjrt_storage")
def new_storage(gpu: Gpu | None, size: i64) -> Storage | None:
    """Return a storage over new memory of a GPU or the host, or null."""
    if gpu is not None:
        return new_storage_on(gpu, size)
    storage = Storage.at(ingot_allocate(STORAGE_HEADER_BYTES + size))
    if storage is None:
        return None
    memset(storage, 0, sizeof(Storage))
    storage.references.store(1, "monotonic")
    storage.data = storage + STORAGE_HEADER_BYTES
    storage.bytes = size
    return storage


@exported("ingot_pjrt_view")
def new_view(
    data: Pointer,
    size: i64,
    release: Callable[[Pointer, Pointer | None], None] | None,
    context: Pointer | None,
) -> Storage | None:
    """Return a storage over other memory, which `release(data, context)` gives back; or null."""
    storage = Storage.at(ingot_allocate(sizeof(Storage)))
    if storage is None:
        return None
    memset(storage, 0, sizeof(Storage))
    storage.references.store(1, "monotonic")
    storage.data = data
    storage.bytes = size
    storage.release = release
    storage.context = context
    return storage


@exported("ingot_pjrt_release_source")
def release_source(data: Pointer, storage: Storage | None) -> None:
    """End a view over the memory of another storage."""
    release_storage(storage)


@exported("ingot_pjrt_storage_release")
def release_storage(storage: Storage | None) -> None:
    """Drop a reference."""
    if storage is None or not drop_reference(storage):
        return
    release_event(storage.event)
    release = storage.release
    if release is not None:
        release(storage.data, storage.context)
    gpu = storage.gpu
    if gpu is not None and release is None:
        free_on(gpu, storage.data)
    ingot_free(storage)


@inlined
def is_ready(storage: Storage) -> bool:
    """Return whether the data of a storage was computed without an error."""
    event = storage.event
    return event is None or (is_done(event) and event.error is None)


@inlined
def pending_event(storage: Storage) -> Event | None:
    """Return a reference to the event of a storage, or null if its data is computed.

    An event that failed stays pending in this sense: readers must see its error.
    """
    event = storage.event
    if event is None or is_ready(storage):
        return None
    add_reference(event)
    return event


@exported("ingot_pjrt_buffer")
def new_buffer(
    storage: Storage,
    type: i32,
    dims: Array[i64],
    rank: i64,
    bytes: i64,
    device: Device,
    memory: Memory,
) -> Buffer | None:
    """Return a buffer, which takes over the reference to the storage; null without memory."""
    buffer = Buffer.at(ingot_allocate(sizeof(Buffer) + 8 * rank))
    if buffer is None:
        return None
    memset(buffer, 0, sizeof(Buffer))
    buffer.dims = Array[i64].at(buffer + sizeof(Buffer))
    for index in range(rank):
        buffer.dims[index] = dims[index]
    buffer.storage.store(storage, "monotonic")
    buffer.type = type
    buffer.rank = rank
    buffer.bytes = bytes
    buffer.device = device
    buffer.memory = memory
    return buffer


@exported("ingot_pjrt_use")
def use(buffer: Buffer) -> Storage | None:
    """Return the storage, which is valid until `unuse`; null if it was deleted."""
    if unlikely(buffer.users.fetch_add(1) >= GONE):
        unuse(buffer)
        return None
    return buffer.storage.load("monotonic")


@exported("ingot_pjrt_unuse")
def unuse(buffer: Buffer) -> None:
    """End a use; the last user of a deleted storage frees it."""
    if buffer.users.fetch_sub(1) == GONE + 1:
        release_storage(buffer.storage.exchange(None))


@exported("ingot_pjrt_discard")
def discard(buffer: Buffer) -> None:
    """Delete the storage, now or after its last use."""
    buffer.deleted = 1
    if buffer.users.fetch_or(GONE) & (GONE - 1) == 0:
        release_storage(buffer.storage.exchange(None))


@exported("ingot_pjrt_buffer_destroy")
def destroy(buffer: Buffer) -> None:
    """Free a buffer that is not in use."""
    discard(buffer)
    release_storage(buffer.held)
    release_storage(buffer.unaligned)
    ingot_free(buffer)


@slot("PJRT_Buffer_Delete")
def delete_slot(args: Any) -> Error | None:
    if args.buffer is not None:
        discard(args.buffer)
    return None


@slot("PJRT_Buffer_Destroy")
def destroy_slot(args: Any) -> Error | None:
    if args.buffer is not None:
        destroy(args.buffer)
    return None


@native
def use_data(buffer: Buffer, data: Array[Pointer | None]) -> Error | None:
    """Store the address of a buffer's data into `data[0]`; return an error if it has none.

    Host views of unaligned memory get that of the storage that they hold.
    """
    storage = use(buffer)
    if storage is None:
        return static_reference(DELETED)
    data[0] = storage.data
    held = buffer.held
    if held is not None and buffer.uses.load("monotonic") != 0:
        data[0] = held.data
    unuse(buffer)
    if unlikely(buffer.bytes != 0 and data[0] is None):
        return static_reference(UNFULFILLED)
    return None


@slot("PJRT_Buffer_OpaqueDeviceMemoryDataPointer")
def opaque_pointer_slot(args: Any) -> Error | None:
    data = Array[Pointer | None].on_stack(1)
    error = use_data(args.buffer, data)
    if error is None:
        args.device_memory_ptr = data[0]
    return error


@slot("PJRT_Buffer_UnsafePointer")
def unsafe_pointer_slot(args: Any) -> Error | None:
    data = Array[Pointer | None].on_stack(1)
    buffer: Buffer = args.buffer
    buffer.uses.store(STAYS)  # The host may keep the address.
    error = use_data(buffer, data)
    if error is None:
        args.buffer_pointer = address_of(data[0])
    return error


@slot("PJRT_Buffer_ReadyEvent")
def ready_event_slot(args: Any) -> Error | None:
    buffer: Buffer = args.buffer
    note_wait(buffer.device)
    storage = use(buffer)
    event = DELETED_EVENT
    if storage is not None:
        event = READY if storage.event is None else storage.event
        gpu = storage.gpu
        if gpu is not None and is_ready(storage) and not wait_for_gpu(gpu):
            event = GPU_FAILED
    add_reference(event)
    if storage is not None:
        unuse(buffer)
    args.event = event
    return None


@slot("PJRT_Buffer_IncreaseExternalReferenceCount")
def increase_references_slot(args: Any) -> Error | None:
    """Count a host view, which holds the storage that the buffer had at its first view."""
    buffer: Buffer = args.buffer
    storage = use(buffer)
    if storage is None:
        return static_reference(DELETED)
    if buffer.views.fetch_add(1) == 0:
        buffer.held = storage
        add_reference(storage)
        storage.external.fetch_add(1)
    unuse(buffer)
    return None


@slot("PJRT_Buffer_DecreaseExternalReferenceCount")
def decrease_references_slot(args: Any) -> Error | None:
    buffer: Buffer = args.buffer
    if buffer.views.fetch_sub(1) == 1:
        held = buffer.held
        assert held is not None
        buffer.held = None
        held.external.fetch_sub(1)
        release_storage(held)
    return None
