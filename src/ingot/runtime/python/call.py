# SPDX-License-Identifier: Apache-2.0
"""The Python call: one METH_FASTCALL function for all programs, native.

`ingot_python_call(self, args, nargs)` is what `Program.call` is made of. `self` is the program's
ctypes record (its data pointer is read from the object). Arguments that are NumPy arrays of just
the right type, layout and static dims go straight to machine code; anything else goes to the
Python function in `PYTHON.refuse`, which converts or explains. Outputs are new NumPy arrays over
blocks of our allocator, given back by NumPy itself through our memory handler (NEP 49).

Invariants: the object is the same in every process (see `python.objects`). Every path gives back
what it took.

The GIL: calls that touch at least `release_gil_bytes` (inputs and outputs and arena) run without
it. Below that, releasing costs more than it can give: about 100 ns here, and the time to get it
back if another thread took it meanwhile (up to the switch interval of 5 ms).
"""

from __future__ import annotations

from ingot.artifact.abi import ARENA_SLOT
from ingot.native.functions import cold, exported, inlined, native
from ingot.native.operations import memcpy, unlikely
from ingot.native.pointers import Array, Pointer
from ingot.native.types import i32, i64
from ingot.runtime.executor.execute import OUT_OF_MEMORY, execute, prepare
from ingot.runtime.memory.allocator import allocate, free
from ingot.runtime.python.arrays import drop_arrays, finish, new_output, read_arguments
from ingot.runtime.python.interrupts import execute_python
from ingot.runtime.python.objects import CPYTHON, ArrayObject, RecordObject
from ingot.runtime.records import Buffers, Dims, Program


@cold
@native
def refuse(self: Pointer, args: Array[ArrayObject], nargs: i64) -> Pointer | None:
    """Leave a call to Python."""
    values = Array[Pointer].on_stack(nargs + 1)
    values[0] = self
    memcpy(values + 8, args, nargs * 8)
    return CPYTHON.vectorcall(CPYTHON.refuse, values, nargs + 1, None)


@cold
@native
def fail(self: Pointer, args: Array[ArrayObject], nargs: i64, status: i32) -> Pointer | None:
    """Let Python raise what `status` means."""
    number = CPYTHON.long_from_long(i64(status))
    if number is None:
        return None
    values = Array[Pointer].on_stack(nargs + 2)
    values[0] = self
    values[1] = number
    memcpy(values + 16, args, nargs * 8)
    result = CPYTHON.vectorcall(CPYTHON.fail, values, nargs + 2, None)
    CPYTHON.dec_ref(number)
    return result


@inlined
def run(
    program: Program, touched: i64, inputs: Buffers, outputs: Buffers, sizes: Array[i64]
) -> i32:
    """Execute, without the GIL if the call touches many bytes; return the status."""
    if touched < program.release_gil_bytes:
        return execute(program, inputs, outputs, sizes)
    thread = CPYTHON.save_thread()
    status = execute_python(program, program.runtime, inputs, outputs, sizes)
    CPYTHON.restore_thread(thread)
    return status


@exported("ingot_python_call")
def python_call(self: RecordObject, args: Array[ArrayObject], nargs: i64) -> Pointer | None:
    """Run a program on NumPy arrays; return its outputs, or null with an exception."""
    program = Program.at(self.data)
    if unlikely(nargs != program.num_params):
        return refuse(self, args, nargs)
    inputs = Buffers.on_stack(nargs)
    in_dims = Dims.on_stack(nargs)
    touched: i64 = read_arguments(program, args, inputs, in_dims)
    if unlikely(touched < 0):
        return refuse(self, args, nargs)
    sizes = Array[i64].on_stack(program.num_sizes)
    # A violated constraint is explained by Python, which knows the arguments' names.
    if unlikely(prepare(program, in_dims, sizes) != 0):
        return refuse(self, args, nargs)
    touched += sizes[ARENA_SLOT]
    outputs = Buffers.on_stack(program.num_outputs)
    arrays = Array[Pointer].on_stack(program.num_outputs)
    for index in range(program.num_outputs):
        output = program.outputs[index]
        size = sizes[output.bytes_slot]
        data = allocate(size)
        if data is None:
            drop_arrays(arrays, index)
            return fail(self, args, nargs, OUT_OF_MEMORY)
        array = new_output(output, sizes, data)
        if array is None:
            free(data)
            drop_arrays(arrays, index)
            return None
        outputs[index] = data
        arrays[index] = array
        touched += size
    status = run(program, touched, inputs, outputs, sizes)
    if unlikely(status != 0):
        drop_arrays(arrays, program.num_outputs)
        return fail(self, args, nargs, status)
    return finish(arrays, program.num_outputs)
