# SPDX-License-Identifier: Apache-2.0
"""Storages and buffers of the PJRT C API as machine code.

A buffer is what a host holds: a type, dims, a place, and a storage. A storage is memory with the
event after which its data is there. Several may hold one storage: its buffer, host views of it, and
jobs that read or write it. Invariant: a storage goes with its last reference, whatever happens to
the buffer before (deleted, donated, destroyed). Any thread may delete a buffer while another one
uses it: who reads `storage` is counted in `users` from before until it has what it needs, and the
last one gives back what was deleted meanwhile.

Source: pjrt_c_api.h (PJRT_Buffer_*).
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.client.pjrt.emit import (
    Slot,
    add_reference,
    drop_reference,
    is_null,
    not_null,
    refuse_when,
    return_static,
    runtime_function,
    static_error,
    unless_null,
    when,
)
from ingot.client.pjrt.hot_events import EventFunctions, is_done, static_event
from ingot.client.pjrt.hot_waits import emit_note_wait
from ingot.client.pjrt.records import BUFFER, EVENT, GONE, STORAGE, STORAGE_HEADER_BYTES
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I1, I8, I32, I64, PTR, VOID
from ingot.llvm.values import FunctionRef, Value, zero

INVALID_ARGUMENT = 3
FAILED_PRECONDITION = 9
DELETED_TEXT = "Buffer has been deleted or donated."
UNFULFILLED_TEXT = "The buffer is an alias that has no memory so far."


@dataclass(frozen=True, slots=True)
class BufferFunctions:
    """What the other files call.

    Attributes:
        new: makes a buffer.
        destroy: frees one.
        use: begins to use the storage of a buffer: returns it, or null.
        unuse: ends that.
        discard: deletes the storage of a buffer once nobody uses it.
        deleted: the error for a buffer without storage.
    """

    new_storage: FunctionRef
    new_view: FunctionRef
    release_storage: FunctionRef
    new: FunctionRef
    destroy: FunctionRef
    use: FunctionRef
    unuse: FunctionRef
    discard: FunctionRef
    deleted: Value


def emit_buffers(module: ModuleBuilder, events: EventFunctions) -> BufferFunctions:
    """Add storages and buffers, and their slots, to `module`."""
    release = _emit_release_storage(module, events)
    _emit_release_source(module, release)
    unuse, discard = _emit_unuse(module, release), _emit_discard(module, release)
    functions = BufferFunctions(
        _emit_new_storage(module),
        _emit_new_view(module),
        release,
        _emit_new(module),
        _emit_destroy(module, release, discard),
        _emit_use(module, unuse),
        unuse,
        discard,
        static_error(module, "deleted_error", INVALID_ARGUMENT, DELETED_TEXT),
    )
    _emit_end(module, functions)
    _emit_pointers(module, functions)
    _emit_ready_event(module, events, functions)
    _emit_references(module, functions)
    return functions


def pending_event(f: FunctionBuilder, storage: Value) -> Value:
    """Return a reference to the event of a storage whose data is not (or never) there, or null.

    An event that failed stays pending in this sense: readers must see its error.
    """
    event = STORAGE.load(f, storage, "event")

    def look() -> list[Value]:
        def finished() -> list[Value]:
            return [is_null(f, EVENT.load(f, event, "error"))]

        (good,) = f.if_(is_done(f, event), finished, otherwise=[f.as_condition(False)])

        def keep() -> list[Value]:
            add_reference(f, event)
            return [event]

        return f.if_(good, lambda: [zero(PTR)], keep)

    return f.if_(not_null(f, event), look, otherwise=[zero(PTR)])[0]


def _emit_new_storage(module: ModuleBuilder) -> FunctionRef:
    """`ptr (i64 bytes)`: a storage over new memory, or null."""
    f = module.function("ingot_pjrt_storage", PTR, [("bytes", I64)])
    (size,) = f.params
    total = f.add(size, f.const(I64, STORAGE_HEADER_BYTES))
    storage = f.call(runtime_function(module, "ingot_allocate"), [total])
    refuse_when(f, is_null(f, storage), zero(PTR))
    f.memset(storage, 0, STORAGE.size)
    STORAGE.store(f, storage, "references", f.const(I64, 1))
    STORAGE.store(f, storage, "data", f.gep(storage, STORAGE_HEADER_BYTES))
    STORAGE.store(f, storage, "bytes", size)
    f.ret(storage)
    return f.reference


def _emit_new_view(module: ModuleBuilder) -> FunctionRef:
    """`ptr (ptr data, i64 bytes, ptr release, ptr context)`: a storage over others' memory."""
    names = [("data", PTR), ("bytes", I64), ("release", PTR), ("context", PTR)]
    f = module.function("ingot_pjrt_view", PTR, names)
    size = f.const(I64, STORAGE.size)
    storage = f.call(runtime_function(module, "ingot_allocate"), [size])
    refuse_when(f, is_null(f, storage), zero(PTR))
    f.memset(storage, 0, STORAGE.size)
    STORAGE.store(f, storage, "references", f.const(I64, 1))
    for (name, _), value in zip(names, f.params, strict=True):
        STORAGE.store(f, storage, name, value)
    f.ret(storage)
    return f.reference


