# SPDX-License-Identifier: Apache-2.0
"""Programs of a GPU that are called with arrays of the host, as native functions.

They make of such a program one that looks as those of the CPU do: `hosted_sizes` and `hosted_run`
are `S_sizes` and `S_run` of the execution ABI, the constant block is an `IngotHostedProgram`. So
whoever calls programs of the CPU by their records calls these as well.

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
from ingot.runtime.execute import copy_words
from ingot.runtime.records import Buffers, Dims, Program, Runtime


@exported("ingot_cuda_hosted_sizes")
def hosted_sizes(in_dims: Dims, sizes: Array[i64], constants: Pointer) -> i32:
    """`S_sizes` of a program that is called with arrays of the host: its arena is not there."""
    program = HostedProgram.at(constants).program
    status = program.sizes(in_dims, sizes, program.constants)
    sizes[ARENA_SLOT] = 0
    return status


@native
def block_at(inputs: Buffers, count: i64, output: Pointer | None) -> i64:
    """Return the number of the input that is in the same memory as an output; -1: none is."""
    for number in range(count):
        if inputs[number] == output:
            return number
    return -1


@native
def copy_in(
    stream: CudaStream, program: Program, inputs: Buffers, size_of: Array[i64], device: Buffers
) -> i32:
    """Copy the inputs to the device, one after the other from `device[0]` on; a CUresult.

    `device` gets the address of each; that of the first is there.
    """
    place = device[0]
    assert place is not None
    for number in range(program.num_params):
        device[number] = place
        source = inputs[number]
        size = size_of[number]
        if source is not None and size > 0:
            result = stream.driver.copy_to_device(place, source, size, stream.handle)
            if result != 0:
                return result
        place = place + aligned(size)
    device[program.num_params] = place
    return 0


@native
def place_outputs(
    program: Program, inputs: Buffers, outputs: Buffers, sizes: Array[i64], device: Buffers
) -> None:
    """Give each output its memory on the device, behind the inputs, or that of its input."""
    count = program.num_params
    place = device[count]
    assert place is not None
    for number in range(program.num_outputs):
        same = block_at(inputs, count, outputs[number])
        if same >= 0:
            device[count + number] = device[same]
        else:
            device[count + number] = place
            place = place + aligned(sizes[program.outputs[number].bytes_slot])


@native
def copy_out(
    stream: CudaStream, program: Program, outputs: Buffers, sizes: Array[i64], device: Buffers
) -> i32:
    """Copy the outputs to the host, and wait for all; return a CUresult."""
    for number in range(program.num_outputs):
        target = outputs[number]
        source = device[program.num_params + number]
        size = sizes[program.outputs[number].bytes_slot]
        if target is not None and source is not None and size > 0:
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
) -> i32:
    """Run a program on copies that begin at `device[0]`; return the status."""
    program = hosted.program
    status = outcome(stream, copy_in(stream, program, inputs, size_of, device), NO_SITE)
    if status != 0:
        return status
    place_outputs(program, inputs, outputs, sizes, device)
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

    Outputs that are in the memory of an input are made in its copy. If something fails, nothing of
    the host has changed.
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
    total = i64(DATA_ALIGNMENT)
    for number in range(count):
        total = total + aligned(size_of[number])
    for index in range(program.num_outputs):
        total = total + aligned(sizes[program.outputs[index].bytes_slot])
    device = Buffers.on_stack(count + program.num_outputs + 1)
    result = stream.driver.allocate(device, total, stream.handle)
    if unlikely(result != 0):
        return outcome(stream, result, NO_SITE)
    block = device[0]
    status = run_copies(stream, hosted, inputs, outputs, own, size_of, device)
    if block is not None:
        stream.driver.free(block, stream.handle)
    return status
