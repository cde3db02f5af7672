# SPDX-License-Identifier: Apache-2.0
"""Programs of a GPU that are called with arrays of the host, as native functions.

They make such a program look like those of the CPU: `hosted_sizes` and `hosted_run` are `S_sizes`
and `S_run` of the execution ABI, and the constant block is an `IngotHostedProgram`. So all callers
of the CPU's programs can call it.

Invariant: an execution has copies of its own, so any number of threads may execute one program.
"""

from __future__ import annotations

from ingot.artifact.abi import ARENA_SLOT, DATA_ALIGNMENT, SLOT_BYTES
from ingot.native.functions import exported, native
from ingot.native.operations import unlikely
from ingot.native.pointers import Array, Pointer
from ingot.native.types import i32, i64
from ingot.runtime.cuda.native import NO_SITE, aligned, execute, outcome, stream_of
from ingot.runtime.cuda.records import CudaStream, HostedProgram
from ingot.runtime.cuda.shared_code import shared_holds
from ingot.runtime.executor.execute import copy_words
from ingot.runtime.records import Buffers, Dims, Program, Runtime


@exported("ingot_cuda_hosted_sizes")
def hosted_sizes(in_dims: Dims, sizes: Array[i64], constants: Pointer) -> i32:
    """`S_sizes` of a program that is called with arrays of the host, where it has no arena."""
    program = HostedProgram.at(constants).program
    status = program.sizes(in_dims, sizes, program.constants)
    sizes[ARENA_SLOT] = 0
    return status


@native
def block_at(inputs: Buffers, count: i64, output: Pointer | None) -> i64:
    """Return the number of the input that shares memory with an output; -1 if none does."""
    for number in range(count):
        if inputs[number] == output:
            return number
    return -1


@native
def find_shared(runtime: Runtime, addresses: Buffers, count: i64, device: Buffers) -> None:
    """Copy to `device` the addresses that the device can use directly, and null for the others."""
    for number in range(count):
        device[number] = None
        if shared_holds(runtime, addresses[number]) != 0:
            device[number] = addresses[number]


@native
def copy_in(
    stream: CudaStream,
    program: Program,
    inputs: Buffers,
    size_of: Array[i64],
    device: Buffers,
    block: Pointer,
) -> i32:
    """Copy the inputs that only the host can use to `block` on the device; return a CUresult.

    `device` gets the address of each.
    """
    address = block
    for number in range(program.num_params):
        if device[number] is None:
            device[number] = address
            source = inputs[number]
            size = size_of[number]
            if source is not None and size > 0:
                result = stream.driver.copy_to_device(address, source, size, stream.handle)
                if result != 0:
                    return result
            address = address + aligned(size)
    return 0


@native
def place_outputs(
    program: Program,
    inputs: Buffers,
    outputs: Buffers,
    sizes: Array[i64],
    device: Buffers,
    block: Pointer,
) -> None:
    """Give each output that only the host can use memory from `block` on, or that of its input."""
    count = program.num_params
    address = block
    for number in range(program.num_outputs):
        if device[count + number] is None:
            same = block_at(inputs, count, outputs[number])
            if same >= 0:
                device[count + number] = device[same]
            else:
                device[count + number] = address
                address = address + aligned(sizes[program.outputs[number].bytes_slot])


@native
def copy_out(
    stream: CudaStream, program: Program, outputs: Buffers, sizes: Array[i64], device: Buffers
) -> i32:
    """Copy the outputs to the host, and wait for all; return a CUresult."""
    for number in range(program.num_outputs):
        target = outputs[number]
        source = device[program.num_params + number]
        size = sizes[program.outputs[number].bytes_slot]
        if target is not None and source is not None and target != source and size > 0:
            result = stream.driver.copy_to_host(target, source, size, stream.handle)
            if result != 0:
                return result
    return stream.driver.synchronize(stream.handle)


@native
def run_copies(
    stream: CudaStream,
    hosted: HostedProgram,
    inputs: Buffers,
    outputs: Buffers,
    sizes: Array[i64],
    size_of: Array[i64],
    device: Buffers,
    block: Pointer,
) -> i32:
    """Run a program on copies in a block of the device; return the status."""
    program = hosted.program
    result = copy_in(stream, program, inputs, size_of, device, block)
    if result != 0:
        return outcome(stream, result, NO_SITE)
    behind = block
    for number in range(program.num_params):
        behind = behind + aligned(size_of[number])
    place_outputs(program, inputs, outputs, sizes, device, behind)
    own = Array[Pointer | None].at(Pointer.at(device) + program.num_params * SLOT_BYTES)
    status = execute(program, hosted.runtime, device, own, sizes)
    if status != 0:
        return status
    return outcome(stream, copy_out(stream, program, outputs, sizes, device), NO_SITE)


@exported("ingot_cuda_hosted_run")
def hosted_run(
    runtime: Runtime,
    inputs: Buffers,
    outputs: Buffers,
    temp: Pointer | None,
    sizes: Array[i64],
    constants: Pointer,
) -> i32:
    """`S_run` of a program that is called with arrays of the host: it runs on copies of them.

    Shared memory is used directly. Outputs that share memory with an input are computed in its
    copy. If something fails before results are copied, the host's memory is unchanged.
    """
    hosted = HostedProgram.at(constants)
    program = hosted.program
    stream = stream_of(hosted.runtime)
    status = outcome(stream, stream.driver.set_context(stream.context), NO_SITE)
    if status != 0:
        return status
    count = program.num_params
    size_of = Array[i64].on_stack(count + 1)
    hosted.transfers(sizes, size_of)
    own = Array[i64].on_stack(program.num_sizes)
    copy_words(own, sizes, program.num_sizes)
    own[ARENA_SLOT] = size_of[count]
    device = Buffers.on_stack(count + program.num_outputs + 1)
    find_shared(hosted.runtime, inputs, count, device)
    behind = Array[Pointer | None].at(Pointer.at(device) + count * SLOT_BYTES)
    find_shared(hosted.runtime, outputs, program.num_outputs, behind)
    total = i64(DATA_ALIGNMENT)
    for number in range(count):
        if device[number] is not None:
            size_of[number] = 0
        total = total + aligned(size_of[number])
    for index in range(program.num_outputs):
        if behind[index] is None:
            total = total + aligned(sizes[program.outputs[index].bytes_slot])
    made = Buffers.on_stack(1)
    result = stream.driver.allocate(made, total, stream.handle)
    if unlikely(result != 0):
        return outcome(stream, result, NO_SITE)
    block = made[0]
    assert block is not None
    status = run_copies(stream, hosted, inputs, outputs, own, size_of, device, block)
    stream.driver.free(block, stream.handle)
    return status
