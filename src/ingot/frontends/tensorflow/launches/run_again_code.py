# SPDX-License-Identifier: Apache-2.0
"""How the launch op runs a program that may end for lack of room, to be run again with more.

TensorFlow lets an op allocate each output once, and with more room an output may be larger. So the
outputs are blocks of Ingot's, which become tensors when the program has succeeded.

Invariant: a block belongs to a tensor, or is freed, on every way out.
"""

from __future__ import annotations

from ingot.frontends.tensorflow.api import kernel_api
from ingot.frontends.tensorflow.launches.launch_inputs import Call
from ingot.frontends.tensorflow.launches.launch_records import DONE, Variant
from ingot.frontends.tensorflow.launches.launch_runs import dims_in, hand_in, report
from ingot.native.functions import exported, inlined, native
from ingot.native.operations import unlikely
from ingot.native.pointers import Array, Pointer
from ingot.native.types import i32, i64
from ingot.runtime.entries import ingot_allocate, ingot_execute, ingot_free, ingot_prepare
from ingot.runtime.executor.execute import OUT_OF_MEMORY
from ingot.runtime.records import Buffers, Program


@exported("ingot_launch_drop")
def drop(data: Pointer | None, size: i64, argument: Pointer | None) -> None:
    """Give back the memory of a tensor."""
    ingot_free(data)


@inlined
def hand_out(
    call: Call, index: i64, dims: Array[i64], rank: i64, block: Pointer | None, size: i64
) -> None:
    """Make a tensor of a block, and output `index` of the tensor."""
    kind = call.record.output_types[index]
    tensor = kernel_api.new_tensor(kind, dims, i32(rank), block, size, drop, None)
    kernel_api.set_output(call.context, i32(index), tensor, call.status)
    kernel_api.delete_tensor(tensor)


@inlined
def allocate_outputs(program: Program, outputs: Buffers, count: i64, sizes: Array[i64]) -> i32:
    """Get a block for each output; return the status, 0 or out of memory."""
    for index in range(count):
        outputs[index] = ingot_allocate(sizes[program.outputs[index].bytes_slot])
        if outputs[index] is None:
            return OUT_OF_MEMORY
    return 0


@inlined
def execute(
    call: Call, program: Program, outputs: Buffers, sizes: Array[i64], more: Buffers | None
) -> i32:
    """Run a program that has blocks for its outputs; return its status."""
    hand_in(outputs, more, call.record.num_outputs, program.num_outputs)
    return ingot_execute(program, call.data, outputs, sizes)


@native
def run_again(call: Call, variant: Variant, more: Buffers | None) -> i32:
    """Run as `run_ordinary`, with outputs that are blocks of Ingot's."""
    program = variant.program
    count = call.record.num_outputs
    sizes = Array[i64].on_stack(program.num_sizes)
    outputs = Buffers.on_stack(program.num_outputs)
    for number in range(count):
        outputs[number] = None
    status: i32 = ingot_prepare(program, call.dims, sizes)
    if status == 0:
        status = allocate_outputs(program, outputs, count, sizes)
    if status == 0:
        status = execute(call, program, outputs, sizes, more)
    for index in range(count):
        output = program.outputs[index]
        if unlikely(status != 0):
            ingot_free(outputs[index])
        else:
            size = sizes[output.bytes_slot]
            hand_out(call, index, dims_in(sizes, output), output.rank, outputs[index], size)
    if unlikely(status != 0):
        return report(call, variant, i64(status))
    return DONE