def _emit_release_source(module: ModuleBuilder, release: FunctionRef) -> None:
    """`void (ptr data, ptr storage)`: ends a view over the memory of another storage."""
    f = module.function("ingot_pjrt_release_source", VOID, [("data", PTR), ("storage", PTR)])
    f.call(release, [f.params[1]])
    f.ret()


def _emit_release_storage(module: ModuleBuilder, events: EventFunctions) -> FunctionRef:
    """`void (ptr storage)`: drop a reference; null is allowed."""
    f = module.function("ingot_pjrt_storage_release", VOID, [("storage", PTR)])
    (storage,) = f.params
    f.if_(is_null(f, storage), f.ret)

    def free() -> None:
        f.call(events.release, [STORAGE.load(f, storage, "event")])
        release = STORAGE.load(f, storage, "release")
        values = [STORAGE.load(f, storage, name) for name in ("data", "context")]
        unless_null(f, release, lambda: f.call_indirect(release, VOID, [PTR, PTR], values))
        f.call(runtime_function(module, "ingot_free"), [storage])

    when(f, drop_reference(f, storage), free)
    f.ret()
    return f.reference


def _emit_new(module: ModuleBuilder) -> FunctionRef:
    """`ptr (ptr storage, i32 type, ptr dims, i64 rank, i64 bytes, ptr device, ptr memory)`.

    The new buffer takes over the reference to the storage. Null if there is no memory.
    """
    params = [
        *(("storage", PTR), ("type", I32), ("dims", PTR), ("rank", I64)),
        *(("bytes", I64), ("device", PTR), ("memory", PTR)),
    ]
    f = module.function("ingot_pjrt_buffer", PTR, params)
    given = dict(zip((name for name, _ in params), f.params, strict=True))
    dims_bytes = f.shl(given["rank"], f.const(I64, 3))
    size = f.add(dims_bytes, f.const(I64, BUFFER.size))
    buffer = f.call(runtime_function(module, "ingot_allocate"), [size])
    refuse_when(f, is_null(f, buffer), zero(PTR))
    f.memset(buffer, 0, BUFFER.size)
    dims = f.gep(buffer, BUFFER.size)

    def copy(index: Value, _: list[Value]) -> None:
        f.store(f.load(I64, f.gep(given["dims"], index, I64)), f.gep(dims, index, I64))

    f.loop(0, given["rank"], 1, [], copy)
    for name, value in {**given, "dims": dims}.items():
        BUFFER.store(f, buffer, name, value)
    f.ret(buffer)
    return f.reference


