# SPDX-License-Identifier: Apache-2.0
"""Transfers between host and devices, and between devices, as machine code.

Everything lies in one memory, so a transfer is a copy, or none: a host buffer that may not change
is used in place, and results are read where they lie. What is not dense row-major goes to Python.
Invariant: source and target of a copy that has to wait are held by its job.

Source: pjrt_c_api.h (PJRT_HostBufferSemantics); XLA's CPU client uses host memory in place if it
is aligned to 16 bytes.
"""

from __future__ import annotations

from ingot.client.pjrt.c_api import TYPE_NAMES, record
from ingot.client.pjrt.emit import (
    Slot,
    add_reference,
    is_null,
    refuse_when,
    return_static,
    runtime_function,
)
from ingot.client.pjrt.hot_buffers import BufferFunctions, is_ready, pending_event, use_or_error
from ingot.client.pjrt.hot_events import EventFunctions
from ingot.client.pjrt.hot_waits import emit_note_wait
from ingot.client.pjrt.hot_worker import WorkerFunctions
from ingot.client.pjrt.records import BUFFER, DEVICE, JOB, MEMORY, STORAGE
from ingot.hlo.dtype import DTYPES
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I32, I64, PTR, VOID
from ingot.llvm.values import FunctionRef, Value, zero
from ingot.runtime.sync import discard

_ZERO_COPY_SEMANTICS = 2
_ZERO_COPY_ALIGNMENT = 16
_ZERO_COPY_FROM_BYTES = 8 << 10
"""Below, a copy costs less than an event that tells when the host may have its memory back."""

_LAYOUT = record("PJRT_Buffer_MemoryLayout")


def element_bytes(name: str) -> int:
    """Return the bytes of one element as they lie in a buffer; 0 for tokens and unknown types."""
    row = DTYPES.get(name)
    storage = None if row is None else row.storage
    return 0 if storage is None or name == "token" else storage.itemsize


def emit_transfer(
    module: ModuleBuilder,
    events: EventFunctions,
    buffers: BufferFunctions,
    worker: WorkerFunctions,
    python: dict[str, FunctionRef],
) -> None:
    """Add the slots of transfers to `module`."""
    sizes = ", ".join(f"i64 {element_bytes(name)}" for name in TYPE_NAMES.values())
    table = f"internal constant [{len(TYPE_NAMES)} x i64] [{sizes}], align 64"
    _FromHost(module, events, buffers, module.global_text("element_bytes", table)).emit(
        python["from_host"]
    )
    copy = _emit_copy(module, events, worker)
    _emit_to_host(module, events, buffers, copy, python["to_host"])
    _emit_raw(module, events, buffers, copy)
    for name in ("PJRT_Buffer_CopyToDevice", "PJRT_Buffer_CopyToMemory"):
        _emit_copy_buffer(module, name, events, buffers, copy)


