# SPDX-License-Identifier: Apache-2.0
"""Native functions that host programs of a GPU call: launches, copies, reads, foreign calls.

`execute` runs a program with an arena of device memory; programs of stages call `cuda_stages`. All
work is enqueued on the stream of the runtime record's device. Invariant: if the driver refuses a
call, its CUresult is written into the stream's record, and the status is `DEVICE_FAILED` or
`OUT_OF_MEMORY`.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.artifact.abi import ARENA_SLOT, DATA_ALIGNMENT, SLOT_BYTES
from ingot.artifact.device_code import CALL, COPY, DEVICE_FAILED, LAUNCH, READ
from ingot.native.functions import exported, inlined, native
from ingot.native.operations import unlikely
from ingot.native.pointers import Array, Pointer
from ingot.native.statics import static
from ingot.native.types import i32, i64
from ingot.runtime.cuda.records import CudaStream
from ingot.runtime.executor.execute import OUT_OF_MEMORY
from ingot.runtime.records import Buffers, CallFrame, Program, Runtime, StageFunctions

NO_SITE = -1
OUT_OF_DEVICE_MEMORY = 2
"""CUDA_ERROR_OUT_OF_MEMORY."""
INVALID_VALUE = 1
"""CUDA_ERROR_INVALID_VALUE."""
MOST_BLOCKS = (1 << 31) - 1

ForeignCode = Callable[[CallFrame], i32]
"""The code of a foreign call."""


@native
def outcome(stream: CudaStream, result: i32, site: i64) -> i32:
    """Return the status of an execution after a CUresult; errors are recorded in the stream."""
    if result == 0:
        return 0
    stream.failure = i64(result)
    stream.site = site
    if result == OUT_OF_DEVICE_MEMORY:
        return OUT_OF_MEMORY
    return DEVICE_FAILED


@inlined
def stream_of(runtime: Runtime) -> CudaStream:
    """Return the stream that an execution enqueues on."""
    return CudaStream.at(runtime.device)


@exported(LAUNCH)
def launch(
    runtime: Runtime,
    kernel: Pointer,
    blocks: i64,
    threads: i64,
    parameters: Array[Pointer],
    site: i64,
) -> i32:
    """Enqueue a kernel over `blocks` times `threads` threads; `parameters` has their addresses."""
    stream = stream_of(runtime)
    if unlikely(blocks > MOST_BLOCKS):
        return outcome(stream, INVALID_VALUE, site)
    result = stream.driver.launch(
        kernel, i32(blocks), 1, 1, i32(threads), 1, 1, 0, stream.handle, parameters, None
    )
    # A profiler needs the time when the kernel is done, not when it was enqueued.
    if result == 0 and (stream.blocking != 0 or runtime.profile is not None):
        result = stream.driver.synchronize(stream.handle)
    return outcome(stream, result, site)


@exported(COPY)
def copy(runtime: Runtime, target: Pointer, source: Pointer, size: i64) -> i32:
    """Enqueue the copy of `size` bytes from one address of the device to another."""
    stream = stream_of(runtime)
    if size == 0:
        return 0
    result = stream.driver.copy_on_device(target, source, size, stream.handle)
    return outcome(stream, result, NO_SITE)


@exported(READ)
def read(runtime: Runtime, to: Pointer, source: Pointer, size: i64) -> i32:
    """Copy `size` bytes of the device to the host, and wait for the stream."""
    stream = stream_of(runtime)
    result = stream.driver.copy_to_host(to, source, size, stream.handle)
    if result == 0:
        result = stream.driver.synchronize(stream.handle)
    return outcome(stream, result, NO_SITE)


@native
def on_host(
    stream: CudaStream, frame: CallFrame, shape: Array[i64], held: Buffers, block: Pointer
) -> i32:
    """Give each operand and result of a foreign call host memory; return a CUresult.

    Operands are copied there, and so are results that share memory with an operand.
    """
    operands = shape[0]
    count = operands + shape[1]
    address = block
    for number in range(count):
        size = shape[2 + number]
        held[number] = address
        device = frame.operands[number] if number < operands else frame.results[number - operands]
        is_read = number < operands or shape[2 + count + number - operands] != 0
        if device is not None and size > 0 and is_read:
            result = stream.driver.copy_to_host(address, device, size, stream.handle)
            if result != 0:
                return result
        address = address + aligned(size)
    return stream.driver.synchronize(stream.handle)


@inlined
def aligned(size: i64) -> i64:
    """Return bytes rounded up to the alignment of buffers."""
    return (size + (DATA_ALIGNMENT - 1)) & -DATA_ALIGNMENT


@native
def back_on_device(stream: CudaStream, frame: CallFrame, shape: Array[i64], held: Buffers) -> i32:
    """Copy the results of a foreign call to the device; return a CUresult."""
    operands = shape[0]
    for number in range(shape[1]):
        size = shape[2 + operands + number]
        device = frame.results[number]
        host = held[operands + number]
        if device is not None and host is not None and size > 0:
            result = stream.driver.copy_to_device(device, host, size, stream.handle)
            if result != 0:
                return result
    return stream.driver.synchronize(stream.handle)


@exported(CALL)
def call(
    runtime: Runtime, code: ForeignCode, frame: CallFrame, shape: Array[i64], status: Array[i32]
) -> i32:
    """Run foreign code on the host, on copies of the operands and results of `frame`.

    Args:
        runtime: the record of the execution.
        code: the code.
        frame: its frame, with addresses of device memory; null for tokens.
        shape: the numbers of operands and of results, the bytes of each, then for each result
            whether the code reads it.
        status: gets the code's status.
    """
    stream = stream_of(runtime)
    count = shape[0] + shape[1]
    total = i64(DATA_ALIGNMENT)
    for number in range(count):
        total = total + aligned(shape[2 + number])
    block = runtime.allocate(total)
    if block is None:
        return OUT_OF_MEMORY
    held = Array[Pointer | None].on_stack(count + 1)
    result = on_host(stream, frame, shape, held, block)
    if result == 0:
        own = CallFrame.on_stack()
        own.runtime = runtime
        own.operands = held
        own.results = Array[Pointer | None].at(Pointer.at(held) + shape[0] * SLOT_BYTES)
        own.operand_dims = frame.operand_dims
        own.result_dims = frame.result_dims
        status[0] = code(own)
        if status[0] == 0:
            result = back_on_device(stream, frame, shape, held)
    runtime.free(block)
    return outcome(stream, result, NO_SITE)


@exported("ingot_cuda_execute")
def execute(
    program: Program, runtime: Runtime, inputs: Buffers, outputs: Buffers, sizes: Array[i64]
) -> i32:
    """Enqueue a program, with an arena that is freed after it."""
    stream = stream_of(runtime)
    driver = stream.driver
    # A profiler is set in the record of the process.
    runtime.profile = stream.process.profile
    status = outcome(stream, driver.set_context(stream.context), NO_SITE)
    if unlikely(status != 0):
        return status
    arena = Array[Pointer | None].on_stack(1)
    arena[0] = None
    if sizes[ARENA_SLOT] > 0:
        result = driver.allocate(arena, sizes[ARENA_SLOT], stream.handle)
        if unlikely(result != 0):
            return outcome(stream, result, NO_SITE)
    status = program.run(runtime, inputs, outputs, arena[0], sizes, program.constants)
    memory = arena[0]
    if memory is not None:
        driver.free(memory, stream.handle)
    return status


@exported("ingot_cuda_allocate")
def allocate(runtime: Runtime, size: i64, to: Buffers) -> i32:
    """Store the address of a new block at `to`, for work that is enqueued later."""
    stream = stream_of(runtime)
    needed = size if size > 0 else 1
    return outcome(stream, stream.driver.allocate(to, needed, stream.handle), NO_SITE)


@exported("ingot_cuda_free")
def free(runtime: Runtime, block: Pointer | None) -> None:
    """Free a block of the device after all enqueued work."""
    stream = stream_of(runtime)
    if block is not None:
        stream.driver.free(block, stream.handle)


STAGES = static(StageFunctions, "IngotStageFunctions.cuda")


@exported("ingot_cuda_stages")
def cuda_stages() -> StageFunctions:
    """Return the functions that programs of stages call; the GPU's context must be current."""
    STAGES.allocate = allocate
    STAGES.free = free
    STAGES.copy = copy
    STAGES.read = read
    STAGES.execute = execute
    return STAGES
