# SPDX-License-Identifier: Apache-2.0
"""Direct access to variables, emitted: read without a copy, write in place.

TensorFlow's C API has no access to variables from a kernel, so this uses exported C++ functions
and the offsets of a few fields, which belong to the tested series; `variable_access` checks them
before any of this runs. What it saves is one op per read and per write.

The protocol is that of TensorFlow's own kernels: all variables are locked in the order of their
addresses. A variable that is only read is unlocked again once its buffer is held by a reference.
One that is written stays locked; its buffer is written in place if nobody else holds it and the
program allows it, and otherwise a new one takes its place when the program has succeeded.

A variant may have been compiled for the value of a variable, so it is looked for under the locks.
Where none fits, the values of small variables are copied for `miss`, and the locks are given back.

Invariants: every lock and reference is given back on every way out; a variable never holds a
buffer that somebody else saw before and that changed.
Source: TensorFlow's `framework/resource_var.h`, `framework/tensor.h`, `tsl/platform/refcount.h`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ingot.frontends.tensorflow import capi
from ingot.frontends.tensorflow.launch_records import (
    DONE,
    LAUNCH,
    NO_VARIANT,
    VARIABLE,
    VARIANT,
)
from ingot.frontends.tensorflow.series import LOCK, LOOKUP, UNLOCK
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import I8, I32, I64, PTR, VOID, Type
from ingot.llvm.values import FunctionRef, Value, zero
from ingot.runtime.execute import emit_stack_array
from ingot.runtime.records import OUTPUT, PROGRAM

if TYPE_CHECKING:
    from ingot.frontends.tensorflow.launch_code import LaunchEmitter


@dataclass(frozen=True, slots=True)
class ObjectOffsets:
    """Byte offsets in TensorFlow's objects (x86-64), and slots of their virtual tables."""

    variable_initialized: int = 24
    variable_copy_on_read: int = 25
    variable_mutex: int = 32
    variable_tensor: int = 40
    tensor_elements: int = 16
    tensor_buffer: int = 24
    tensor_bytes: int = 32
    references: int = 8
    buffer_data: int = 16
    delete_slot: int = 1
    notify_deleted_slot: int = 2
    status_ok: int = 1


AT = ObjectOffsets()

HANDLE_FROM_INPUT = "_ZN10tensorflow15HandleFromInputEPNS_15OpKernelContextEi"
NEW_TENSOR = "_ZN10tensorflow6TensorC1ENS_8DataTypeERKNS_11TensorShapeE"
DELETE_TENSOR = "_ZN10tensorflow6TensorD1Ev"
MOVE_TENSOR = "_ZN10tensorflow6TensoraSEOS0_"

VARIABLE_FUNCTIONS: dict[str, tuple[Type, tuple[Type, ...]]] = {
    LOCK: (VOID, (PTR,)),
    UNLOCK: (VOID, (PTR,)),
    HANDLE_FROM_INPUT: (PTR, (PTR, I32)),
    # absl::Status comes back through a hidden first pointer.
    LOOKUP: (PTR, (PTR, PTR, PTR, PTR)),
    NEW_TENSOR: (VOID, (PTR, I32, PTR)),
    DELETE_TENSOR: (VOID, (PTR,)),
    MOVE_TENSOR: (PTR, (PTR, PTR)),
}
"""C++ functions, by mangled name or by `series`'s: result type, parameter types."""

NOT_FOUND = "Ingot: a variable that the function uses does not exist any more."
TWICE = "Ingot: the same variable was given twice as an argument, and the function writes it."
NOT_READY = (
    "Ingot: a variable that the function uses is not initialized, or was given another shape after "
    "the function was traced."
)

Each = Callable[[Value], None]
Condition = Callable[[Value], Value]
CleanUp = Callable[[], None]

_NOTHING, _HOLDS_BUFFER, _HAS_NEW_TENSOR = 0, 1, 2


def emit_attempt_with_variables(
    emitter: LaunchEmitter, find: FunctionRef, run: FunctionRef, attempt: FunctionRef
) -> FunctionRef:
    """Add what does `attempt` for launches with variables; it calls `run` in the middle."""
    return _VariableAttempt(emitter, find, run).emit(attempt)