def _emit_use(module: ModuleBuilder, unuse: FunctionRef) -> FunctionRef:
    """`ptr (ptr buffer)`: the storage, which stays until `unuse`; null if it was deleted."""
    f = module.function("ingot_pjrt_use", PTR, [("buffer", PTR)])
    (buffer,) = f.params
    before = f.atomicrmw("add", BUFFER.address(f, buffer, "users"), f.const(I64, 1))

    def gone() -> None:
        f.call(unuse, [buffer])
        f.ret(zero(PTR))

    f.if_(f.icmp("sge", before, f.const(I64, GONE)), gone, likely=False)
    f.ret(BUFFER.load(f, buffer, "storage"))
    return f.reference


def _emit_unuse(module: ModuleBuilder, release: FunctionRef) -> FunctionRef:
    """`void (ptr buffer)`: the last one to use a deleted storage gives it back."""
    f = module.function("ingot_pjrt_unuse", VOID, [("buffer", PTR)])
    (buffer,) = f.params
    before = f.atomicrmw("sub", BUFFER.address(f, buffer, "users"), f.const(I64, 1))
    last = f.icmp("eq", before, f.const(I64, GONE + 1))
    when(f, last, lambda: f.call(release, [_take_storage(f, buffer)]))
    f.ret()
    return f.reference


def _emit_discard(module: ModuleBuilder, release: FunctionRef) -> FunctionRef:
    """`void (ptr buffer)`: delete the storage, now or when nobody uses it any more."""
    f = module.function("ingot_pjrt_discard", VOID, [("buffer", PTR)])
    (buffer,) = f.params
    BUFFER.store(f, buffer, "deleted", f.const(I8, 1))
    gone = f.const(I64, GONE)
    before = f.atomicrmw("or", BUFFER.address(f, buffer, "users"), gone)
    users = f.and_(before, f.const(I64, GONE - 1))
    unused = f.icmp("eq", users, f.const(I64, 0))
    when(f, unused, lambda: f.call(release, [_take_storage(f, buffer)]))
    f.ret()
    return f.reference


def _take_storage(f: FunctionBuilder, buffer: Value) -> Value:
    """Take the storage out of a buffer; null if somebody has."""
    number = f.atomicrmw("xchg", BUFFER.address(f, buffer, "storage"), f.const(I64, 0))
    return f.inttoptr(number, PTR)


def _emit_destroy(module: ModuleBuilder, release: FunctionRef, discard: FunctionRef) -> FunctionRef:
    """`void (ptr buffer)`: free a buffer, which nobody uses."""
    f = module.function("ingot_pjrt_buffer_destroy", VOID, [("buffer", PTR)])
    (buffer,) = f.params
    f.call(discard, [buffer])
    f.call(release, [BUFFER.load(f, buffer, "held")])
    f.call(runtime_function(module, "ingot_free"), [buffer])
    f.ret()
    return f.reference


def _emit_end(module: ModuleBuilder, functions: BufferFunctions) -> None:
    """Delete gives the storage back, Destroy the buffer too."""
    for name, end in (
        ("PJRT_Buffer_Delete", functions.discard),
        ("PJRT_Buffer_Destroy", functions.destroy),
    ):
        slot = Slot(module, name)
        buffer = slot.get("buffer")
        slot.f.if_(is_null(slot.f, buffer), slot.done)
        slot.f.call(end, [buffer])
        slot.done()


def _emit_pointers(module: ModuleBuilder, functions: BufferFunctions) -> None:
    unfulfilled = static_error(module, "unfulfilled_error", FAILED_PRECONDITION, UNFULFILLED_TEXT)
    slot = Slot(module, "PJRT_Buffer_OpaqueDeviceMemoryDataPointer")
    slot.set("device_memory_ptr", _load_pointer(slot, functions, unfulfilled))
    slot.done()
    slot = Slot(module, "PJRT_Buffer_UnsafePointer")
    pointer = _load_pointer(slot, functions, unfulfilled)
    slot.set("buffer_pointer", slot.f.ptrtoint(pointer))
    slot.done()


