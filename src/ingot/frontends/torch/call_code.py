# SPDX-License-Identifier: Apache-2.0
"""The machine code between the Python wrapper and a compiled program: addresses in, a status out.

`ingot_torch_call(self, args, nargs)` is a METH_FASTCALL built-in; `self` is a capsule around an
`IngotTorchCall` record. Its arguments are Python integers: the address of each input, then that of
each output, then the sizes that the record leaves open. It returns the status of
`runtime.execute` (0: done), or `NO_MEMORY` where an input with elements has the address 0. The
wrapper allocates outputs with PyTorch's allocator, so nothing is converted on the way.

Invariants: the record's layout of arguments is that of the program; the caller keeps all tensors
alive during the call. Long runs give up the GIL, and Ctrl-C ends them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ingot.client.threads import pool_of
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import Library, link_object
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import I32, I64, PTR, VOID, Type
from ingot.llvm.values import FunctionRef, Value, zero
from ingot.native.layout import Field, Record
from ingot.runtime.builtins import fastcall
from ingot.runtime.execute import emit_stack_array
from ingot.runtime.native import native_runtime
from ingot.runtime.program import Program
from ingot.runtime.records import PROGRAM, RUNTIME

TORCH_CALL = Record(
    "IngotTorchCall",
    Field("program", "ptr", note="IngotProgram"),
    Field("num_inputs", "i64"),
    Field("num_outputs", "i64"),
    Field("num_dims", "i64", note="dimensions of all inputs together"),
    Field("num_open", "i64", note="dimensions that each call gives"),
    Field("dims", "ptr", note="int64_t[num_dims]"),
    Field("rows", "ptr", note="int64_t[num_inputs + 1]: where the dimensions of each input begin"),
    Field("slots", "ptr", note="int64_t[num_open]: which dimensions the call gives"),
    Field("releases_gil", "i64", note="not 0: the program runs without the GIL"),
    Field("pool", "ptr", note="IngotPool of its own, or null"),
    Field("num_threads", "i64", note="threads of that pool"),
)

ENTRY = "ingot_torch_call"
NO_MEMORY = -(1 << 31)
"""The status where an input with elements has no memory; the runtime's statuses are others."""

_PYTHON_FUNCTIONS: dict[str, tuple[Type, tuple[Type, ...]]] = {
    "PyCapsule_GetPointer": (PTR, (PTR, PTR)),
    "PyLong_AsUnsignedLongLong": (I64, (PTR,)),
    "PyLong_FromLong": (PTR, (I64,)),
    "PyEval_SaveThread": (PTR, ()),
    "PyEval_RestoreThread": (VOID, (PTR,)),
}
_RUNTIME_FUNCTIONS: dict[str, tuple[Type, tuple[Type, ...]]] = {
    "ingot_prepare": (I32, (PTR, PTR, PTR)),
    "ingot_execute": (I32, (PTR, PTR, PTR, PTR)),
    "ingot_execute_python": (I32, (PTR, PTR, PTR, PTR, PTR)),
}


