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

import ctypes
from functools import cache

from ingot.frontends.tensorflow import capi
from ingot.frontends.tensorflow.launch_inputs import emit_guards
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import Library, link_object
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import I8, I32, I64, PTR, VOID, Type
from ingot.llvm.values import FunctionRef, Value, zero
from ingot.native.layout import Field, Record
from ingot.runtime.execute import emit_stack_array
from ingot.runtime.native import native_runtime
from ingot.runtime.records import OUTPUT, PROGRAM

EAGER_CALL = Record(
    "IngotEagerCall",
    Field("program", "ptr", note="IngotProgram"),
    Field("num_inputs", "i64"),
    Field("num_outputs", "i64"),
    Field("sources", "ptr", note="int64_t[num_inputs]: index of the argument, or -1"),
    Field("captures", "ptr", note="void*[num_inputs]: data of captured tensors"),
    Field("sizes", "ptr", note="int64_t[num_sizes], computed once"),
    Field("output_types", "ptr", note="int32_t[num_outputs], TF_DataType"),
    Field("releases_gil", "i64", note="not 0: the program runs without the GIL"),
    Field("num_guards", "i64", note="values of inputs that the program was compiled for"),
    Field("guards", "ptr", note="IngotGuard[num_guards]"),
    Field("next", "ptr", note="the record for other values of the same inputs, or null"),
)

ENTRY = "ingot_eager_call"

_FUNCTIONS: dict[str, tuple[Type, tuple[Type, ...]]] = {
    "TF_NewStatus": (PTR, ()),
    "TF_DeleteStatus": (VOID, (PTR,)),
    "TF_GetCode": (I32, (PTR,)),
    "TF_AllocateTensor": (PTR, (I32, PTR, I32, I64)),
    "TF_TensorData": (PTR, (PTR,)),
    "TF_DeleteTensor": (VOID, (PTR,)),
    "TFE_TensorHandleDevicePointer": (PTR, (PTR, PTR)),
    "TFE_NewTensorHandle": (PTR, (PTR, PTR)),
    capi.EAGER_TENSOR_HANDLE: (PTR, (PTR,)),
    capi.EAGER_TENSOR_FROM_HANDLE: (PTR, (PTR, I8)),
}
_PYTHON_FUNCTIONS: dict[str, tuple[Type, tuple[Type, ...]]] = {
    "PyCapsule_GetPointer": (PTR, (PTR, PTR)),
    "PyTuple_New": (PTR, (I64,)),
    "PyTuple_SetItem": (I32, (PTR, I64, PTR)),
    "Py_IncRef": (VOID, (PTR,)),
    "PyEval_SaveThread": (PTR, ()),
    "PyEval_RestoreThread": (VOID, (PTR,)),
}
_EXECUTE = "ingot_execute"
_NOT_IMPLEMENTED = "ingot_not_implemented"


