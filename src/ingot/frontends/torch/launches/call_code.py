# SPDX-License-Identifier: Apache-2.0
"""The native function by which the Python wrapper calls a program: addresses in, a status out.

`ingot_torch_call(self, args, nargs)` is a METH_FASTCALL built-in; `self` is a capsule around an
`IngotTorchCall` record. Its arguments are Python integers: the address of each input, then that of
each output, then the sizes that the record leaves open. It returns the status of
`runtime.executor.execute` (0: done), or `NO_MEMORY` if an input with elements has the address 0.
The wrapper allocates outputs with PyTorch's allocator, so nothing is converted.

Invariants: the record's layout of arguments is that of the program; the caller keeps all tensors
alive during the call. Long executions release the GIL, and Ctrl-C ends them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ingot.client.executables.threads import pool_of
from ingot.llvm.linking import Library, link_object
from ingot.native.functions import exported, external_symbols, inlined, native, symbol_of
from ingot.native.module import compiled
from ingot.native.operations import memcpy, unlikely
from ingot.native.pointers import Array, Pointer, Struct, sizeof
from ingot.native.types import i32, i64
from ingot.runtime import entries
from ingot.runtime.arguments.c_arrays import int64_array
from ingot.runtime.entries import ingot_execute, ingot_execute_python, ingot_prepare
from ingot.runtime.native import native_runtime
from ingot.runtime.programs.program import Program
from ingot.runtime.python.builtins import fastcall
from ingot.runtime.python.c_python import (
    capsule_pointer,
    int_of,
    number_of,
    python_addresses,
    restore_thread,
    save_thread,
)
from ingot.runtime.records import Buffers, Dims, Pool, Runtime
from ingot.runtime.records import Program as ProgramRecord


class TorchCall(Struct, name="IngotTorchCall"):
    """A program, and the arguments of its calls."""

    program: ProgramRecord
    num_inputs: i64
    num_outputs: i64
    num_dims: i64  # dimensions of all inputs together
    num_open: i64  # dimensions that each call passes
    dims: Array[i64]  # of all inputs, one after the other
    rows: Array[i64]  # the index of each input's first dimension; then the end of the last ones
    slots: Array[i64]  # the numbers of the dimensions that the call passes
    releases_gil: i64  # not 0: the program runs without the GIL
    pool: Pool | None  # of its own
    num_threads: i64  # threads of that pool


TORCH_CALL = TorchCall.c_layout
NO_MEMORY = -(1 << 32)
"""The status if an input with elements has no memory; the runtime's are 32-bit numbers."""


@inlined
def read_numbers(words: Array[i64], args: Array[Pointer], count: i64) -> None:
    """Store the numbers of Python integers."""
    for index in range(count):
        words[index] = number_of(args[index])


@inlined
def read_dims(record: TorchCall, dims: Array[i64], args: Array[Pointer], in_dims: Dims) -> None:
    """Store the dimensions of all inputs; `args` are those that the call passes."""
    memcpy(dims, record.dims, record.num_dims * 8)
    for index in range(record.num_open):
        dims[record.slots[index]] = number_of(args[index])
    for row in range(record.num_inputs):
        in_dims[row] = Array[i64].at(dims + record.rows[row] * 8)


@native
def has_elements(record: TorchCall, in_dims: Dims, row: i64) -> bool:
    """Whether no dimension of an input is 0."""
    for axis in range(0, record.rows[row + 1] - record.rows[row]):
        if in_dims[row][axis] == 0:
            return False
    return True


@inlined
def lacks_memory(record: TorchCall, inputs: Array[i64], in_dims: Dims) -> bool:
    """Whether an input has elements but no address, like fake tensors."""
    for row in range(record.num_inputs):
        if inputs[row] == 0 and has_elements(record, in_dims, row):
            return True
    return False