class _Emitter:
    def __init__(self) -> None:
        self.module = ModuleBuilder("ingot_torch_call")
        self._functions: dict[str, FunctionRef] = {
            name: self.module.declare(name, result, list(params))
            for name, (result, params) in {**_PYTHON_FUNCTIONS, **_RUNTIME_FUNCTIONS}.items()
        }

    def _call(self, f: FunctionBuilder, name: str, *args: Value) -> Value:
        return f.call(self._functions[name], list(args))

    def text(self) -> str:
        f = self.module.function(ENTRY, PTR, [("self", PTR), ("args", PTR), ("nargs", I64)])
        capsule, args, _ = f.params
        record = self._call(f, "PyCapsule_GetPointer", capsule, zero(PTR))
        num_inputs = TORCH_CALL.load(f, record, "num_inputs")
        num_outputs = TORCH_CALL.load(f, record, "num_outputs")
        inputs = self._words(f, args, f.const(I64, 0), num_inputs)
        outputs = self._words(f, args, num_inputs, num_outputs)
        in_dims = self._dims(f, record, args, f.add(num_inputs, num_outputs))
        program = TORCH_CALL.load(f, record, "program")
        sizes = emit_stack_array(f, I64, PROGRAM.load(f, program, "num_sizes"))
        status = self._call(f, "ingot_prepare", program, in_dims, sizes)

        def refuse() -> None:
            f.ret(self._call(f, "PyLong_FromLong", f.sext(status, I64)))

        f.if_(f.icmp("ne", status, f.const(I32, 0)), refuse, likely=False)
        self._refuse_missing(f, record, inputs, in_dims)
        ran = self._execute(f, record, [program, inputs, outputs, sizes])
        f.ret(self._call(f, "PyLong_FromLong", f.sext(ran, I64)))
        return self.module.text()

    def _words(self, f: FunctionBuilder, args: Value, first: Value, count: Value) -> Value:
        """Return `count` arguments from `first` on as words on the stack."""
        words = emit_stack_array(f, I64, count)

        def one(index: Value, _: list[Value]) -> None:
            item = f.load(PTR, f.gep(args, f.add(first, index), PTR))
            f.store(self._call(f, "PyLong_AsUnsignedLongLong", item), f.gep(words, index, I64))

        f.loop(0, count, 1, [], one)
        return words

    def _dims(self, f: FunctionBuilder, record: Value, args: Value, first: Value) -> Value:
        """Return a pointer to the dimensions of each input, with the sizes of this call."""
        count = TORCH_CALL.load(f, record, "num_dims")
        dims = emit_stack_array(f, I64, count)
        f.memcpy(dims, TORCH_CALL.load(f, record, "dims"), f.mul(count, f.const(I64, 8)))
        slots = TORCH_CALL.load(f, record, "slots")

        def give(index: Value, _: list[Value]) -> None:
            item = f.load(PTR, f.gep(args, f.add(first, index), PTR))
            slot = f.load(I64, f.gep(slots, index, I64))
            f.store(self._call(f, "PyLong_AsUnsignedLongLong", item), f.gep(dims, slot, I64))

        f.loop(0, TORCH_CALL.load(f, record, "num_open"), 1, [], give)
        num_inputs = TORCH_CALL.load(f, record, "num_inputs")
        in_dims = emit_stack_array(f, PTR, num_inputs)
        rows = TORCH_CALL.load(f, record, "rows")

        def row(index: Value, _: list[Value]) -> None:
            start = f.gep(dims, f.load(I64, f.gep(rows, index, I64)), I64)
            f.store(start, f.gep(in_dims, index, PTR))

        f.loop(0, num_inputs, 1, [], row)
        return in_dims

    def _refuse_missing(
        self, f: FunctionBuilder, record: Value, inputs: Value, dims: Value
    ) -> None:
        """Return `NO_MEMORY` if an input has elements and no address, as fake tensors do."""
        rows = TORCH_CALL.load(f, record, "rows")
        nothing = f.const(I64, 0)

        def refuse() -> None:
            f.ret(self._call(f, "PyLong_FromLong", f.const(I64, NO_MEMORY)))

        def one(index: Value, _: list[Value]) -> None:
            def has_elements() -> None:
                first = f.load(I64, f.gep(rows, index, I64))
                end = f.load(I64, f.gep(rows, f.add(index, f.const(I64, 1)), I64))
                sizes = f.load(PTR, f.gep(dims, index, PTR))

                def grow(axis: Value, count: list[Value]) -> list[Value]:
                    return [f.mul(count[0], f.load(I64, f.gep(sizes, axis, I64)))]

                (count,) = f.loop(0, f.sub(end, first), 1, [f.const(I64, 1)], grow)
                f.if_(f.icmp("ne", count, nothing), refuse)

            address = f.load(I64, f.gep(inputs, index, I64))
            f.if_(f.icmp("eq", address, nothing), has_elements, likely=False)

        f.loop(0, TORCH_CALL.load(f, record, "num_inputs"), 1, [], one)

    def _execute(self, f: FunctionBuilder, record: Value, values: list[Value]) -> Value:
        program, *rest = values

        def without_gil() -> list[Value]:
            runtime = self._runtime(f, record, program)
            thread = self._call(f, "PyEval_SaveThread")
            ran = self._call(f, "ingot_execute_python", program, runtime, *rest)
            self._call(f, "PyEval_RestoreThread", thread)
            return [ran]

        def with_gil() -> list[Value]:
            return [self._call(f, "ingot_execute", *values)]

        releases = f.icmp("ne", TORCH_CALL.load(f, record, "releases_gil"), f.const(I64, 0))
        return f.if_(releases, without_gil, with_gil)[0]

    def _runtime(self, f: FunctionBuilder, record: Value, program: Value) -> Value:
        """Return the runtime to run on: the process's, or a copy that leads to another pool."""
        shared = PROGRAM.load(f, program, "runtime")
        pool = TORCH_CALL.load(f, record, "pool")
        size = ctypes.sizeof(RUNTIME.structure)
        copy = emit_stack_array(f, I64, f.const(I64, -(-size // 8)))

        def own() -> list[Value]:
            # A copy for each execution: who profiles or interrupts programs writes the shared one.
            f.memcpy(copy, shared, f.const(I64, size))
            RUNTIME.store(f, copy, "pool", pool)
            RUNTIME.store(f, copy, "num_threads", TORCH_CALL.load(f, record, "num_threads"))
            return [copy]

        return f.if_(f.icmp("eq", pool, zero(PTR)), lambda: [shared], own)[0]


@cache
def _library() -> Library:
    """Return the library with `ENTRY`; compiled once per machine, linked once per process."""
    runtime = native_runtime()
    addresses = {
        **{name: _python_address(name) for name in _PYTHON_FUNCTIONS},
        **{name: runtime.address(name) for name in _RUNTIME_FUNCTIONS},
    }
    return link_object([compile_object(_Emitter().text(), TargetSpec.host())], addresses)


def _python_address(name: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


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
        dims: the dimensions of each parameter; None where each call gives the size.
        releases_gil: whether other threads of Python may run meanwhile.
        threads: how many threads run it; None: those of the process.

    Returns:
        A function of the addresses of inputs, those of outputs, and the sizes that are open, in
        the order of `dims`. Its result is 0, `NO_MEMORY`, or a status for
        `runtime.execution.status_error`.
    """
    flat = [size for row in dims for size in row]
    starts = [sum(map(len, dims[:number])) for number in range(len(dims) + 1)]
    slots = [index for index, size in enumerate(flat) if size is None]
    tables = [_words([size or 0 for size in flat]), _words(starts), _words(slots)]
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


def _words(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * max(1, len(values)))(*values)