def _load_pointer(slot: Slot, functions: BufferFunctions, unfulfilled: Value) -> Value:
    """Return the address of a buffer's data; the slot fails if it has none."""
    f, buffer = slot.f, slot.get("buffer")
    storage = use_or_error(slot, functions, buffer)
    data = STORAGE.load(f, storage, "data")
    f.call(functions.unuse, [buffer])
    some = f.icmp("ne", BUFFER.load(f, buffer, "bytes"), f.const(I64, 0))
    missing = f.and_(some, is_null(f, data))
    f.if_(missing, lambda: slot.done(return_static(f, unfulfilled)), likely=False)
    return data


def use_or_error(slot: Slot, functions: BufferFunctions, buffer: Value) -> Value:
    """Begin to use the storage of a buffer; the slot fails if it has none."""
    f = slot.f
    storage = f.call(functions.use, [buffer])
    gone = is_null(f, storage)
    f.if_(gone, lambda: slot.done(return_static(f, functions.deleted)), likely=False)
    return storage


def _emit_ready_event(
    module: ModuleBuilder, events: EventFunctions, functions: BufferFunctions
) -> None:
    deleted = static_event(module, "deleted_event", functions.deleted.text)
    slot = Slot(module, "PJRT_Buffer_ReadyEvent")
    f, buffer = slot.f, slot.get("buffer")
    emit_note_wait(f, BUFFER.load(f, buffer, "device"))
    storage = f.call(functions.use, [buffer])

    def of_storage() -> list[Value]:
        event = STORAGE.load(f, storage, "event")
        (found,) = f.if_(is_null(f, event), lambda: [events.ready], otherwise=[event])
        add_reference(f, found)
        f.call(functions.unuse, [buffer])
        return [found]

    def gone() -> list[Value]:
        add_reference(f, deleted)
        return [deleted]

    (event,) = f.if_(is_null(f, storage), gone, of_storage)
    slot.set("event", event)
    slot.done()


def _emit_references(module: ModuleBuilder, functions: BufferFunctions) -> None:
    """Host views hold the storage that the buffer had when the first of them was made."""
    slot = Slot(module, "PJRT_Buffer_IncreaseExternalReferenceCount")
    f, buffer = slot.f, slot.get("buffer")
    storage = use_or_error(slot, functions, buffer)
    views = f.atomicrmw("add", BUFFER.address(f, buffer, "views"), f.const(I64, 1))

    def hold() -> None:
        BUFFER.store(f, buffer, "held", storage)
        add_reference(f, storage)
        f.atomicrmw("add", STORAGE.address(f, storage, "external"), f.const(I64, 1))

    when(f, f.icmp("eq", views, f.const(I64, 0)), hold)
    f.call(functions.unuse, [buffer])
    slot.done()

    slot = Slot(module, "PJRT_Buffer_DecreaseExternalReferenceCount")
    f, buffer = slot.f, slot.get("buffer")
    views = f.atomicrmw("sub", BUFFER.address(f, buffer, "views"), f.const(I64, 1))

    def let_go() -> None:
        held = BUFFER.load(f, buffer, "held")
        BUFFER.store(f, buffer, "held", zero(PTR))
        f.atomicrmw("sub", STORAGE.address(f, held, "external"), f.const(I64, 1))
        f.call(functions.release_storage, [held])

    when(f, f.icmp("eq", views, f.const(I64, 1)), let_go)
    slot.done()


def is_ready(f: FunctionBuilder, storage: Value) -> Value:
    """Emit whether the data of a storage is there, without an error."""
    event = STORAGE.load(f, storage, "event")

    def look() -> list[Value]:
        def finished() -> list[Value]:
            return [is_null(f, EVENT.load(f, event, "error"))]

        return f.if_(is_done(f, event), finished, otherwise=[f.const(I1, False)])

    return f.if_(not_null(f, event), look, otherwise=[f.const(I1, True)])[0]
