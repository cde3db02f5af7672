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

from functools import cache

from ingot.frontends.tensorflow import capi, kernel_api
from ingot.frontends.tensorflow.kernel_api import PACKAGES, Status, Tensor
from ingot.frontends.tensorflow.launch_records import Guard
from ingot.frontends.tensorflow.launch_runs import dims_in
from ingot.frontends.tensorflow.launch_variants import meets_guards
from ingot.llvm.linking import Library, link_object
from ingot.native.functions import (
    cold,
    exported,
    external,
    external_symbols,
    inlined,
    native,
    symbol_of,
)
from ingot.native.module import compiled
from ingot.native.operations import unlikely
from ingot.native.pointers import Array, Pointer, Struct, Structs
from ingot.native.statics import external_data
from ingot.native.types import i8, i32, i64
from ingot.runtime.c_python import (
    capsule_pointer,
    incref,
    new_tuple,
    python_addresses,
    restore_thread,
    save_thread,
    set_item,
)
from ingot.runtime.entries import ingot_execute
from ingot.runtime.native import native_runtime
from ingot.runtime.records import Buffers, Program


class EagerCall(Struct, name="IngotEagerCall"):
    """A program for some arguments."""

    program: Program
    num_inputs: i64
    num_outputs: i64
    sources: Array[i64]  # of each input: the index of the argument, or -1
    captures: Buffers  # of each input: the data of a captured tensor
    sizes: Array[i64]  # computed once
    output_types: Array[i32]  # TF_DataType
    releases_gil: i64  # not 0: the program runs without the GIL
    num_guards: i64  # values of inputs that the program was compiled for
    guards: Structs[Guard]
    next: EagerCall | None  # the record for other values of the same inputs


EAGER_CALL = EagerCall.c_layout


class TensorHandle(Pointer):
    """TFE_TensorHandle."""

    __slots__ = ()


@external("TF_AllocateTensor")
def allocate_tensor(type: i32, dims: Array[i64], rank: i32, bytes: i64) -> Tensor:
    """Return a new tensor."""
    ...


@external("TFE_TensorHandleDevicePointer")
def device_pointer(handle: TensorHandle, status: Status) -> Pointer | None:
    """Return the memory behind a handle."""
    ...


@external("TFE_NewTensorHandle")
def new_handle(tensor: Tensor, status: Status) -> TensorHandle:
    """Return a handle of a tensor."""
    ...


@external(capi.EAGER_TENSOR_HANDLE)
def handle_of(eager_tensor: Pointer) -> TensorHandle:
    """Return the handle of an EagerTensor."""
    ...


@external(capi.EAGER_TENSOR_FROM_HANDLE)
def eager_tensor_of(handle: TensorHandle, is_packed: i8) -> Pointer:
    """Return an EagerTensor that takes over a handle."""
    ...


_NOT_IMPLEMENTED = external_data(Pointer, "ingot_not_implemented")

_EAGER_FUNCTIONS = (allocate_tensor, device_pointer, new_handle, handle_of, eager_tensor_of)


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
def allocate_outputs(record: EagerCall, tensors: Array[Tensor], outputs: Buffers) -> None:
    """Make the outputs."""
    for index in range(record.num_outputs):
        output = record.program.outputs[index]
        size = record.sizes[output.bytes_slot]
        dims = dims_in(record.sizes, output)
        tensor = allocate_tensor(record.output_types[index], dims, i32(output.rank), size)
        tensors[index] = tensor
        outputs[index] = kernel_api.tensor_data(tensor)


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


@exported("ingot_eager_call")
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
    allocate_outputs(record, tensors, outputs)
    if unlikely(run(record, inputs, outputs) != 0):
        for failed in range(count):
            kernel_api.delete_tensor(tensors[failed])
        return refuse()
    if count == 1:
        return wrapped(tensors[0])
    result = new_tuple(count)
    for index in range(count):
        set_item(result, index, wrapped(tensors[index]))
    return result


@cache
def eager_call_address() -> int:
    """Return the address of `ingot_eager_call`; the first call compiles (or loads) and links it."""
    addresses = {
        **capi.imports([*external_symbols(kernel_api), *map(symbol_of, _EAGER_FUNCTIONS)]),
        **python_addresses(),
        symbol_of(ingot_execute): native_runtime().address(symbol_of(ingot_execute)),
        "ingot_not_implemented": id(NotImplemented),
    }
    data = compiled("ingot_tensorflow_eager", PACKAGES, lambda: [eager_call])
    library = link_object([data], addresses)
    _libraries.append(library)
    return library.address(symbol_of(eager_call))


_libraries: list[Library] = []
