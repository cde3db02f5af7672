# SPDX-License-Identifier: Apache-2.0
"""The machine code of the launch op: what TensorFlow calls to run a compiled function.

Emitted once per process through `ingot.llvm`, over the records of `launch_records`. One execution
of the op reads the inputs' sizes and pointers through TensorFlow's C API, picks the variant that
was compiled for their ranks, asks the program for the output sizes, allocates the outputs and runs
the program. No Python and no GIL, except when no variant fits: then `miss` calls the Python
trampoline, which compiles one or sets the status, and when the program refuses: then `failed` calls
the one that explains why. A variant that was compiled for values of inputs has guards, which are
compared with the inputs' bytes; others pay nothing.

Invariant: every TF_Tensor and TF_Status that a launch makes is deleted on every way out.
Source: TensorFlow's `tensorflow/c/kernels.h`; statuses are those of `runtime.records.c_header`.
"""

from __future__ import annotations

from ingot.artifact.abi import CANCELLED
from ingot.frontends.tensorflow import capi
from ingot.frontends.tensorflow.launch_inputs import LaunchInputs, emit_guards
from ingot.frontends.tensorflow.launch_records import (
    DONE,
    ENDED_TEXT,
    FAILED,
    FOREIGN,
    LAUNCH,
    MISS,
    NO_VARIANT,
    OUT_OF_MEMORY_TEXT,
    PROCESS,
    RUNTIME_FUNCTIONS,
    TF_FUNCTIONS,
    TRAMPOLINES,
    VARIANT,
)
from ingot.frontends.tensorflow.ready_code import emit_ready
from ingot.frontends.tensorflow.staged_launch_code import emit_run_any
from ingot.frontends.tensorflow.variable_code import VARIABLE_FUNCTIONS, emit_attempt_with_variables
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I32, I64, PTR, VOID
from ingot.llvm.values import FunctionRef, Value, zero
from ingot.runtime.execute import OUT_OF_MEMORY, emit_stack_array
from ingot.runtime.records import OUTPUT, PARAM, PROGRAM