class _FromHost:
    """The slot BufferFromHostBuffer under construction."""

    def __init__(
        self, module: ModuleBuilder, events: EventFunctions, buffers: BufferFunctions, sizes: Value
    ) -> None:
        self.events, self.buffers, self.sizes = events, buffers, sizes
        self.release = self._emit_release(module)
        self.slot = Slot(module, "PJRT_Client_BufferFromHostBuffer")
        self.f = self.slot.f

    def _emit_release(self, module: ModuleBuilder) -> FunctionRef:
        """`void (ptr data, ptr event)`: the host may have its memory back."""
        f = module.function("ingot_pjrt_release_host", VOID, [("data", PTR), ("event", PTR)])
        discard(f.call(self.events.set, [f.params[1], zero(PTR)]))
        f.call(self.events.release, [f.params[1]])
        f.ret()
        return f.reference

    def emit(self, in_python: FunctionRef) -> None:
        """Write the whole function."""
        f, slot = self.f, self.slot
        kind, dims, rank = slot.get("type"), slot.get("dims"), slot.get("num_dims")
        known = f.icmp("ult", kind, f.const(I32, len(TYPE_NAMES)))
        row = f.select(known, kind, f.const(I32, 0))
        item = f.load(I64, f.gep(self.sizes, f.zext(row, I64), I64))
        size = self.dense_bytes(dims, rank, item)
        special = f.icmp("slt", size, f.const(I64, 0))
        f.if_(special, lambda: slot.done(f.call(in_python, [slot.arguments])), likely=False)
        storage = self.make_storage(size)
        memory, device = self.place()
        values = [storage, kind, dims, rank, size, device, memory]
        buffer = f.call(self.buffers.new, values)
        slot.set("buffer", buffer)
        f.if_(is_null(f, buffer), lambda: self.give_up(storage), likely=False)
        slot.done()

    def give_up(self, storage: Value) -> None:
        """Fail for want of memory, after the storage and its event were made."""
        f, slot = self.f, self.slot
        f.call(self.buffers.release_storage, [storage])
        f.call(self.events.release, [slot.get("done_with_host_buffer")])
        slot.done(return_static(f, self.events.no_memory))

    def place(self) -> tuple[Value, Value]:
        """Return memory and device: either may be left out."""
        f, slot = self.f, self.slot
        memory, device = slot.get("memory"), slot.get("device")

        def default() -> list[Value]:
            return [DEVICE.load(f, device, "default_memory"), device]

        def given() -> list[Value]:
            return [memory, f.load(PTR, MEMORY.load(f, memory, "devices"))]

        chosen = f.if_(is_null(f, memory), default, given)
        return chosen[0], chosen[1]

    def dense_bytes(self, dims: Value, rank: Value, item: Value) -> Value:
        """Return the bytes of the array, or -1 if it needs care (strides, layout, odd types)."""
        f, slot = self.f, self.slot
        strides = slot.get("byte_strides")
        has_strides = f.icmp("ne", slot.get("num_byte_strides"), f.const(I64, 0))

        def one(index: Value, values: list[Value]) -> list[Value]:
            size, wrong = values
            axis = f.sub(f.sub(rank, f.const(I64, 1)), index)
            extent = f.load(I64, f.gep(dims, axis, I64))

            def compare() -> list[Value]:
                stride = f.load(I64, f.gep(strides, axis, I64))
                differs = f.icmp("ne", stride, size)
                counts = f.icmp("ne", extent, f.const(I64, 1))
                return [f.or_(wrong, f.zext(f.and_(differs, counts), I64))]

            (bad,) = f.if_(has_strides, compare, otherwise=[wrong])
            return [f.mul(size, extent), bad]

        size, wrong = f.loop(0, rank, 1, [item, f.const(I64, 0)], one)
        nothing = f.icmp("eq", size, f.const(I64, 0))
        strange = f.icmp("ne", slot.get("device_layout"), zero(PTR))
        strange = f.or_(strange, f.icmp("eq", item, f.const(I64, 0)))
        sparse = f.and_(f.icmp("ne", wrong, f.const(I64, 0)), f.xor(nothing, f.as_condition(True)))
        return f.select(f.or_(sparse, strange), f.const(I64, -1), size)

    def make_storage(self, size: Value) -> Value:
        """Return a storage with the host's data, and tell when the host's memory is free."""
        f, slot = self.f, self.slot
        data = slot.get("data")
        allowed = f.icmp(
            "sge", slot.get("host_buffer_semantics"), f.const(I32, _ZERO_COPY_SEMANTICS)
        )
        rest = f.and_(f.ptrtoint(data), f.const(I64, _ZERO_COPY_ALIGNMENT - 1))
        aligned = f.icmp("eq", rest, f.const(I64, 0))
        large = f.icmp("sge", size, f.const(I64, _ZERO_COPY_FROM_BYTES))

        def in_place() -> list[Value]:
            event = f.call(self.events.new, [])
            slot.check_memory(event, self.events.no_memory)
            slot.set("done_with_host_buffer", event)
            release = Value(PTR, self.release.text)
            storage = f.call(self.buffers.new_view, [data, size, release, event])
            missing = is_null(f, storage)
            f.if_(missing, lambda: self.give_up(storage), likely=False)
            add_reference(f, event)
            return [storage]

        def copy() -> list[Value]:
            storage = f.call(self.buffers.new_storage, [size])
            slot.check_memory(storage, self.events.no_memory)
            f.memcpy(STORAGE.load(f, storage, "data"), data, size)
            add_reference(f, self.events.ready)
            slot.set("done_with_host_buffer", self.events.ready)
            return [storage]

        return f.if_(f.and_(f.and_(allowed, aligned), large), in_place, copy)[0]