class _Emitter:
    def __init__(self) -> None:
        self.module = ModuleBuilder("ingot_tensorflow_eager")
        table = {**_FUNCTIONS, **_PYTHON_FUNCTIONS, _EXECUTE: (I32, (PTR, PTR, PTR, PTR))}
        self._functions: dict[str, FunctionRef] = {
            name: self.module.declare(name, result, list(params))
            for name, (result, params) in table.items()
        }

    def _call(self, f: FunctionBuilder, name: str, *args: Value) -> Value:
        return f.call(self._functions[name], list(args))

    def text(self) -> str:
        params = [("self", PTR), ("args", PTR), ("nargs", I64)]
        f = self.module.function(ENTRY, PTR, params)
        capsule, args, _ = f.params
        record = self._call(f, "PyCapsule_GetPointer", capsule, zero(PTR))
        count = EAGER_CALL.load(f, record, "num_outputs")
        inputs = emit_stack_array(f, PTR, EAGER_CALL.load(f, record, "num_inputs"))
        tensors = emit_stack_array(f, PTR, count)
        outputs = emit_stack_array(f, PTR, count)
        status = self._call(f, "TF_NewStatus")
        self._emit_inputs(f, record, args, inputs, status)
        good = f.icmp("eq", self._call(f, "TF_GetCode", status), f.const(I32, 0))
        self._call(f, "TF_DeleteStatus", status)

        def refuse() -> None:
            refusal = self.module.global_text(_NOT_IMPLEMENTED, "external global i8")
            self._call(f, "Py_IncRef", refusal)
            f.ret(refusal)

        f.if_(f.xor(good, f.as_condition(True)), refuse, likely=False)
        record = self._emit_choose(f, record, inputs)
        f.if_(f.icmp("eq", record, zero(PTR)), refuse, likely=False)
        self._emit_outputs(f, record, tensors, outputs)
        ran = self._emit_execute(f, record, inputs, outputs)
        done = f.icmp("eq", ran, f.const(I32, 0))
        f.if_(done, lambda: f.ret(self._wrap(f, tensors, count)), likely=True)
        self._delete(f, tensors, count)
        refuse()
        return self.module.text()

    def _emit_choose(self, f: FunctionBuilder, first: Value, inputs: Value) -> Value:
        """Return the record whose guards the inputs meet, or null."""

        def differs(found: list[Value]) -> Value:
            def compare() -> list[Value]:
                guards = EAGER_CALL.load(f, found[0], "guards")
                number = EAGER_CALL.load(f, found[0], "num_guards")
                return [emit_guards(f, number, guards, inputs)]

            some = f.icmp("ne", found[0], zero(PTR))
            (different,) = f.if_(some, compare, otherwise=[f.const(I64, 0)])
            return f.icmp("ne", different, f.const(I64, 0))

        def follow(found: list[Value]) -> list[Value]:
            return [EAGER_CALL.load(f, found[0], "next")]

        return f.while_([first], differs, follow)[0]

    def _emit_inputs(
        self, f: FunctionBuilder, record: Value, args: Value, inputs: Value, status: Value
    ) -> None:
        sources = EAGER_CALL.load(f, record, "sources")
        captures = EAGER_CALL.load(f, record, "captures")

        def one(index: Value, _: list[Value]) -> None:
            source = f.load(I64, f.gep(sources, index, I64))

            def captured() -> list[Value]:
                return [f.load(PTR, f.gep(captures, index, PTR))]

            def given() -> list[Value]:
                item = f.load(PTR, f.gep(args, source, PTR))
                handle = self._call(f, capi.EAGER_TENSOR_HANDLE, item)
                return [self._call(f, "TFE_TensorHandleDevicePointer", handle, status)]

            (data,) = f.if_(f.icmp("slt", source, f.const(I64, 0)), captured, given)
            f.store(data, f.gep(inputs, index, PTR))

        f.loop(0, EAGER_CALL.load(f, record, "num_inputs"), 1, [], one)

    def _emit_outputs(
        self, f: FunctionBuilder, record: Value, tensors: Value, outputs: Value
    ) -> None:
        sizes = EAGER_CALL.load(f, record, "sizes")
        types = EAGER_CALL.load(f, record, "output_types")
        infos = PROGRAM.load(f, EAGER_CALL.load(f, record, "program"), "outputs")

        def one(index: Value, _: list[Value]) -> None:
            info = OUTPUT.element(f, infos, index)
            dims = f.gep(sizes, OUTPUT.load(f, info, "dims_slot"), I64)
            size = f.load(I64, f.gep(sizes, OUTPUT.load(f, info, "bytes_slot"), I64))
            rank = f.trunc(OUTPUT.load(f, info, "rank"), I32)
            kind = f.load(I32, f.gep(types, index, I32))
            tensor = self._call(f, "TF_AllocateTensor", kind, dims, rank, size)
            f.store(tensor, f.gep(tensors, index, PTR))
            f.store(self._call(f, "TF_TensorData", tensor), f.gep(outputs, index, PTR))

        f.loop(0, EAGER_CALL.load(f, record, "num_outputs"), 1, [], one)

    def _emit_execute(
        self, f: FunctionBuilder, record: Value, inputs: Value, outputs: Value
    ) -> Value:
        program = EAGER_CALL.load(f, record, "program")
        sizes = EAGER_CALL.load(f, record, "sizes")

        def execute() -> list[Value]:
            return [self._call(f, _EXECUTE, program, inputs, outputs, sizes)]

        def without_gil() -> list[Value]:
            thread = self._call(f, "PyEval_SaveThread")
            result = execute()
            self._call(f, "PyEval_RestoreThread", thread)
            return result

        releases = f.icmp("ne", EAGER_CALL.load(f, record, "releases_gil"), f.const(I64, 0))
        (ran,) = f.if_(releases, without_gil, execute)
        return ran

    def _wrap(self, f: FunctionBuilder, tensors: Value, count: Value) -> Value:
        """Return the only output, or a tuple of all; the tensors are handed over."""

        def wrapped(index: Value) -> Value:
            tensor = f.load(PTR, f.gep(tensors, index, PTR))
            status = self._call(f, "TF_NewStatus")
            handle = self._call(f, "TFE_NewTensorHandle", tensor, status)
            self._call(f, "TF_DeleteStatus", status)
            self._call(f, "TF_DeleteTensor", tensor)
            return self._call(f, capi.EAGER_TENSOR_FROM_HANDLE, handle, f.const(I8, 0))

        def several() -> list[Value]:
            result = self._call(f, "PyTuple_New", count)

            def one(index: Value, _: list[Value]) -> None:
                self._call(f, "PyTuple_SetItem", result, index, wrapped(index))

            f.loop(0, count, 1, [], one)
            return [result]

        single = f.icmp("eq", count, f.const(I64, 1))
        (result,) = f.if_(single, lambda: [wrapped(f.const(I64, 0))], several)
        return result

    def _delete(self, f: FunctionBuilder, tensors: Value, count: Value) -> None:
        def one(index: Value, _: list[Value]) -> None:
            self._call(f, "TF_DeleteTensor", f.load(PTR, f.gep(tensors, index, PTR)))

        f.loop(0, count, 1, [], one)


@cache
def eager_call_address() -> int:
    """Return the address of `ingot_eager_call`; the first call compiles and links it."""
    addresses = {
        **capi.imports(_FUNCTIONS),
        **{name: python_address(name) for name in _PYTHON_FUNCTIONS},
        _EXECUTE: native_runtime().address(_EXECUTE),
        _NOT_IMPLEMENTED: id(NotImplemented),
    }
    library = link_object([compile_object(_Emitter().text(), TargetSpec.host())], addresses)
    _libraries.append(library)
    return library.address(ENTRY)


_libraries: list[Library] = []


def python_address(name: str) -> int:
    """Return the address of a function of CPython's C API."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