class LaunchEmitter:
    """Emits the functions of the launch op into one module."""

    def __init__(self, with_variables: bool) -> None:
        """Start; `with_variables`: launches may take handles of variables."""
        self.module = ModuleBuilder("ingot_tensorflow_launch")
        self._with_variables = with_variables
        table = {**TF_FUNCTIONS, **RUNTIME_FUNCTIONS, **TRAMPOLINES}
        if with_variables:
            table.update(VARIABLE_FUNCTIONS)
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
        run = emit_run_any(self, self._emit_run(report), report)
        attempt = self._emit_attempt(find, run)
        if self._with_variables:
            attempt = emit_attempt_with_variables(self, find, run, attempt)
        self._emit_compute(attempt)
        emit_ready(self, find)
        return self.module.text()

    def call(self, f: FunctionBuilder, name: str, *args: Value) -> Value:
        """Call a function of the tables."""
        return f.call(self._functions[name], list(args))

    def message(self, name: str, text: str) -> Value:
        """Return the address of a text."""
        return self.module.global_bytes(name, text.encode() + b"\0", align=1)

    def _emit_create(self) -> None:
        """`ptr (construction)`: the launch record that the op's attributes name."""
        f = self.module.function("ingot_launch_create", PTR, [("construction", PTR)])
        (construction,) = f.params
        status = self.call(f, "TF_NewStatus")
        values: list[Value] = []
        for name in ("process", "launch"):
            slot = f.alloca(I64)
            f.store(f.const(I64, 0), slot)
            text = self.message(f"attribute_{name}", name)
            self.call(f, "TF_OpKernelConstruction_GetAttrInt64", construction, text, slot, status)
            values.append(f.load(I64, slot))

        def foreign() -> list[Value]:
            text = self.message("foreign", FOREIGN)
            self.call(f, "TF_SetStatus", status, f.const(I32, capi.INVALID_ARGUMENT), text)
            self.call(f, "TF_OpKernelConstruction_Failure", construction, status)
            return [zero(PTR)]

        process = self.module.global_text(PROCESS, "external global i64")
        strange = f.icmp("ne", values[0], f.load(I64, process))
        (record,) = f.if_(strange, foreign, otherwise=[f.inttoptr(values[1], PTR)], likely=False)
        self.call(f, "TF_DeleteStatus", status)
        f.ret(record)

    def _emit_delete(self) -> None:
        """`void (record)`: records live as long as the process."""
        f = self.module.function("ingot_launch_delete", VOID, [("record", PTR)])
        f.ret()

    def _emit_shape(self) -> None:
        """`void (context, status)`: shapes are set in Python, where they are known."""
        f = self.module.function("ingot_launch_shape", VOID, [("context", PTR), ("status", PTR)])
        self.call(f, "TF_ShapeInferenceContextSetUnknownShape", *f.params)
        f.ret()

    def _emit_find(self) -> FunctionRef:
        """`ptr (record, ranks, dims, data)`: the variant that takes these inputs, or null."""
        names = ("record", "ranks", "dims", "data")
        f = self.module.function(
            "ingot_launch_find", PTR, [(name, PTR) for name in names], linkage="internal"
        )
        record, ranks, dims, data = f.params
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
            f.if_(same, lambda: self._return_if_fits(f, variant, count, dims, data), likely=True)
            return [VARIANT.load(f, variant, "next")]

        f.while_([first], lambda values: f.icmp("ne", values[0], zero(PTR)), compare)
        f.ret(zero(PTR))
        return f.reference

    def _return_if_fits(
        self, f: FunctionBuilder, variant: Value, count: Value, dims: Value, data: Value
    ) -> None:
        """Emit `return variant` if every static size and every value that it is for is met."""
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

        def compare_values() -> None:
            guards = VARIANT.load(f, variant, "guards")
            number = VARIANT.load(f, variant, "num_guards")
            different = emit_guards(f, number, guards, data)
            f.if_(f.icmp("eq", different, f.const(I64, 0)), lambda: f.ret(variant), likely=True)

        f.if_(f.icmp("eq", bad, f.const(I64, 0)), compare_values, likely=True)

    def _emit_report(self) -> FunctionRef:
        """`i32 (variant, dims, code, identifier, status)`: why a program failed.

        The low half of the code is the status of a program, or of a stage.
        """
        f = self.module.function(
            "ingot_launch_report",
            I32,
            [
                ("variant", PTR),
                ("dims", PTR),
                ("code", I64),
                ("identifier", I64),
                ("status", PTR),
            ],
            linkage="internal",
        )
        variant, dims, code, identifier, status = f.params
        status_code = f.trunc(code, I32)

        def known(wanted: int, kind: int, name: str, message: str) -> None:
            def say() -> None:
                text = self.message(name, message)
                self.call(f, "TF_SetStatus", status, f.const(I32, kind), text)
                f.ret(f.const(I32, DONE))

            f.if_(f.icmp("eq", status_code, f.const(I32, wanted)), say)

        known(OUT_OF_MEMORY, capi.RESOURCE_EXHAUSTED, "memory", OUT_OF_MEMORY_TEXT)
        # Without Python, which would raise KeyboardInterrupt here, and not in the user's program.
        known(CANCELLED, capi.CANCELLED, "cancelled", f"Ingot: the function {ENDED_TEXT}")
        interrupted = self.message("interrupted", "Ingot: a signal came while an error was told.")
        self.call(f, "TF_SetStatus", status, f.const(I32, capi.INTERNAL), interrupted)
        f.ret(self.call(f, FAILED, identifier, variant, dims, code, status))
        return f.reference

    def _emit_run(self, report: FunctionRef) -> FunctionRef:
        """`i32 (record, context, variant, data, dims, more, status)`: allocate and execute.

        `more` is `ptr[]`: memory for the results after the op's own outputs (variables). Returns
        `DONE` or, when nothing was done, `TRY_EXACT` or `TRY_ROOM`.
        """
        names = ("record", "context", "variant", "data", "dims", "more", "status")
        f = self.module.function(
            "ingot_launch_run", I32, [(name, PTR) for name in names], linkage="internal"
        )
        done = f.const(I32, DONE)
        record, context, variant, data, dims, more, status = f.params
        program = VARIANT.load(f, variant, "program")
        sizes = emit_stack_array(f, I64, PROGRAM.load(f, program, "num_sizes"))

        def check(code: Value) -> None:
            def fail() -> None:
                identifier = LAUNCH.load(f, record, "identifier")
                f.ret(f.call(report, [variant, dims, f.sext(code, I64), identifier, status]))

            f.if_(f.icmp("ne", code, f.const(I32, 0)), fail, likely=False)

        check(self.call(f, "ingot_prepare", program, dims, sizes))
        count = LAUNCH.load(f, record, "num_outputs")
        results = PROGRAM.load(f, program, "num_outputs")
        outputs = emit_stack_array(f, PTR, results)
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
            tensor = self.call(f, "TF_AllocateOutput", context, number, type_number, *rest)
            failed = f.icmp("ne", self.call(f, "TF_GetCode", status), f.const(I32, 0))
            f.if_(failed, lambda: f.ret(done), likely=False)
            f.store(self.call(f, "TF_TensorData", tensor), f.gep(outputs, index, PTR))
            self.call(f, "TF_DeleteTensor", tensor)

        f.loop(0, count, 1, [], allocate)

        def hand_in(index: Value, _: list[Value]) -> None:
            given = f.load(PTR, f.gep(more, f.sub(index, count), PTR))
            f.store(given, f.gep(outputs, index, PTR))

        f.loop(count, results, 1, [], hand_in)
        check(self.call(f, "ingot_execute", program, data, outputs, sizes))
        f.ret(done)
        return f.reference

    def _emit_attempt(self, find: FunctionRef, run: FunctionRef) -> FunctionRef:
        """`i32 (record, context, ranks, dims, data, status)`: run the variant that fits."""
        names = ("record", "context", "ranks", "dims", "data", "status")
        f = self.module.function(
            "ingot_launch_attempt", I32, [(name, PTR) for name in names], linkage="internal"
        )
        record, context, ranks, dims, data, status = f.params
        variant = f.call(find, [record, ranks, dims, data])
        missing = f.icmp("eq", variant, zero(PTR))
        f.if_(missing, lambda: f.ret(f.const(I32, NO_VARIANT)), likely=False)
        f.ret(f.call(run, [record, context, variant, data, dims, zero(PTR), status]))
        return f.reference

    def _emit_compute(self, attempt: FunctionRef) -> None:
        """`void (record, context)`: the kernel."""
        f = self.module.function("ingot_launch_compute", VOID, [("record", PTR), ("context", PTR)])
        record, context = f.params
        status = self.call(f, "TF_NewStatus")
        inputs = LaunchInputs(self, f, status)
        inputs.read()
        done = f.const(I32, DONE)

        def attempt_now() -> Value:
            given = [record, context, inputs.ranks, inputs.dims, inputs.data, status]
            return f.call(attempt, given)

        def compile_variant(found: list[Value]) -> list[Value]:
            identifier = LAUNCH.load(f, record, "identifier")
            wanted = f.zext(found[0], I64)
            call = (identifier, inputs.ranks, inputs.dims, inputs.data, wanted, status)
            self.call(f, MISS, *call)
            good = f.icmp("eq", self.call(f, "TF_GetCode", status), f.const(I32, 0))
            return f.if_(good, lambda: [attempt_now()], otherwise=[done])

        f.while_([attempt_now()], lambda found: f.icmp("ne", found[0], done), compile_variant)
        inputs.delete()

        def fail() -> None:
            self.call(f, "TF_OpKernelContext_Failure", context, status)

        failed = f.icmp("ne", self.call(f, "TF_GetCode", status), f.const(I32, 0))
        f.if_(failed, fail, likely=False)
        self.call(f, "TF_DeleteStatus", status)
        f.ret()