@inlined
def run(record: TorchCall, inputs: Buffers, outputs: Buffers, sizes: Array[i64]) -> i32:
    """Execute with the record's threads and use of the GIL; return the status."""
    program = record.program
    if record.releases_gil == 0:
        return ingot_execute(program, inputs, outputs, sizes)
    # A copy for each execution, since profiling and interrupts write into the shared one.
    own = Runtime.on_stack()
    runtime = program.runtime
    pool = record.pool
    if pool is not None:
        memcpy(own, runtime, sizeof(Runtime))
        own.pool = pool
        own.num_threads = record.num_threads
        runtime = own
    thread = save_thread()
    status = ingot_execute_python(program, runtime, inputs, outputs, sizes)
    restore_thread(thread)
    return status


@exported("ingot_torch_call")
def torch_call(self: Pointer, args: Array[Pointer], nargs: i64) -> Pointer | None:
    """Run a program on addresses; return its status."""
    record = TorchCall.at(capsule_pointer(self, None))
    inputs = Array[i64].on_stack(record.num_inputs)
    read_numbers(inputs, args, record.num_inputs)
    rest = Array[Pointer].at(args + record.num_inputs * 8)
    outputs = Array[i64].on_stack(record.num_outputs)
    read_numbers(outputs, rest, record.num_outputs)
    dims = Array[i64].on_stack(record.num_dims)
    in_dims = Dims.on_stack(record.num_inputs)
    read_dims(record, dims, Array[Pointer].at(rest + record.num_outputs * 8), in_dims)
    sizes = Array[i64].on_stack(record.program.num_sizes)
    status = ingot_prepare(record.program, in_dims, sizes)
    if unlikely(status != 0):
        return int_of(i64(status))
    if lacks_memory(record, inputs, in_dims):
        return int_of(NO_MEMORY)
    return int_of(i64(run(record, Buffers.at(inputs), Buffers.at(outputs), sizes)))


ENTRY = symbol_of(torch_call)


@cache
def _library() -> Library:
    """Return the library with `ENTRY`; compiled once per machine, linked once per process."""
    runtime = native_runtime()
    addresses = {name: runtime.address(name) for name in external_symbols(entries)}
    packages = ("artifact", "runtime", "frontends/torch")
    data = compiled("ingot_torch_call", packages, lambda: [torch_call])
    return link_object([data], {**addresses, **python_addresses()})


def make_call(
    program: Program,
    dims: Sequence[Sequence[int | None]],
    *,
    releases_gil: bool,
    threads: int | None = None,
) -> Callable[..., int]:
    """Return the built-in that runs `program`.

    Args:
        program: the compiled program; the built-in keeps it alive.
        dims: the dimensions of each parameter; None for sizes that each call passes.
        releases_gil: whether other threads of Python may run meanwhile.
        threads: the threads that run it; None: those of the process.

    Returns:
        A function of the addresses of inputs, those of outputs, and the sizes that are open, in
        the order of `dims`. Its result is 0, `NO_MEMORY`, or a status for
        `runtime.execution.status_error`.
    """
    flat = [size for row in dims for size in row]
    starts = [sum(map(len, dims[:number])) for number in range(len(dims) + 1)]
    slots = [index for index, size in enumerate(flat) if size is None]
    tables = [int64_array([size or 0 for size in flat]), int64_array(starts), int64_array(slots)]
    record: Any = TORCH_CALL.structure()
    record.program = program.record_address
    record.num_inputs, record.num_outputs = len(dims), len(program.info.outputs)
    record.num_dims, record.num_open = len(flat), len(slots)
    record.dims, record.rows, record.slots = map(ctypes.addressof, tables)
    record.releases_gil = int(releases_gil or threads is not None)
    if threads is not None:
        record.pool, record.num_threads = pool_of(threads), threads
    address, kept = _library().address(ENTRY), (record, program, *tables)
    return fastcall(ENTRY.encode(), address, ctypes.addressof(record), kept)
