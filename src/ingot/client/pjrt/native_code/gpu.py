# SPDX-License-Identifier: Apache-2.0
"""Memory and executions of GPUs, as native functions.

All work is enqueued on the one stream of a GPU, so data counts as computed for work that is
enqueued later; a reader on the host must wait for the stream. A null GPU stands for the host.
Invariant: the GPU's context is current in the thread before the driver is called.
"""

from __future__ import annotations

from ingot.client.pjrt.c_api import INTERNAL
from ingot.client.pjrt.native_code.emit import static_error
from ingot.client.pjrt.native_code.events import static_event
from ingot.client.pjrt.records import Gpu
from ingot.native.functions import exported, inlined, native
from ingot.native.operations import memcpy
from ingot.native.pointers import Array, Pointer
from ingot.native.types import i32, i64
from ingot.runtime.entries import ingot_execute
from ingot.runtime.records import Buffers, Program

GPU_ERROR_TEXT = (
    "The GPU failed in something that was enqueued before. Set CUDA_LAUNCH_BLOCKING=1 to see in "
    "which kernel."
)
GPU_ERROR = static_error("gpu_error", INTERNAL, GPU_ERROR_TEXT)
GPU_FAILED = static_event("gpu_failed", GPU_ERROR)


@inlined
def enter(gpu: Gpu) -> bool:
    """Make a GPU's context current in this thread; return whether that succeeded."""
    return gpu.stream.driver.set_context(gpu.stream.context) == 0


@native
def allocate_on(gpu: Gpu, size: i64) -> Pointer | None:
    """Return memory of a GPU, or null."""
    driver = gpu.stream.driver
    found = Array[Pointer | None].on_stack(1)
    found[0] = None
    if not enter(gpu):
        return None
    least = i64(1)
    if size > least:
        least = size
    if driver.allocate(found, least, gpu.stream.handle) != 0:
        return None
    return found[0]


@native
def free_on(gpu: Gpu, data: Pointer) -> None:
    """Free memory of a GPU after all enqueued work."""
    if enter(gpu):
        gpu.stream.driver.free(data, gpu.stream.handle)


@native
def wait_for_gpu(gpu: Gpu) -> bool:
    """Wait for all enqueued work; return whether none of it failed."""
    return enter(gpu) and gpu.stream.driver.synchronize(gpu.stream.handle) == 0


@native
def move_between(
    target: Pointer, to: Gpu | None, source: Pointer, of: Gpu | None, size: i64
) -> bool:
    """Copy bytes from, to or between GPUs; return whether that succeeded.

    On return, memory of the host can be read, or changed.
    """
    if size == 0:
        return True
    if of is None:
        assert to is not None
        if not enter(to):
            return False
        stream = to.stream
        return stream.driver.copy_to_device(target, source, size, stream.handle) == 0
    if not enter(of):
        return False
    stream = of.stream
    if to is not None:
        if stream.driver.copy_on_device(target, source, size, stream.handle) != 0:
            return False
        # The streams of two GPUs are not ordered with each other.
        return to.stream == stream or stream.driver.synchronize(stream.handle) == 0
    if stream.driver.copy_to_host(target, source, size, stream.handle) != 0:
        return False
    return stream.driver.synchronize(stream.handle) == 0


@inlined
def move(target: Pointer, to: Gpu | None, source: Pointer, of: Gpu | None, size: i64) -> bool:
    """Copy bytes between the memories of GPUs or the host; return whether that succeeded."""
    if to is None and of is None:
        memcpy(target, source, size)
        return True
    return move_between(target, to, source, of, size)


@exported("ingot_pjrt_move")
def move_data(target: Pointer, to: Gpu | None, source: Pointer, of: Gpu | None, size: i64) -> i32:
    """Copy bytes as `move` does, for Python; return 1 if that succeeded, else 0."""
    return i32(move(target, to, source, of, size))


@inlined
def execute(
    gpu: Gpu | None, program: Program, inputs: Buffers, outputs: Buffers, sizes: Array[i64]
) -> i32:
    """Run a program on the host, or enqueue it on a GPU."""
    if gpu is None:
        return ingot_execute(program, inputs, outputs, sizes)
    return gpu.execute(program, program.runtime, inputs, outputs, sizes)
