# SPDX-License-Identifier: Apache-2.0
"""What the kernels of the launch ops do first and last: read the op's inputs, report a failure.

Invariant: every TF_Tensor and TF_Status that `run_kernel` gets is deleted on every way out.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.frontends.tensorflow.api import kernel_api
from ingot.frontends.tensorflow.api.kernel_api import Context, Status, Tensor
from ingot.frontends.tensorflow.launches.launch_records import LaunchRecord
from ingot.native.functions import inlined
from ingot.native.operations import unlikely
from ingot.native.pointers import Array, Struct
from ingot.native.types import i32, i64
from ingot.runtime.records import Buffers, Dims


class Call(Struct):
    """One execution of a kernel; the arrays are on its stack, with an item for each input."""

    record: LaunchRecord
    context: Context
    status: Status
    tensors: Array[Tensor | None]  # null for the handle of a variable
    data: Buffers  # memory; that of a variable is filled in later
    ranks: Array[i64]
    dims: Dims  # those of variables are the record's


@inlined
def read_tensors(call: Call) -> i64:
    """Get the tensors, their memory and the ranks; return the sum of the ranks."""
    record = call.record
    total: i64 = 0
    for index in range(record.num_inputs):
        row = record.rows[index]
        call.tensors[index] = None
        rank: i64 = 0
        if row < 0:
            found = Array[Tensor].at(call.tensors + 8 * index)
            kernel_api.get_input(call.context, i32(index), found, call.status)
            call.data[index] = kernel_api.tensor_data(found[0])
            rank = i64(kernel_api.num_dims(found[0]))
        else:
            rank = record.variables[row].rank
        call.ranks[index] = rank
        total += rank
    return total


@inlined
def read_dims(call: Call, sizes: Array[i64]) -> None:
    """Get the dimensions; `sizes` has room for those of all tensors."""
    record = call.record
    room = sizes
    for index in range(record.num_inputs):
        tensor = call.tensors[index]
        if tensor is None:
            call.dims[index] = record.variables[record.rows[index]].dims
        else:
            call.dims[index] = room
            for axis in range(call.ranks[index]):
                room[axis] = kernel_api.dim(tensor, i32(axis))
            room = Array[i64].at(room + 8 * call.ranks[index])


@inlined
def run_kernel(record: LaunchRecord, context: Context, body: Callable[[Call], None]) -> None:
    """Run `body` on the inputs of an op; its status says whether the op failed."""
    count = record.num_inputs
    call = Call.on_stack()
    call.record = record
    call.context = context
    call.status = kernel_api.new_status()
    call.tensors = Array[Tensor | None].on_stack(count)
    call.data = Buffers.on_stack(count)
    call.ranks = Array[i64].on_stack(count)
    call.dims = Dims.on_stack(count)
    total = read_tensors(call)
    read_dims(call, Array[i64].on_stack(total))
    body(call)
    for index in range(count):
        tensor = call.tensors[index]
        if tensor is not None:
            kernel_api.delete_tensor(tensor)
    if unlikely(kernel_api.get_code(call.status) != 0):
        kernel_api.fail(context, call.status)
    kernel_api.delete_status(call.status)
