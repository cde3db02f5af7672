# SPDX-License-Identifier: Apache-2.0
"""The Python call, emitted: one METH_FASTCALL function for all programs.

`ingot_python_call(self, args, nargs)` is what `Program.call` is made of. `self` is the program's
ctypes record (its data pointer is read from the object). Arguments that are NumPy arrays of just
the right type, layout and static dims go straight to machine code; anything else goes to the
Python function in `PYTHON.refuse`, which converts or explains. Outputs are new NumPy arrays over
blocks of our allocator, given back by NumPy itself through our memory handler (NEP 49).

Invariants: the object is the same in every process (see `python_arrays`). Every path gives back
what it took.

The GIL: calls that touch at least `release_gil_bytes` (inputs and outputs and arena) run without
it. Below that, releasing costs more than it can give: about 100 ns here, and the time to get it
back if another thread took it meanwhile (up to the switch interval of 5 ms).
"""

from __future__ import annotations

from ingot.artifact.abi import ARENA_SLOT
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.types import I32, I64, PTR, VOID
from ingot.llvm.values import FunctionRef, Value, zero
from ingot.runtime.allocator import AllocatorFunctions
from ingot.runtime.execute import OUT_OF_MEMORY, ExecuteFunctions, emit_stack_array
from ingot.runtime.python_arrays import (
    OBJECT,
    call_python,
    emit_drop,
    emit_finish,
    emit_new_output,
    emit_read_arguments,
    is_null,
)
from ingot.runtime.python_interrupts import emit_execute_python
from ingot.runtime.records import OUTPUT, PROGRAM, PYTHON


def emit_python_call(
    module: ModuleBuilder, python: Value, allocator: AllocatorFunctions, execute: ExecuteFunctions
) -> None:
    """Add `ingot_python_call` to `module`; `python` points to a PYTHON record."""
    watched = emit_execute_python(module, python, execute.execute_watched)
    _Call(module, python, allocator, execute, watched).emit()


def _emit_delegate(
    module: ModuleBuilder, python: Value, target: str, with_status: bool
) -> FunctionRef:
    """`ptr (self, args, nargs[, status])`: call a Python function with self (, status), args."""
    params = [("self", PTR), ("args", PTR), ("nargs", I64)]
    if with_status:
        params.append(("status", I32))
    name = f"ingot_python_{target}"
    f = module.function(name, PTR, params, linkage="internal", attrs="nounwind noinline cold")
    own = len(params) - 2
    all_args = emit_stack_array(f, PTR, f.add(f.params[2], f.const(I64, own)))
    f.store(f.params[0], all_args)
    number = zero(PTR)
    if with_status:
        number = call_python(f, python, "long_from_long", PTR, [f.sext(f.params[3], I64)])
        f.if_(is_null(f, number), lambda: f.ret(zero(PTR)))
        f.store(number, f.gep(all_args, 1, PTR))
    f.memcpy(f.gep(all_args, own, PTR), f.params[1], f.mul(f.params[2], f.const(I64, 8)))
    function = PYTHON.load(f, python, target)
    count = f.add(f.params[2], f.const(I64, own))
    result = call_python(f, python, "vectorcall", PTR, [function, all_args, count, zero(PTR)])
    if with_status:
        call_python(f, python, "dec_ref", VOID, [number])
    f.ret(result)
    return f.reference


