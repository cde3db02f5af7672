# SPDX-License-Identifier: Apache-2.0
"""The machine code of the eager fast path: EagerTensors in, EagerTensors out, no TensorFlow op.

`ingot_eager_call(self, args, nargs)` is a METH_FASTCALL built-in; `self` is a capsule around an
`IngotEagerCall` record, which is made for arguments of exactly known types and sizes. So the sizes
of outputs and arena are computed once, and a call is: pointers in, allocate, run, wrap. Where a
program was compiled for values of inputs, records for other values follow.

Invariants: the caller made sure that the arguments are EagerTensors of the record's types and
sizes. Whatever goes wrong returns NotImplemented: the caller then takes the ordinary way, which
does the work again and reports properly (a program has no effects). Long runs give up the GIL.
Source: TensorFlow's `tensorflow/c/eager/c_api.h`, `python/eager/pywrap_tensor.h`.
"""

from __future__ import annotations

from ingot.frontends.tensorflow.api import kernel_api
from ingot.frontends.tensorflow.api.kernel_api import Tensor
from ingot.frontends.tensorflow.eager.eager_api import (
    EAGER_CALL,
    NOT_IMPLEMENTED,
    allocate_tensor,
    device_pointer,
    eager_tensor_of,
    handle_of,
    new_handle,
)
from ingot.frontends.tensorflow.launches.launch_records import EagerCall
from ingot.frontends.tensorflow.launches.launch_runs import dims_in
from ingot.frontends.tensorflow.launches.launch_variants import meets_guards
from ingot.native.functions import cold, exported, inlined, native
from ingot.native.operations import unlikely
from ingot.native.pointers import Array, Pointer
from ingot.native.statics import external_data
from ingot.native.types import i32, i64
from ingot.runtime.entries import ingot_execute
from ingot.runtime.python.c_python import (
    capsule_pointer,
    incref,
    new_tuple,
    restore_thread,
    save_thread,
    set_item,
)
from ingot.runtime.records import Buffers

_NOT_IMPLEMENTED = external_data(Pointer, NOT_IMPLEMENTED)


@cold
@native
def refuse() -> Pointer:
    """Return NotImplemented."""
    incref(_NOT_IMPLEMENTED)
    return _NOT_IMPLEMENTED


@inlined
def read_inputs(record: EagerCall, args: Array[Pointer], inputs: Buffers) -> bool:
    """Store the memory of each input; return whether all have some."""
    status = kernel_api.new_status()
    for index in range(record.num_inputs):
        source = record.sources[index]
        if source < 0:
            inputs[index] = record.captures[index]
        else:
            inputs[index] = device_pointer(handle_of(args[source]), status)
    is_good = kernel_api.get_code(status) == 0
    kernel_api.delete_status(status)
    return is_good


@inlined
def choose(first: EagerCall, inputs: Buffers) -> EagerCall | None:
    """Return the record whose guards the inputs meet, or null."""
    record: EagerCall | None = first
    while record is not None:
        if meets_guards(record.guards, record.num_guards, inputs):
            return record
        record = record.next
    return None


@inlined
def allocate_outputs(record: EagerCall, tensors: Array[Tensor], outputs: Buffers) -> bool:
    """Make the outputs; return whether there was memory for all."""
    is_good = True
    for index in range(record.num_outputs):
        output = record.program.outputs[index]
        size = record.sizes[output.bytes_slot]
        dims = dims_in(record.sizes, output)
        tensor = allocate_tensor(record.output_types[index], dims, i32(output.rank), size)
        tensors[index] = tensor
        outputs[index] = kernel_api.tensor_data(tensor)
        if size > 0 and outputs[index] is None:
            is_good = False
    return is_good


@inlined
def run(record: EagerCall, inputs: Buffers, outputs: Buffers) -> i32:
    """Execute; return the status."""
    if record.releases_gil == 0:
        return ingot_execute(record.program, inputs, outputs, record.sizes)
    thread = save_thread()
    status = ingot_execute(record.program, inputs, outputs, record.sizes)
    restore_thread(thread)
    return status


@native
def wrapped(tensor: Tensor) -> Pointer:
    """Return an EagerTensor that a tensor is handed over to."""
    status = kernel_api.new_status()
    handle = new_handle(tensor, status)
    kernel_api.delete_status(status)
    kernel_api.delete_tensor(tensor)
    return eager_tensor_of(handle, 0)


@exported(EAGER_CALL)
def eager_call(self: Pointer, args: Array[Pointer], nargs: i64) -> Pointer:
    """Return the only output, or a tuple of all."""
    first = EagerCall.at(capsule_pointer(self, None))
    count = first.num_outputs
    inputs = Buffers.on_stack(first.num_inputs)
    tensors = Array[Tensor].on_stack(count)
    outputs = Buffers.on_stack(count)
    if unlikely(not read_inputs(first, args, inputs)):
        return refuse()
    record = choose(first, inputs)
    if record is None:
        return refuse()
    if unlikely(
        not allocate_outputs(record, tensors, outputs) or run(record, inputs, outputs) != 0
    ):
        for failed in range(count):
            kernel_api.delete_tensor(tensors[failed])
        return refuse()
    if count == 1:
        return wrapped(tensors[0])
    result = new_tuple(count)
    for index in range(count):
        set_item(result, index, wrapped(tensors[index]))
    return result
