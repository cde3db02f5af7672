"""The machine code of the launch op: what TensorFlow calls to run a compiled function.

Emitted once per process through `ingot.llvm`, over the records below. One execution of the op reads
the inputs' sizes and pointers through TensorFlow's C API, picks the variant that was compiled for
their ranks, asks the program for the output sizes, allocates the outputs and runs the program. No
Python and no GIL, except when no variant fits: then `miss` calls the Python trampoline, which
compiles one or sets the status.

Invariant: every TF_Tensor and TF_Status that a launch makes is deleted on every way out.
Source: TensorFlow's `tensorflow/c/kernels.h`; statuses are those of `runtime.records.c_header`.
"""

from __future__ import annotations

from ingot.frontends.tensorflow import capi
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I32, I64, PTR, VOID, Type
from ingot.llvm.values import FunctionRef, Value, zero
from ingot.runtime.execute import emit_stack_array
from ingot.runtime.layout import Field, Record
from ingot.runtime.records import OUTPUT, PARAM, PROGRAM

LAUNCH = Record(
    "IngotLaunch",
    Field("variants", "ptr", note="list of IngotVariant, newest first; null before the first"),
    Field("identifier", "i64", note="what the trampoline is told"),
    Field("num_inputs", "i64"),
    Field("num_outputs", "i64"),
    Field("output_types", "ptr", note="int32_t[num_outputs], TF_DataType"),
)

VARIANT = Record(
    "IngotVariant",
    Field("program", "ptr", note="IngotProgram"),
    Field("ranks", "ptr", note="int64_t[num_inputs]: the ranks it was compiled for"),
    Field("next", "ptr"),
    Field("constraints", "ptr", note="char*[]: text per shape constraint"),
    Field("run_errors", "ptr", note="char*[]: text per run error"),
)

OUT_OF_MEMORY = "Ingot: there is not enough memory for the temporary buffers of this function."
FOREIGN = (
    "Ingot: this graph was compiled in another process. Save models with tf.saved_model.save or "
    "model.save, which store the original functions."
)

TF_FUNCTIONS: dict[str, tuple[Type, tuple[Type, ...]]] = {
    "TF_NewStatus": (PTR, ()),
    "TF_DeleteStatus": (VOID, (PTR,)),
    "TF_GetCode": (I32, (PTR,)),
    "TF_SetStatus": (VOID, (PTR, I32, PTR)),
    "TF_GetInput": (VOID, (PTR, I32, PTR, PTR)),
    "TF_TensorData": (PTR, (PTR,)),
    "TF_NumDims": (I32, (PTR,)),
    "TF_Dim": (I64, (PTR, I32)),
    "TF_DeleteTensor": (VOID, (PTR,)),
    "TF_AllocateOutput": (PTR, (PTR, I32, I32, PTR, I32, I64, PTR)),
    "TF_OpKernelContext_Failure": (VOID, (PTR, PTR)),
    "TF_OpKernelConstruction_GetAttrInt64": (VOID, (PTR, PTR, PTR, PTR)),
    "TF_OpKernelConstruction_Failure": (VOID, (PTR, PTR)),
    "TF_ShapeInferenceContextSetUnknownShape": (VOID, (PTR, PTR)),
}
"""The C API that launches call: result type, parameter types."""

RUNTIME_FUNCTIONS: dict[str, tuple[Type, tuple[Type, ...]]] = {
    "ingot_prepare": (I32, (PTR, PTR, PTR)),
    "ingot_execute": (I32, (PTR, PTR, PTR, PTR)),
}
"""The runtime's entries, as `runtime.records.c_header` declares them."""

MISS = "ingot_launch_miss"
"""Trampoline to Python: void(i64 identifier, TF_Tensor** inputs, TF_Status*)."""


PROCESS = "ingot_process"
"""An i64 that marks the ops of this process: what they hold are addresses."""