def _emit_copy(
    module: ModuleBuilder, events: EventFunctions, worker: WorkerFunctions
) -> FunctionRef:
    """`ptr (device, source, offset, bytes, target, target_storage)`: copy, now or as a job.

    Returns an event, or null if there is no memory for one; `target_storage` is null where the
    target is the host's own memory.
    """
    params = [
        *(("device", PTR), ("source", PTR), ("offset", I64), ("bytes", I64)),
        *(("target", PTR), ("target_storage", PTR)),
    ]
    f = module.function("ingot_pjrt_copy", PTR, params)
    device, source, offset, size, target, target_storage = f.params

    def now() -> None:
        f.memcpy(target, f.gep(STORAGE.load(f, source, "data"), offset), size)
        add_reference(f, events.ready)
        f.ret(events.ready)

    f.if_(is_ready(f, source), now, likely=True)
    total = f.const(I64, JOB.size + 3 * 8)
    job = f.call(runtime_function(module, "ingot_allocate"), [total])
    refuse_when(f, is_null(f, job), zero(PTR))
    f.memset(job, 0, JOB.size)
    inputs = f.gep(job, JOB.size)
    input_events, outputs = f.gep(inputs, 1, PTR), f.gep(inputs, 2, PTR)
    event = f.call(events.new, [])

    def no_event() -> None:
        f.call(runtime_function(module, "ingot_free"), [job])
        f.ret(zero(PTR))

    f.if_(is_null(f, event), no_event, likely=False)
    one, none = f.const(I64, 1), f.const(I64, 0)
    fields = {
        "event": event,
        "num_inputs": one,
        "inputs": inputs,
        "input_events": input_events,
        "num_outputs": f.select(is_null(f, target_storage), none, one),
        "outputs": outputs,
        "target": target,
        "offset": offset,
        "bytes": size,
    }
    for name, value in fields.items():
        JOB.store(f, job, name, value)
    f.store(source, inputs)
    add_reference(f, source)
    f.store(pending_event(f, source), input_events)
    f.store(target_storage, outputs)

    def promise() -> None:
        add_reference(f, target_storage)
        add_reference(f, event)
        STORAGE.store(f, target_storage, "event", event)

    f.if_(f.icmp("ne", target_storage, zero(PTR)), promise)
    add_reference(f, event)
    f.call(worker.submit, [device, job])
    f.ret(event)
    return f.reference


def _emit_to_host(
    module: ModuleBuilder,
    events: EventFunctions,
    buffers: BufferFunctions,
    copy: FunctionRef,
    in_python: FunctionRef,
) -> None:
    slot = Slot(module, "PJRT_Buffer_ToHostBuffer")
    f, buffer, target = slot.f, slot.get("src"), slot.get("dst")
    size = BUFFER.load(f, buffer, "bytes")

    def tell_size() -> None:
        slot.set("dst_size", size)
        slot.done()

    f.if_(is_null(f, target), tell_size)
    layout = slot.get("host_layout")
    special = f.icmp("ne", layout, zero(PTR))

    def look() -> None:
        plain = _is_row_major(f, layout, BUFFER.load(f, buffer, "rank"))
        other = f.xor(plain, f.as_condition(True))
        f.if_(other, lambda: slot.done(f.call(in_python, [slot.arguments])))

    f.if_(special, look)
    _copy_to_host(slot, events, buffers, copy, buffer, [f.const(I64, 0), size, target])


