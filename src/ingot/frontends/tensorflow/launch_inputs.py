# SPDX-License-Identifier: Apache-2.0
"""What the kernels of the launch ops emit first: reading the op's inputs, and comparing values.

Invariant: `LaunchInputs.delete` deletes what `read` got, on every way out of a kernel.
Source: TensorFlow's `tensorflow/c/kernels.h`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ingot.frontends.tensorflow.launch_records import GUARD, LAUNCH, VARIABLE
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import I8, I32, I64, PTR
from ingot.llvm.values import Value, zero
from ingot.runtime.execute import emit_stack_array

if TYPE_CHECKING:
    from ingot.frontends.tensorflow.launch_code import LaunchEmitter

Choice = Callable[[Value], Value]


class LaunchInputs:
    """Emits how the kernel reads its inputs; the attributes are arrays on its stack.

    `tensors`: TF_Tensor* or null for a variable's handle; `data`: memory (a variable's is filled in
    later); `ranks`, `dims`: sizes, those of variables from the record.
    """

    def __init__(self, emitter: LaunchEmitter, f: FunctionBuilder, status: Value) -> None:
        """Make room for all inputs."""
        self._emitter, self._f, self._status = emitter, f, status
        self._record, self._context = f.params
        self._count = LAUNCH.load(f, self._record, "num_inputs")
        self._rows = LAUNCH.load(f, self._record, "rows")
        self._variables = LAUNCH.load(f, self._record, "variables")
        self.tensors = emit_stack_array(f, PTR, self._count)
        self.data = emit_stack_array(f, PTR, self._count)
        self.dims = emit_stack_array(f, PTR, self._count)
        self.ranks = emit_stack_array(f, I64, self._count)

    def read(self) -> None:
        """Get every tensor, its memory and its sizes."""
        f, zero_count = self._f, self._f.const(I64, 0)
        (total,) = f.loop(0, self._count, 1, [zero_count], self._read_one)
        self._sizes = emit_stack_array(f, I64, total)
        f.loop(0, self._count, 1, [zero_count], self._read_dims)

    def delete(self) -> None:
        """Delete the TF_Tensors."""
        f = self._f

        def one(index: Value, _: list[Value]) -> None:
            tensor = f.load(PTR, f.gep(self.tensors, index, PTR))
            some = f.icmp("ne", tensor, zero(PTR))
            f.if_(some, lambda: _drop(self._emitter.call(f, "TF_DeleteTensor", tensor)))

        f.loop(0, self._count, 1, [], one)

    def _row(self, index: Value) -> Value:
        return self._f.load(I64, self._f.gep(self._rows, index, I64))

    def _choose(self, index: Value, tensor: Choice, variable: Choice) -> Value:
        """Return the value for a tensor, or for the row of a variable."""
        f, row = self._f, self._row(index)
        is_tensor = f.icmp("slt", row, f.const(I64, 0))

        def of_variable() -> list[Value]:
            return [variable(VARIABLE.element(f, self._variables, row))]

        return f.if_(is_tensor, lambda: [tensor(index)], of_variable)[0]

    def _read_one(self, index: Value, total: list[Value]) -> list[Value]:
        f = self._f
        f.store(zero(PTR), f.gep(self.tensors, index, PTR))
        rank = self._choose(index, self._get, lambda row: VARIABLE.load(f, row, "rank"))
        f.store(rank, f.gep(self.ranks, index, I64))
        return [f.add(total[0], rank)]

    def _get(self, index: Value) -> Value:
        f, call = self._f, self._emitter.call
        slot = f.gep(self.tensors, index, PTR)
        call(f, "TF_GetInput", self._context, f.trunc(index, I32), slot, self._status)
        tensor = f.load(PTR, slot)
        f.store(call(f, "TF_TensorData", tensor), f.gep(self.data, index, PTR))
        return f.sext(call(f, "TF_NumDims", tensor), I64)

    def _read_dims(self, index: Value, at: list[Value]) -> list[Value]:
        f = self._f
        rank = f.load(I64, f.gep(self.ranks, index, I64))

        def of_tensor(index: Value) -> Value:
            here = f.gep(self._sizes, at[0], I64)
            tensor = f.load(PTR, f.gep(self.tensors, index, PTR))

            def one(axis: Value, _: list[Value]) -> None:
                size = self._emitter.call(f, "TF_Dim", tensor, f.trunc(axis, I32))
                f.store(size, f.gep(here, axis, I64))

            f.loop(0, rank, 1, [], one)
            return here

        here = self._choose(index, of_tensor, lambda row: VARIABLE.load(f, row, "dims"))
        f.store(here, f.gep(self.dims, index, PTR))
        return [f.add(at[0], rank)]


def emit_guards(f: FunctionBuilder, count: Value, guards: Value, data: Value) -> Value:
    """Return how many bytes of the inputs at `data` (`ptr[]`) differ from what guards say."""

    def one_guard(index: Value, found: list[Value]) -> list[Value]:
        guard = GUARD.element(f, guards, index)
        given = f.load(PTR, f.gep(data, GUARD.load(f, guard, "input"), PTR))
        wanted = GUARD.load(f, guard, "data")

        def one_byte(at: Value, total: list[Value]) -> list[Value]:
            here, there = (f.load(I8, f.gep(base, at, I8)) for base in (given, wanted))
            return [f.add(total[0], f.zext(f.icmp("ne", here, there), I64))]

        return f.loop(0, GUARD.load(f, guard, "bytes"), 1, found, one_byte)

    return f.loop(0, count, 1, [f.const(I64, 0)], one_guard)[0]


def _drop(_: object) -> None:
    """Make a branch that returns nothing of a call."""
