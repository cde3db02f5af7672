# SPDX-License-Identifier: Apache-2.0
"""The slots of executables as native functions: handles, and Execute on one device.

Invariant: a program that may call back into the host waits for its arguments in the call and runs
there, so that the device's queue is free for what its callbacks run.

Source: pjrt_c_api.h (PJRT_LoadedExecutable_Execute).
"""

from __future__ import annotations

from typing import Any

from ingot.client.pjrt.c_api import INVALID_ARGUMENT
from ingot.client.pjrt.emit import add_reference, slot, static_error, static_reference
from ingot.client.pjrt.native_buffers import pending_event, unuse, use
from ingot.client.pjrt.native_events import release_event, wait_for
from ingot.client.pjrt.native_launch import drop_buffers, launch
from ingot.client.pjrt.native_worker import drop_executable, release_events
from ingot.client.pjrt.records import (
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
from ingot.native.functions import external, native
from ingot.native.operations import memcpy, unlikely
from ingot.native.pointers import Array, Pointer
from ingot.native.types import i32, i64

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
    complete: Array[Event | None],
) -> Error | None:
    """Launch the part of each device; an error frees the results of the parts before."""
    for index in range(executable.num_devices):
        error = launch(
            executable,
            executable.program,
            arguments[index],
            results[index],
            options,
            executable.devices[index],
            INLINE,
            Array[Event].at(complete + 8 * index),
        )
        if error is not None:
            for earlier in range(index):
                drop_buffers(results[earlier], executable.num_outputs)
                release_event(complete[earlier])
            return error
    return None


@slot("PJRT_LoadedExecutable_Execute")
def execute_slot(args: Any) -> Error | None:
    executable: Executable = args.executable
    mode: i32 = executable.mode
    if unlikely(mode == MULTI_DEVICE):
        return execute_on_devices(args)
    if unlikely(args.num_args != executable.num_arguments):
        return static_reference(COUNT_ERROR)
    if mode == SEPARATE:
        count = executable.num_devices
        if unlikely(args.num_devices != count):
            return static_reference(DEVICES_ERROR)
        events = Array[Event | None].on_stack(count)
        error = launch_separately(
            executable, args.argument_lists, args.output_lists, args.options, events
        )
        if error is not None:
            return error
        if args.device_complete_events is None:
            release_events(events, count)
        else:
            memcpy(args.device_complete_events, events, 8 * count)
        return None
    device: Device = args.execute_device
    if args.execute_device is None:
        device = executable.default_device
    arguments = args.argument_lists[0]
    if mode == PATIENT:
        wait_for_data(arguments, executable.num_arguments)
        mode = INLINE
    return launch(
        executable,
        executable.program,
        arguments,
        args.output_lists[0],
        args.options,
        device,
        mode,
        args.device_complete_events,
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