class _VariableAttempt:
    """Emits one function; attributes are the values that its steps share."""

    def __init__(self, emitter: LaunchEmitter, find: FunctionRef, run: FunctionRef) -> None:
        self._emitter = emitter
        self._find = find
        self._run = run
        names = ("record", "context", "ranks", "dims", "data", "status")
        self.f: FunctionBuilder = emitter.module.function(
            "ingot_launch_attempt_variables",
            I32,
            [(name, PTR) for name in names],
            linkage="internal",
        )

    def emit(self, attempt: FunctionRef) -> FunctionRef:
        f = self.f
        record, context, ranks, dims, data, status = f.params
        self.count = LAUNCH.load(f, record, "num_variables")
        self.rows = LAUNCH.load(f, record, "variables")
        self.outputs = LAUNCH.load(f, record, "num_outputs")
        none = f.icmp("eq", self.count, f.const(I64, 0))

        f.if_(none, lambda: f.ret(f.call(attempt, list(f.params))))
        self.variables = emit_stack_array(f, PTR, self.count)
        self.order = emit_stack_array(f, I64, self.count)
        self.modes = emit_stack_array(f, I64, self.count)
        self.buffers = emit_stack_array(f, PTR, self.count)
        self.tensors = emit_stack_array(f, I8, f.mul(self.count, f.const(I64, AT.tensor_bytes)))
        more = emit_stack_array(f, PTR, self.count)
        self._stop_if(self._look_up(context), NOT_FOUND, self._release_variables)
        self._sort()
        repeated = self._lock_all()

        def unlock_and_release() -> None:
            self._unlock_all()
            self._release_variables()

        self._stop_if(repeated, TWICE, unlock_and_release)
        self._stop_if(self._unready(data), NOT_READY, unlock_and_release)
        variant = f.call(self._find, [record, ranks, dims, data])

        def miss() -> None:
            self._copy_small(data)
            unlock_and_release()
            f.ret(f.const(I32, NO_VARIANT))

        f.if_(f.icmp("eq", variant, zero(PTR)), miss, likely=False)
        self._prepare(variant, data, more)
        ran = f.call(self._run, [record, context, variant, data, dims, more, status])
        again = f.icmp("ne", ran, f.const(I32, DONE))
        f.if_(again, lambda: self._copy_small(data), likely=False)
        self._finish(f.and_(f.icmp("eq", ran, f.const(I32, DONE)), self._is_good(status)))
        self._release_variables()
        f.ret(ran)
        return f.reference

    def _is_good(self, status: Value) -> Value:
        return self.f.icmp("eq", self._call("TF_GetCode", status), self.f.const(I32, 0))

    def _call(self, name: str, *args: Value) -> Value:
        return self._emitter.call(self.f, name, *args)

    def _each(self, body: Each) -> None:
        def one(index: Value, _: list[Value]) -> None:
            body(index)

        self.f.loop(0, self.count, 1, [], one)

    def _count(self, condition: Condition) -> Value:
        """Return how many variables meet a condition."""

        def one(index: Value, total: list[Value]) -> list[Value]:
            return [self.f.add(total[0], self.f.zext(condition(index), I64))]

        (total,) = self.f.loop(0, self.count, 1, [self.f.const(I64, 0)], one)
        return total

    def _stop_if(self, problems: Value, text: str, clean_up: CleanUp) -> None:
        f = self.f

        def stop() -> None:
            clean_up()
            message = self._emitter.message(f"variable_problem_{len(text)}", text)
            self._call("TF_SetStatus", f.params[5], f.const(I32, capi.INVALID_ARGUMENT), message)
            f.ret(f.const(I32, DONE))

        f.if_(f.icmp("ne", problems, f.const(I64, 0)), stop, likely=False)

    def _variable(self, index: Value) -> Value:
        return self.f.load(PTR, self.f.gep(self.variables, index, PTR))

    def _row(self, index: Value) -> Value:
        return VARIABLE.element(self.f, self.rows, index)

    def _is_written(self, index: Value) -> Value:
        result = VARIABLE.load(self.f, self._row(index), "result")
        return self.f.icmp("sge", result, self.f.const(I64, 0))

    def _look_up(self, context: Value) -> Value:
        """Fill `variables`; return how many were not found."""
        f = self.f
        outcome = f.alloca(I64)

        def one(index: Value) -> Value:
            slot = f.gep(self.variables, index, PTR)
            f.store(zero(PTR), slot)
            number = f.trunc(VARIABLE.load(f, self._row(index), "input"), I32)
            handle = self._call(HANDLE_FROM_INPUT, context, number)
            self._call(LOOKUP, outcome, context, handle, slot)
            return f.icmp("eq", f.load(PTR, slot), zero(PTR))

        return self._count(one)

    def _sort(self) -> None:
        """Put the indices into `order` by address; mostly they are in order already."""
        f = self.f

        def insert(index: Value) -> None:
            mine = f.ptrtoint(self._variable(index))

            def is_larger(values: list[Value]) -> Value:
                at = values[0]
                inside = f.icmp("sgt", at, f.const(I64, 0))
                safe = f.select(inside, f.sub(at, f.const(I64, 1)), f.const(I64, 0))
                # Before the first insertion `order` is not filled: index 0 is its own neighbour.
                neighbour = f.select(inside, f.load(I64, f.gep(self.order, safe, I64)), index)
                return f.and_(inside, f.icmp("ugt", f.ptrtoint(self._variable(neighbour)), mine))

            def shift(values: list[Value]) -> list[Value]:
                before = f.sub(values[0], f.const(I64, 1))
                moved = f.load(I64, f.gep(self.order, before, I64))
                f.store(moved, f.gep(self.order, values[0], I64))
                return [before]

            (place,) = f.while_([index], is_larger, shift)
            f.store(index, f.gep(self.order, place, I64))

        f.store(f.const(I64, 0), self.order)
        self._each(insert)

    def _ordered(self, at: Value) -> Value:
        return self._variable(self.f.load(I64, self.f.gep(self.order, at, I64)))

    def _is_repeated(self, at: Value) -> Value:
        f = self.f
        inside = f.icmp("sgt", at, f.const(I64, 0))
        before = f.select(inside, f.sub(at, f.const(I64, 1)), at)
        same = f.icmp("eq", self._ordered(before), self._ordered(at))
        return f.and_(inside, same)

    def _mutex(self, variable: Value) -> Value:
        return self.f.gep(variable, AT.variable_mutex)

    def _lock_all(self) -> Value:
        """Lock each variable once; return how many are there twice."""
        f = self.f

        def one(at: Value) -> Value:
            repeated = self._is_repeated(at)
            fresh = f.xor(repeated, f.as_condition(True))
            f.if_(fresh, lambda: _drop(self._call(LOCK, self._mutex(self._ordered(at)))))
            return repeated

        return self._count(one)

    def _unlock_all(self) -> None:
        f = self.f

        def one(at: Value) -> None:
            fresh = f.xor(self._is_repeated(at), f.as_condition(True))
            f.if_(fresh, lambda: _drop(self._call(UNLOCK, self._mutex(self._ordered(at)))))

        self._each(one)

    def _tensor(self, index: Value) -> Value:
        return self.f.gep(self._variable(index), AT.variable_tensor)

    def _unready(self, data: Value) -> Value:
        """Fill `data` with the variables' memory; return how many are not initialized or fit."""
        f = self.f

        def one(index: Value) -> Value:
            f.store(self._data_of(self._tensor(index))[1], self._data_slot(index, data))
            ready = f.load(I8, f.gep(self._variable(index), AT.variable_initialized))
            elements = f.load(I64, f.gep(self._tensor(index), AT.tensor_elements))
            wanted = VARIABLE.load(f, self._row(index), "elements")
            missing = f.icmp("eq", ready, f.const(I8, 0))
            return f.or_(missing, f.icmp("ne", elements, wanted))

        return self._count(one)

    def _data_slot(self, index: Value, data: Value) -> Value:
        return self.f.gep(data, VARIABLE.load(self.f, self._row(index), "input"), PTR)

    def _copy_small(self, data: Value) -> None:
        """Point `data` at copies of the small variables, and at nothing for the others."""
        f = self.f

        def one(index: Value) -> None:
            slot = self._data_slot(index, data)
            copy = VARIABLE.load(f, self._row(index), "copy")
            memory = f.load(PTR, slot)

            def one_byte(at: Value, _: list[Value]) -> None:
                f.store(f.load(I8, f.gep(memory, at, I8)), f.gep(copy, at, I8))

            f.loop(0, VARIABLE.load(f, self._row(index), "copy_bytes"), 1, [], one_byte)
            f.store(copy, slot)

        self._each(one)

    def _data_of(self, tensor: Value) -> tuple[Value, Value]:
        """Return a tensor's buffer and its memory; both null for an empty tensor."""
        f = self.f
        buffer = f.load(PTR, f.gep(tensor, AT.tensor_buffer))
        some = f.icmp("ne", buffer, zero(PTR))

        def read() -> list[Value]:
            return [f.load(PTR, f.gep(buffer, AT.buffer_data))]

        (data,) = f.if_(some, read, otherwise=[zero(PTR)])
        return buffer, data

    def _prepare(self, variant: Value, data: Value, more: Value) -> None:
        """Hold the buffers that are read, and fill `more` with the memory of new values."""
        f = self.f
        infos = PROGRAM.load(f, VARIANT.load(f, variant, "program"), "outputs")

        def one(index: Value) -> None:
            buffer = self._data_of(self._tensor(index))[0]
            memory = f.load(PTR, self._data_slot(index, data))
            f.store(buffer, f.gep(self.buffers, index, PTR))

            def written() -> list[Value]:
                return self._prepare_write(index, infos, buffer, memory, more)

            (mode,) = f.if_(
                self._is_written(index), written, lambda: self._prepare_read(index, buffer)
            )
            f.store(mode, f.gep(self.modes, index, I64))

        self._each(one)

    def _prepare_read(self, index: Value, buffer: Value) -> list[Value]:
        """Hold the buffer and unlock; a variable with sparse writers stays locked instead."""
        f = self.f
        sparse = f.load(I8, f.gep(self._variable(index), AT.variable_copy_on_read))
        shared = f.icmp("eq", sparse, f.const(I8, 0))
        holds = f.and_(shared, f.icmp("ne", buffer, zero(PTR)))

        def hold() -> list[Value]:
            f.atomicrmw("add", f.gep(buffer, AT.references), f.const(I64, 1))
            self._call(UNLOCK, self._mutex(self._variable(index)))
            return [f.const(I64, _HOLDS_BUFFER)]

        return f.if_(holds, hold, otherwise=[f.const(I64, _NOTHING)])

    def _prepare_write(
        self, index: Value, infos: Value, buffer: Value, memory: Value, more: Value
    ) -> list[Value]:
        f = self.f
        result = VARIABLE.load(f, self._row(index), "result")
        slot = f.gep(more, f.sub(result, self.outputs), PTR)
        f.store(memory, slot)
        alias = OUTPUT.load(f, OUTPUT.element(f, infos, result), "alias_param")
        allowed = f.icmp("eq", alias, VARIABLE.load(f, self._row(index), "input"))
        some = f.icmp("ne", buffer, zero(PTR))

        def references() -> list[Value]:
            return [f.atomic_load(I64, f.gep(buffer, AT.references), "acquire")]

        (holders,) = f.if_(some, references, otherwise=[f.const(I64, 1)])
        alone = f.and_(allowed, f.icmp("eq", holders, f.const(I64, 1)))

        def new_tensor() -> list[Value]:
            tensor = self._new_tensor(index)
            kind = VARIABLE.load(f, self._row(index), "type")
            # A TensorShape is the first field of a Tensor.
            self._call(NEW_TENSOR, tensor, kind, self._tensor(index))
            f.store(self._data_of(tensor)[1], slot)
            return [f.const(I64, _HAS_NEW_TENSOR)]

        keep = f.or_(alone, f.icmp("eq", buffer, zero(PTR)))
        return f.if_(keep, lambda: [f.const(I64, _NOTHING)], new_tensor)

    def _new_tensor(self, index: Value) -> Value:
        return self.f.gep(self.tensors, self.f.mul(index, self.f.const(I64, AT.tensor_bytes)))

    def _finish(self, good: Value) -> None:
        """Put new tensors in place if the program succeeded; give back locks and buffers."""
        f = self.f

        def one(index: Value) -> None:
            mode = f.load(I64, f.gep(self.modes, index, I64))

            def replace() -> None:
                new = self._new_tensor(index)
                f.if_(good, lambda: _drop(self._call(MOVE_TENSOR, self._tensor(index), new)))
                self._call(DELETE_TENSOR, new)

            f.if_(f.icmp("eq", mode, f.const(I64, _HAS_NEW_TENSOR)), replace)

            def give_back() -> None:
                self._release(f.load(PTR, f.gep(self.buffers, index, PTR)))

            def unlock() -> None:
                self._call(UNLOCK, self._mutex(self._variable(index)))

            f.if_(f.icmp("eq", mode, f.const(I64, _HOLDS_BUFFER)), give_back, unlock)

        self._each(one)

    def _release(self, counted: Value) -> None:
        """Give back one reference; the last one deletes, as RefCounted::Unref does."""
        f = self.f
        references = f.gep(counted, AT.references)
        before = f.atomicrmw("sub", references, f.const(I64, 1))

        def delete() -> None:
            table = f.load(PTR, counted)
            for slot in (AT.notify_deleted_slot, AT.delete_slot):
                function = f.load(PTR, f.gep(table, slot, PTR))
                f.call_indirect(function, VOID, [PTR], [counted])

        f.if_(f.icmp("eq", before, f.const(I64, 1)), delete, likely=False)

    def _release_variables(self) -> None:
        f = self.f

        def one(index: Value) -> None:
            variable = self._variable(index)
            found = f.icmp("ne", variable, zero(PTR))
            f.if_(found, lambda: self._release(variable))

        self._each(one)


def _drop(_: object) -> None:
    """Make a branch that returns nothing of a call."""
