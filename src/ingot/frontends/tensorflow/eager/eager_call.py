# SPDX-License-Identifier: Apache-2.0
"""Python's side of the eager fast path: a built-in callable for one signature of one function.

`make_native_call` joins a compiled variant with captured tensors into an `IngotEagerCall` record.
`NativeCall.add` lets the same callable run a variant for other values of the inputs.

Invariant: the callable keeps everything alive that its records point to.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ingot.frontends.tensorflow.api import capi, kernel_api
from ingot.frontends.tensorflow.eager import eager_api
from ingot.frontends.tensorflow.launches.launch import Program, guard_rows
from ingot.frontends.tensorflow.launches.launch_records import EAGER_CALL
from ingot.frontends.tensorflow.variants.specialisation import Key, Sizes
from ingot.llvm.linking import Library, link_object
from ingot.native.functions import external_symbols, symbol_of
from ingot.native.module import compiled
from ingot.runtime.arguments.c_arrays import int64_array
from ingot.runtime.entries import ingot_execute
from ingot.runtime.native import native_runtime
from ingot.runtime.python.builtins import fastcall
from ingot.runtime.python.c_python import python_addresses
from ingot.runtime.records import PROGRAM
from ingot.support.records import record

RELEASE_GIL_BYTES = 64 << 10
"""Programs that touch at least this many bytes run without the GIL."""


def _data_pointer(tensor: Any) -> int:
    handle = capi.function(capi.EAGER_TENSOR_HANDLE)(tensor)
    with capi.Status() as status:
        pointer = capi.function("TFE_TensorHandleDevicePointer")(handle, status.pointer)
        status.check("give the memory of a captured tensor")
    return pointer or 0


def _sizes(program: Program, given: Sizes) -> Any | None:
    """Return what the program's sizes function says, or None if it refuses."""
    dims = list(map(int64_array, given))
    rows = (ctypes.c_void_p * max(1, len(dims)))(*[ctypes.addressof(item) for item in dims])
    sizes = (ctypes.c_int64 * program.info.num_sizes)()
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    prepare = native_runtime().function("ingot_prepare", ctypes.c_int32, *types)
    return None if prepare(program.record_address, rows, sizes) else sizes


@cache
def eager_call_address() -> int:
    """Return the address of `ingot_eager_call`; the first call compiles (or loads) and links it."""
    execute = symbol_of(ingot_execute)
    addresses = {
        **capi.imports([*external_symbols(kernel_api), *eager_api.symbols()]),
        **python_addresses(),
        execute: native_runtime().address(execute),
        eager_api.NOT_IMPLEMENTED: id(NotImplemented),
    }
    data = compiled("ingot_tensorflow_eager", kernel_api.PACKAGES, _functions)
    library = link_object([data], addresses)
    _libraries.append(library)
    return library.address(eager_api.EAGER_CALL)


_libraries: list[Library] = []


def _functions() -> list[Callable[..., object]]:
    """Return the native functions; a process that finds their object does not import them."""
    from ingot.frontends.tensorflow.eager.eager_code import eager_call

    return [eager_call]


@record
class NativeCall:
    """A built-in that runs programs on EagerTensors, and the records that it reads.

    Attributes:
        call: the built-in.
        records: what it tries, in order; it and this list keep them alive.
        keys: the values that each record is for.
    """

    call: Callable[..., Any]
    records: list[Any]
    keys: list[Key]

    def add(self, other: NativeCall) -> None:
        """Let the built-in run what `other` runs, for the values that are not its own."""
        last = self.records[-1][0]
        self.records.extend(other.records)
        self.keys.extend(other.keys)
        last.next = ctypes.addressof(other.records[0][0])


def make_native_call(
    program: Program,
    key: Key,
    output_types: Sequence[int],
    inputs: Sequence[int | Any],
    sizes_of_inputs: Sizes,
    work_bytes: int,
) -> NativeCall | None:
    """Return a built-in that runs `program` on EagerTensors, or None if the sizes do not fit.

    Args:
        program: the compiled program.
        key: the values that it is for.
        output_types: TF_DataType of each output.
        inputs: per parameter the index of the argument, or the captured EagerTensor.
        sizes_of_inputs: dimensions of each parameter.
        work_bytes: bytes that a call touches.
    """
    sizes = _sizes(program, sizes_of_inputs)
    if sizes is None:
        return None
    count = max(1, len(inputs))
    sources = (ctypes.c_int64 * count)(*[i if isinstance(i, int) else -1 for i in inputs])
    pointers = [0 if isinstance(item, int) else _data_pointer(item) for item in inputs]
    captures = (ctypes.c_void_p * count)(*pointers)
    types = (ctypes.c_int32 * max(1, len(output_types)))(*output_types)
    record: Any = EAGER_CALL.structure()
    record.program = program.record_address
    record.num_inputs, record.num_outputs = len(inputs), len(output_types)
    record.sources, record.captures = ctypes.addressof(sources), ctypes.addressof(captures)
    record.sizes, record.output_types = ctypes.addressof(sizes), ctypes.addressof(types)
    # A program that loops may run long on little data: its own threshold is 0.
    least = min(RELEASE_GIL_BYTES, PROGRAM.read(program.record_address, "release_gil_bytes"))
    record.releases_gil = int(work_bytes >= least)
    guards, data = guard_rows(key)
    record.num_guards, record.guards = len(key.values), ctypes.addressof(guards)
    records = [(record, program, tuple(inputs), sources, captures, types, sizes, guards, data)]
    call = fastcall(b"ingot_call", eager_call_address(), ctypes.addressof(record), records)
    return NativeCall(call, records, [key])