class _Call:
    """`ptr ingot_python_call(self, args, nargs)` under construction."""

    def __init__(
        self,
        module: ModuleBuilder,
        python: Value,
        allocator: AllocatorFunctions,
        execute: ExecuteFunctions,
        execute_python: FunctionRef,
    ) -> None:
        self.python = python
        self.execute_python = execute_python
        self.allocator = allocator
        self.execute = execute
        self.read = emit_read_arguments(module, python)
        self.refusal = _emit_delegate(module, python, "refuse", with_status=False)
        self.failure = _emit_delegate(module, python, "fail", with_status=True)
        self.new_output = emit_new_output(module, python)
        self.drop = emit_drop(module, python)
        self.finish = emit_finish(module, python, self.drop)
        params = [("self", PTR), ("args", PTR), ("nargs", I64)]
        self.f = module.function("ingot_python_call", PTR, params)
        self.program = self.f.load(PTR, self.f.gep(self.f.params[0], OBJECT.record_data))

    def emit(self) -> None:
        """Write the whole function."""
        f, program = self.f, self.program
        _, args, nargs = f.params
        wrong_count = f.icmp("ne", nargs, PROGRAM.load(f, program, "num_params"))
        f.if_(wrong_count, self.refuse, likely=False)
        inputs, in_dims = emit_stack_array(f, PTR, nargs), emit_stack_array(f, PTR, nargs)
        read = f.call(self.read, [program, args, inputs, in_dims])
        f.if_(f.icmp("slt", read, f.const(I64, 0)), self.refuse, likely=False)
        sizes = emit_stack_array(f, I64, PROGRAM.load(f, program, "num_sizes"))
        status = f.call(self.execute.prepare, [program, in_dims, sizes])
        # A violated constraint is explained by Python, which knows the arguments' names.
        f.if_(f.icmp("ne", status, f.const(I32, 0)), self.refuse, likely=False)
        count = PROGRAM.load(f, program, "num_outputs")
        outputs, arrays = emit_stack_array(f, PTR, count), emit_stack_array(f, PTR, count)
        arena = f.load(I64, f.gep(sizes, ARENA_SLOT, I64))
        (total,) = f.loop(
            *(0, count, 1, [f.add(read, arena)]),
            lambda index, totals: [
                f.add(totals[0], self.make_output(index, sizes, outputs, arrays))
            ],
        )
        status = self.run(total, [program, inputs, outputs, sizes])

        def failed() -> None:
            f.call(self.drop, [arrays, count])
            self.fail(status)

        f.if_(f.icmp("ne", status, f.const(I32, 0)), failed, likely=False)
        f.ret(f.call(self.finish, [arrays, count]))

    def refuse(self) -> None:
        """Leave the call to Python."""
        self.f.ret(self.f.call(self.refusal, self.f.params))

    def fail(self, status: Value) -> None:
        """Let Python raise what `status` means."""
        self.f.ret(self.f.call(self.failure, [*self.f.params, status]))

    def make_output(self, index: Value, sizes: Value, outputs: Value, arrays: Value) -> Value:
        """Make output `index`; return its bytes."""
        f = self.f
        output = OUTPUT.element(f, PROGRAM.load(f, self.program, "outputs"), index)
        size = f.load(I64, f.gep(sizes, OUTPUT.load(f, output, "bytes_slot"), I64))
        data = f.call(self.allocator.allocate, [size])

        def no_memory() -> None:
            f.call(self.drop, [arrays, index])
            self.fail(f.const(I32, OUT_OF_MEMORY))

        f.if_(is_null(f, data), no_memory, likely=False)
        array = f.call(self.new_output, [output, sizes, data])

        def no_array() -> None:
            f.call(self.allocator.free, [data])
            f.call(self.drop, [arrays, index])
            f.ret(zero(PTR))

        f.if_(is_null(f, array), no_array, likely=False)
        f.store(data, f.gep(outputs, index, PTR))
        f.store(array, f.gep(arrays, index, PTR))
        return size

    def run(self, total: Value, args: list[Value]) -> Value:
        """Execute, without the GIL if the call touches many bytes; return the status."""
        f = self.f

        def without_gil() -> list[Value]:
            thread = call_python(f, self.python, "save_thread", PTR, [])
            program, *rest = args
            runtime = PROGRAM.load(f, program, "runtime")
            done = f.call(self.execute_python, [program, runtime, *rest])
            call_python(f, self.python, "restore_thread", VOID, [thread])
            return [done]

        def with_gil() -> list[Value]:
            return [f.call(self.execute.execute, args)]

        threshold = PROGRAM.load(f, self.program, "release_gil_bytes")
        return f.if_(f.icmp("sge", total, threshold), without_gil, with_gil)[0]