class LaunchEmitter:
    """Emits the functions of the launch op into one module."""

    def __init__(self) -> None:
        """Start an empty module."""
        self.module = ModuleBuilder("ingot_tensorflow_launch")
        table = {**TF_FUNCTIONS, **RUNTIME_FUNCTIONS, MISS: (VOID, (I64, PTR, PTR))}
        self._functions: dict[str, FunctionRef] = {
            name: self.module.declare(name, result, list(params))
            for name, (result, params) in table.items()
        }

    def text(self) -> str:
        """Return the module with every function of the op."""
        self._emit_create()
        self._emit_delete()
        self._emit_shape()
        find = self._emit_find()
        report = self._emit_report()
        run = self._emit_run(report)
        self._emit_compute(find, run)
        return self.module.text()

    def _call(self, f: FunctionBuilder, name: str, *args: Value) -> Value:
        return f.call(self._functions[name], list(args))

    def _message(self, name: str, text: str) -> Value:
        return self.module.global_bytes(name, text.encode() + b"\0", align=1)

    def _emit_create(self) -> None:
        """`ptr (construction)`: the launch record that the op's attributes name."""
        f = self.module.function("ingot_launch_create", PTR, [("construction", PTR)])
        (construction,) = f.params
        status = self._call(f, "TF_NewStatus")
        values: list[Value] = []
        for name in ("process", "launch"):
            slot = f.alloca(I64)
            f.store(f.const(I64, 0), slot)
            text = self._message(f"attribute_{name}", name)
            self._call(
                f, "TF_OpKernelConstruction_GetAttrInt64", construction, text, slot, status
            )
            values.append(f.load(I64, slot))

        def foreign() -> list[Value]:
            text = self._message("foreign", FOREIGN)
            self._call(f, "TF_SetStatus", status, f.const(I32, capi.INVALID_ARGUMENT), text)
            self._call(f, "TF_OpKernelConstruction_Failure", construction, status)
            return [zero(PTR)]

        process = self.module.global_text(PROCESS, "external global i64")
        strange = f.icmp("ne", values[0], f.load(I64, process))
        (record,) = f.if_(strange, foreign, otherwise=[f.inttoptr(values[1], PTR)], likely=False)
        self._call(f, "TF_DeleteStatus", status)
        f.ret(record)

    def _emit_delete(self) -> None:
        """`void (record)`: records live as long as the process."""
        f = self.module.function("ingot_launch_delete", VOID, [("record", PTR)])
        f.ret()

    def _emit_shape(self) -> None:
        """`void (context, status)`: shapes are set in Python, where they are known."""
        f = self.module.function("ingot_launch_shape", VOID, [("context", PTR), ("status", PTR)])
        self._call(f, "TF_ShapeInferenceContextSetUnknownShape", *f.params)
        f.ret()

    def _emit_find(self) -> FunctionRef:
        """`ptr (record, ranks, dims)`: the variant that takes these inputs, or null."""
        f = self.module.function(
            "ingot_launch_find",
            PTR,
            [("record", PTR), ("ranks", PTR), ("dims", PTR)],
            linkage="internal",
        )
        record, ranks, dims = f.params
        count = LAUNCH.load(f, record, "num_inputs")
        first = f.atomic_load(PTR, LAUNCH.address(f, record, "variants"), "acquire")

        def compare(values: list[Value]) -> list[Value]:
            (variant,) = values
            wanted = VARIANT.load(f, variant, "ranks")

            def different(index: Value, found: list[Value]) -> list[Value]:
                here = f.load(I64, f.gep(ranks, index, I64))
                there = f.load(I64, f.gep(wanted, index, I64))
                return [f.or_(found[0], f.xor(here, there))]

            (difference,) = f.loop(0, count, 1, [f.const(I64, 0)], different)
            same = f.icmp("eq", difference, f.const(I64, 0))
            f.if_(same, lambda: self._return_if_sizes_fit(f, variant, count, dims), likely=True)
            return [VARIANT.load(f, variant, "next")]

        f.while_([first], lambda values: f.icmp("ne", values[0], zero(PTR)), compare)
        f.ret(zero(PTR))
        return f.reference

    def _return_if_sizes_fit(
        self, f: FunctionBuilder, variant: Value, count: Value, dims: Value
    ) -> None:
        """Emit `return variant` if every static size of the program's parameters is met."""
        infos = PROGRAM.load(f, VARIANT.load(f, variant, "program"), "params")

        def one_parameter(index: Value, found: list[Value]) -> list[Value]:
            info = PARAM.element(f, infos, index)
            wanted = PARAM.load(f, info, "dims")
            given = f.load(PTR, f.gep(dims, index, PTR))

            def one_axis(axis: Value, bad: list[Value]) -> list[Value]:
                want = f.load(I64, f.gep(wanted, axis, I64))
                wrong = f.icmp("ne", want, f.load(I64, f.gep(given, axis, I64)))
                static = f.icmp("sge", want, f.const(I64, 0))
                return [f.or_(bad[0], f.zext(f.and_(wrong, static), I64))]

            return f.loop(0, PARAM.load(f, info, "rank"), 1, found, one_axis)

        (bad,) = f.loop(0, count, 1, [f.const(I64, 0)], one_parameter)
        f.if_(f.icmp("eq", bad, f.const(I64, 0)), lambda: f.ret(variant), likely=True)

    def _emit_report(self) -> FunctionRef:
        """`void (variant, code, status)`: set the text for a failed prepare or execute."""
        f = self.module.function(
            "ingot_launch_report",
            VOID,
            [("variant", PTR), ("code", I32), ("status", PTR)],
            linkage="internal",
        )
        variant, code, status = f.params

        def set_status(kind: int, text: Value) -> None:
            self._call(f, "TF_SetStatus", status, f.const(I32, kind), text)
            f.ret()

        def from_table(field: str, index: Value) -> None:
            table = VARIANT.load(f, variant, field)
            text = f.load(PTR, f.gep(table, f.sext(index, I64), PTR))
            set_status(capi.INVALID_ARGUMENT, text)

        positive = f.icmp("sgt", code, f.const(I32, 0))
        f.if_(positive, lambda: from_table("run_errors", f.sub(code, f.const(I32, 1))))
        violated = f.icmp("sle", code, f.const(I32, -2))
        f.if_(violated, lambda: from_table("constraints", f.sub(f.const(I32, -2), code)))
        set_status(capi.RESOURCE_EXHAUSTED, self._message("memory", OUT_OF_MEMORY))
        return f.reference

    def _emit_run(self, report: FunctionRef) -> FunctionRef:
        """`void (record, context, variant, data, dims, status)`: allocate outputs and execute."""
        names = ("record", "context", "variant", "data", "dims", "status")
        f = self.module.function(
            "ingot_launch_run", VOID, [(name, PTR) for name in names], linkage="internal"
        )
        record, context, variant, data, dims, status = f.params
        program = VARIANT.load(f, variant, "program")
        sizes = emit_stack_array(f, I64, PROGRAM.load(f, program, "num_sizes"))

        def check(code: Value) -> None:
            def fail() -> None:
                f.call(report, [variant, code, status])
                f.ret()

            f.if_(f.icmp("ne", code, f.const(I32, 0)), fail, likely=False)

        check(self._call(f, "ingot_prepare", program, dims, sizes))
        count = LAUNCH.load(f, record, "num_outputs")
        outputs = emit_stack_array(f, PTR, count)
        types = LAUNCH.load(f, record, "output_types")
        infos = PROGRAM.load(f, program, "outputs")

        def allocate(index: Value, _: list[Value]) -> None:
            info = OUTPUT.element(f, infos, index)
            type_number = f.load(I32, f.gep(types, index, I32))
            size = f.load(I64, f.gep(sizes, OUTPUT.load(f, info, "bytes_slot"), I64))
            shape = f.gep(sizes, OUTPUT.load(f, info, "dims_slot"), I64)
            rank = f.trunc(OUTPUT.load(f, info, "rank"), I32)
            number = f.trunc(index, I32)
            rest = (shape, rank, size, status)
            tensor = self._call(f, "TF_AllocateOutput", context, number, type_number, *rest)
            failed = f.icmp("ne", self._call(f, "TF_GetCode", status), f.const(I32, 0))
            f.if_(failed, f.ret, likely=False)
            f.store(self._call(f, "TF_TensorData", tensor), f.gep(outputs, index, PTR))
            self._call(f, "TF_DeleteTensor", tensor)

        f.loop(0, count, 1, [], allocate)
        check(self._call(f, "ingot_execute", program, data, outputs, sizes))
        f.ret()
        return f.reference

    def _emit_compute(self, find: FunctionRef, run: FunctionRef) -> None:
        """`void (record, context)`: the kernel."""
        f = self.module.function("ingot_launch_compute", VOID, [("record", PTR), ("context", PTR)])
        record, context = f.params
        status = self._call(f, "TF_NewStatus")
        count = LAUNCH.load(f, record, "num_inputs")
        tensors = emit_stack_array(f, PTR, count)
        data = emit_stack_array(f, PTR, count)
        dims = emit_stack_array(f, PTR, count)
        ranks = emit_stack_array(f, I64, count)

        def read(index: Value, total: list[Value]) -> list[Value]:
            slot = f.gep(tensors, index, PTR)
            f.store(zero(PTR), slot)
            self._call(f, "TF_GetInput", context, f.trunc(index, I32), slot, status)
            tensor = f.load(PTR, slot)
            f.store(self._call(f, "TF_TensorData", tensor), f.gep(data, index, PTR))
            rank = f.sext(self._call(f, "TF_NumDims", tensor), I64)
            f.store(rank, f.gep(ranks, index, I64))
            return [f.add(total[0], rank)]

        (total,) = f.loop(0, count, 1, [f.const(I64, 0)], read)
        sizes = emit_stack_array(f, I64, total)

        def read_dims(index: Value, at: list[Value]) -> list[Value]:
            here = f.gep(sizes, at[0], I64)
            f.store(here, f.gep(dims, index, PTR))
            tensor = f.load(PTR, f.gep(tensors, index, PTR))
            rank = f.load(I64, f.gep(ranks, index, I64))

            def one(axis: Value, _: list[Value]) -> None:
                size = self._call(f, "TF_Dim", tensor, f.trunc(axis, I32))
                f.store(size, f.gep(here, axis, I64))

            f.loop(0, rank, 1, [], one)
            return [f.add(at[0], rank)]

        f.loop(0, count, 1, [f.const(I64, 0)], read_dims)

        def compile_variant() -> list[Value]:
            self._call(f, MISS, LAUNCH.load(f, record, "identifier"), tensors, status)
            return [f.call(find, [record, ranks, dims])]

        known = f.call(find, [record, ranks, dims])
        missing = f.icmp("eq", known, zero(PTR))
        (variant,) = f.if_(missing, compile_variant, otherwise=[known], likely=False)
        ready = f.icmp("ne", variant, zero(PTR))
        f.if_(ready, lambda: _drop(f.call(run, [record, context, variant, data, dims, status])))

        def delete(index: Value, _: list[Value]) -> None:
            self._call(f, "TF_DeleteTensor", f.load(PTR, f.gep(tensors, index, PTR)))

        f.loop(0, count, 1, [], delete)

        def fail() -> None:
            self._call(f, "TF_OpKernelContext_Failure", context, status)

        failed = f.icmp("ne", self._call(f, "TF_GetCode", status), f.const(I32, 0))
        f.if_(failed, fail, likely=False)
        self._call(f, "TF_DeleteStatus", status)
        f.ret()


def _drop(_: object) -> None:
    """Make a branch that returns nothing of a call."""
