# SPDX-License-Identifier: Apache-2.0
"""The slots of executables as native functions: handles, and Execute on one device.

Invariant: a program that may call back into the host waits for its arguments in the call and runs
there, so that the device's queue is free for what its callbacks run.

Source: pjrt_c_api.h (PJRT_LoadedExecutable_Execute).
"""

from __future__ import annotations

from typing import Any

from ingot.client.pjrt.c_api import INVALID_ARGUMENT
from ingot.client.pjrt.native_code.buffers import pending_event, unuse, use
from ingot.client.pjrt.native_code.emit import add_reference, slot, static_error, static_reference
from ingot.client.pjrt.native_code.events import release_event, wait_for
from ingot.client.pjrt.native_code.inline import cycles, note_return
from ingot.client.pjrt.native_code.launch import drop_buffers, launch
from ingot.client.pjrt.native_code.turns import launch_in_turns, lock_stacks
from ingot.client.pjrt.native_code.worker import drop_executable, release_events
from ingot.client.pjrt.records import (
    IN_TURNS,
    INLINE,
    MULTI_DEVICE,
    PATIENT,
    SEPARATE,
    Buffer,
    Device,
    Error,
    Event,
    Executable,
)
from ingot.native.functions import external, inlined, native
from ingot.native.operations import memcpy, unlikely
from ingot.native.pointers import Array, Pointer
from ingot.native.types import i32, i64
from ingot.runtime.threading.sync import unlock

COUNT_ERROR = static_error(
    "count_error",
    INVALID_ARGUMENT,
    "Execution supplied another number of buffers than parameters.",
)

DEVICES_ERROR = static_error(
    "devices_error", INVALID_ARGUMENT, "Execution supplied another number of devices."
)


@external("execute_on_devices")
def execute_on_devices(args: Pointer) -> Error | None:
    """Execute on several devices, in Python."""
    ...


@native
def wait_for_data(buffers: Array[Buffer], count: i64) -> None:
    """Wait until the data of buffers is computed."""
    for index in range(count):
        storage = use(buffers[index])
        if storage is not None:
            event = pending_event(storage)
            unuse(buffers[index])
            if event is not None:
                wait_for(event)
            release_event(event)


@native
def launch_separately(
    executable: Executable,
    arguments: Array[Array[Buffer]],
    results: Array[Array[Buffer | None]],
    options: Pointer | None,
    complete: Array[Event | None] | None,
) -> Error | None:
    """Launch parts that do not meet; an error frees the results of the parts before."""
    count = executable.num_devices
    events = Array[Event | None].on_stack(count)
    for index in range(count):
        error = launch(
            executable,
            executable.program,
            arguments[index],
            results[index],
            options,
            executable.devices[index],
            INLINE,
            Array[Event].at(events + 8 * index),
        )
        if error is not None:
            for earlier in range(index):
                drop_buffers(results[earlier], executable.num_outputs)
                release_event(events[earlier])
            return error
    if complete is None:
        release_events(events, count)
    else:
        memcpy(complete, events, 8 * count)
    return None


@inlined
def check_counts(executable: Executable, num_arguments: i64, num_devices: i64) -> Error | None:
    """Return an error if an execution has another number of arguments or devices."""
    if unlikely(num_arguments != executable.num_arguments):
        return static_reference(COUNT_ERROR)
    if unlikely(num_devices != executable.num_devices):
        return static_reference(DEVICES_ERROR)
    return None


@slot("PJRT_LoadedExecutable_Execute")
def execute_slot(args: Any) -> Error | None:
    executable: Executable = args.executable
    mode: i32 = executable.mode
    lists = args.argument_lists
    results = args.output_lists
    options = args.options
    complete = args.device_complete_events
    if unlikely(mode == MULTI_DEVICE):
        return execute_on_devices(args)
    error = check_counts(executable, args.num_args, args.num_devices)
    if unlikely(error is not None):
        return error
    if mode == SEPARATE:
        return launch_separately(executable, lists, results, options, complete)
    if mode == IN_TURNS:
        begin = cycles()
        stacks = lock_stacks(executable, lists)
        if stacks is None:
            error = execute_on_devices(args)
        else:
            error = launch_in_turns(executable, lists, results, options, complete)
            unlock(stacks.lock)
        note_return(executable.devices[executable.num_devices - 1], begin)
        return error
    device: Device = args.execute_device
    if args.execute_device is None:
        device = executable.default_device
    arguments = lists[0]
    if mode == PATIENT:
        wait_for_data(arguments, executable.num_arguments)
        mode = INLINE
    return launch(
        executable,
        executable.program,
        arguments,
        results[0],
        options,
        device,
        mode,
        complete,
    )


@slot("PJRT_Executable_Destroy")
def destroy_slot(args: Any) -> Error | None:
    drop_executable(args.executable)
    return None


@slot("PJRT_LoadedExecutable_Destroy")
def destroy_loaded_slot(args: Any) -> Error | None:
    drop_executable(args.executable)
    return None


@slot("PJRT_LoadedExecutable_GetExecutable")
def executable_slot(args: Any) -> Error | None:
    """Return the argument: PJRT_Executable and PJRT_LoadedExecutable are one struct."""
    add_reference(args.loaded_executable)
    args.executable = args.loaded_executable
    return None


@slot("PJRT_LoadedExecutable_Delete")
def delete_slot(args: Any) -> Error | None:
    args.executable.deleted = 1
    return None
