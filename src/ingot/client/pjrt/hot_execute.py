# SPDX-License-Identifier: Apache-2.0
"""The slots of executables as machine code: handles, and Execute on one device.

Invariant: a program that may call back into the host waits for its arguments in the call and runs
there, so that the device's queue is free for what its callbacks run.

Source: pjrt_c_api.h (PJRT_LoadedExecutable_Execute).
"""

from __future__ import annotations

from ingot.client.pjrt.emit import (
    Slot,
    add_reference,
    is_null,
    return_static,
    unless_null,
)
from ingot.client.pjrt.hot_buffers import (
    BufferFunctions,
    pending_event,
)
from ingot.client.pjrt.hot_events import EventFunctions
from ingot.client.pjrt.hot_launch import Launch
from ingot.client.pjrt.hot_worker import WorkerFunctions
from ingot.client.pjrt.records import (
    EXECUTABLE,
    INLINE,
    MANY,
    PATIENT,
)
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I8, I32, PTR
from ingot.llvm.values import FunctionRef, Value


def emit_execute(
    module: ModuleBuilder,
    events: EventFunctions,
    buffers: BufferFunctions,
    worker: WorkerFunctions,
    python: dict[str, FunctionRef],
) -> None:
    """Add `ingot_pjrt_launch` and the slot Execute to `module`."""
    _emit_handles(module, worker)
    launch = Launch(module, events, buffers, worker).emit()
    slot = Slot(module, "PJRT_LoadedExecutable_Execute")
    f, executable = slot.f, slot.get("executable")
    mode = EXECUTABLE.load(f, executable, "mode")
    several = f.icmp("eq", mode, f.const(I32, MANY))
    in_python = python["execute_many"]
    f.if_(several, lambda: slot.done(f.call(in_python, [slot.arguments])), likely=False)
    expected = EXECUTABLE.load(f, executable, "num_arguments")
    wrong = f.icmp("ne", slot.get("num_args"), expected)
    error = Value(PTR, "@count_error")
    f.if_(wrong, lambda: slot.done(return_static(f, error)), likely=False)
    chosen, default = slot.get("execute_device"), EXECUTABLE.load(f, executable, "default_device")
    device = f.select(is_null(f, chosen), default, chosen)
    arguments = f.load(PTR, slot.get("argument_lists"))
    results = f.load(PTR, slot.get("output_lists"))
    patient = f.icmp("eq", mode, f.const(I32, PATIENT))

    def wait() -> list[Value]:
        _emit_wait_for_arguments(f, events, buffers, arguments, expected)
        return [f.const(I32, INLINE)]

    (mode,) = f.if_(patient, wait, otherwise=[mode])
    program = EXECUTABLE.load(f, executable, "program")
    rest = [slot.get("options"), device, mode, slot.get("device_complete_events")]
    slot.done(f.call(launch, [executable, program, arguments, results, *rest]))


def _emit_handles(module: ModuleBuilder, worker: WorkerFunctions) -> None:
    """PJRT_Executable and PJRT_LoadedExecutable are one record with counted references."""
    for name in ("PJRT_Executable_Destroy", "PJRT_LoadedExecutable_Destroy"):
        slot = Slot(module, name)
        slot.f.call(worker.release_executable, [slot.get("executable")])
        slot.done()

    slot = Slot(module, "PJRT_LoadedExecutable_GetExecutable")
    executable = slot.get("loaded_executable")
    add_reference(slot.f, executable)
    slot.set("executable", executable)
    slot.done()

    slot = Slot(module, "PJRT_LoadedExecutable_Delete")
    EXECUTABLE.store(slot.f, slot.get("executable"), "deleted", slot.f.const(I8, 1))
    slot.done()


def _emit_wait_for_arguments(
    f: FunctionBuilder,
    events: EventFunctions,
    buffers: BufferFunctions,
    arguments: Value,
    count: Value,
) -> None:
    def one(index: Value, _: list[Value]) -> None:
        buffer = f.load(PTR, f.gep(arguments, index, PTR))
        storage = f.call(buffers.use, [buffer])

        def wait() -> None:
            event = pending_event(f, storage)
            f.call(buffers.unuse, [buffer])
            unless_null(f, event, lambda: f.call(events.wait, [event]))
            f.call(events.release, [event])

        unless_null(f, storage, wait)

    f.loop(0, count, 1, [], one)