def _copy_to_host(
    slot: Slot,
    events: EventFunctions,
    buffers: BufferFunctions,
    copy: FunctionRef,
    buffer: Value,
    part: list[Value],
) -> None:
    """End a slot with a copy of a part (offset, bytes, target) of a buffer to the host."""
    f = slot.f
    storage = use_or_error(slot, buffers, buffer)
    device = BUFFER.load(f, buffer, "device")
    emit_note_wait(f, device)
    event = f.call(copy, [device, storage, *part, zero(PTR)])
    f.call(buffers.unuse, [buffer])
    slot.set("event", event)
    slot.check_memory(event, events.no_memory)
    slot.done()


def _is_row_major(f: FunctionBuilder, layout: Value, rank: Value) -> Value:
    """Emit whether a layout is tiled without tiles and counts its dimensions down."""
    tiled = f.icmp("eq", _LAYOUT.load(f, layout, "layout_type"), f.const(I32, 0))

    def compare() -> list[Value]:
        order = _LAYOUT.load(f, layout, "minor_to_major")
        wrong = _LAYOUT.load(f, layout, "num_tiles")

        def one(index: Value, found: list[Value]) -> list[Value]:
            wanted = f.sub(f.sub(rank, f.const(I64, 1)), index)
            given = f.load(I64, f.gep(order, index, I64))
            return [f.or_(found[0], f.xor(wanted, given))]

        (difference,) = f.loop(0, rank, 1, [wrong], one)
        return [f.icmp("eq", difference, f.const(I64, 0))]

    return f.if_(tiled, compare, otherwise=[f.as_condition(False)])[0]


def _emit_raw(
    module: ModuleBuilder, events: EventFunctions, buffers: BufferFunctions, copy: FunctionRef
) -> None:
    slot = Slot(module, "PJRT_Buffer_CopyRawToHost")
    part = [slot.get("offset"), slot.get("transfer_size"), slot.get("dst")]
    _copy_to_host(slot, events, buffers, copy, slot.get("buffer"), part)


def _emit_copy_buffer(
    module: ModuleBuilder,
    name: str,
    events: EventFunctions,
    buffers: BufferFunctions,
    copy: FunctionRef,
) -> None:
    """Make a new buffer on another device or in another memory."""
    slot = Slot(module, name)
    f, buffer = slot.f, slot.get("buffer")
    if name == "PJRT_Buffer_CopyToDevice":
        device = slot.get("dst_device")
        memory = DEVICE.load(f, device, "default_memory")
    else:
        memory = slot.get("dst_memory")
        device = f.load(PTR, MEMORY.load(f, memory, "devices"))
    size = BUFFER.load(f, buffer, "bytes")
    names = ("type", "dims", "rank", "bytes")
    shape = [BUFFER.load(f, buffer, field) for field in names]
    storage = f.call(buffers.new_storage, [size])
    slot.check_memory(storage, events.no_memory)
    made = f.call(buffers.new, [storage, *shape, device, memory])

    def no_buffer() -> None:
        f.call(buffers.release_storage, [storage])
        slot.done(return_static(f, events.no_memory))

    f.if_(is_null(f, made), no_buffer, likely=False)
    source = f.call(buffers.use, [buffer])

    def gone() -> None:
        f.call(buffers.destroy, [made])
        slot.done(return_static(f, buffers.deleted))

    f.if_(is_null(f, source), gone, likely=False)
    target = STORAGE.load(f, storage, "data")
    event = f.call(copy, [device, source, f.const(I64, 0), size, target, storage])
    f.call(buffers.unuse, [buffer])

    def no_event() -> None:
        f.call(buffers.destroy, [made])
        slot.done(return_static(f, events.no_memory))

    f.if_(is_null(f, event), no_event, likely=False)
    f.call(events.release, [event])
    slot.set("dst_buffer", made)
    slot.done()
