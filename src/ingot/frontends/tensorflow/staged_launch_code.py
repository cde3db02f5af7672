# SPDX-License-Identifier: Apache-2.0
"""How the launch op runs a program of stages: its results are tensors that the stages made.

A program that computes sizes knows those of its results when it is done. So nothing is allocated
ahead: the block of a result becomes a tensor of TensorFlow's, which gives it back to Ingot's
allocator. A variable's new value has a place already: a stage makes it there, or it is copied.

Invariant: a frame's blocks belong to a tensor, or are given back, on every way out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingot.artifact.stages import SLOT_HEADER_WORDS
from ingot.frontends.tensorflow.launch_records import (
    DONE,
    LAUNCH,
    VARIANT,
)
from ingot.frontends.tensorflow.run_again_code import emit_hand_out, emit_run_again
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import I32, I64, PTR, VOID
from ingot.llvm.values import FunctionRef, Value, zero
from ingot.runtime.execute import emit_stack_array
from ingot.runtime.records import PROGRAM, STAGED

if TYPE_CHECKING:
    from ingot.frontends.tensorflow.launch_code import LaunchEmitter

_WORD = 8


def emit_run_any(emitter: LaunchEmitter, run: FunctionRef, report: FunctionRef) -> FunctionRef:
    """Emit what runs any program: `run` runs those that are neither staged nor may run again.

    `i32 (record, context, variant, data, dims, more, status)`, as `run` is; `report` says why a
    program failed.
    """
    drop = _emit_drop(emitter)
    staged = _Staged(emitter, drop).emit(report)
    again = emit_run_again(emitter, report, drop)
    names = ("record", "context", "variant", "data", "dims", "more", "status")
    f = emitter.module.function(
        "ingot_launch_run_any", I32, [(name, PTR) for name in names], linkage="internal"
    )
    variant = f.params[2]
    is_staged = f.icmp("ne", VARIANT.load(f, variant, "staged"), zero(PTR))

    f.if_(is_staged, lambda: f.ret(f.call(staged, list(f.params))), likely=False)
    runs_again = f.icmp("ne", VARIANT.load(f, variant, "runs_again"), f.const(I64, 0))
    f.if_(runs_again, lambda: f.ret(f.call(again, list(f.params))), likely=False)
    f.ret(f.call(run, list(f.params)))
    return f.reference


def _emit_drop(emitter: LaunchEmitter) -> FunctionRef:
    """`void (data, bytes, argument)`: a tensor's memory is not needed any more."""
    parameters = [("data", PTR), ("bytes", I64), ("argument", PTR)]
    f = emitter.module.function("ingot_launch_drop", VOID, parameters)
    emitter.call(f, "ingot_free", f.params[0])
    f.ret()
    return f.reference


class _Staged:
    """Emits the run of a program of stages."""

    def __init__(self, emitter: LaunchEmitter, drop: FunctionRef) -> None:
        self.emitter = emitter
        self._drop = drop

    def emit(self, report: FunctionRef) -> FunctionRef:
        """Emit the function."""
        names = ("record", "context", "variant", "data", "dims", "more", "status")
        f = self.emitter.module.function(
            "ingot_launch_run_staged", I32, [(name, PTR) for name in names], linkage="internal"
        )
        record, context, variant, data, dims, more, status = f.params
        staged = VARIANT.load(f, variant, "staged")
        words = STAGED.load(f, staged, "frame_words")
        frame = emit_stack_array(f, I64, words)

        def clear(index: Value, _: list[Value]) -> None:
            f.store(f.const(I64, 0), f.gep(frame, index, I64))

        f.loop(0, words, 1, [], clear)
        self._fill(f, frame, variant, data, dims)
        count = LAUNCH.load(f, record, "num_outputs")
        places = VARIANT.load(f, variant, "results")
        results = VARIANT.load(f, variant, "num_results")

        def row_of(index: Value) -> tuple[Value, Value]:
            row = f.gep(places, f.mul(index, f.const(I64, 3 * _WORD)))
            return row, f.gep(frame, f.load(I64, row))

        def place_of(index: Value) -> Value:
            return f.load(PTR, f.gep(more, f.sub(index, count), PTR))

        def place(index: Value, _: list[Value]) -> None:
            f.store(place_of(index), row_of(index)[1])

        f.loop(count, results, 1, [], place)
        runtime = PROGRAM.load(f, VARIANT.load(f, variant, "program"), "runtime")
        failed = self.emitter.call(f, "ingot_stages_run", staged, frame, runtime)

        done = f.const(I32, DONE)

        def fail() -> None:
            identifier = LAUNCH.load(f, record, "identifier")
            f.ret(f.call(report, [variant, dims, failed, identifier, status]))

        f.if_(f.icmp("ne", failed, f.const(I64, 0)), fail, likely=False)
        types = LAUNCH.load(f, record, "output_types")

        def slot_of(index: Value) -> tuple[Value, Value, Value]:
            row, slot = row_of(index)
            rank = f.load(I64, f.gep(row, _WORD))
            return slot, rank, self._bytes(f, slot, rank, f.load(I64, f.gep(row, 2 * _WORD)))

        def hand_out(index: Value, _: list[Value]) -> None:
            slot, rank, size = slot_of(index)
            kind, number = f.load(I32, f.gep(types, index, I32)), f.trunc(index, I32)
            shape = f.gep(slot, SLOT_HEADER_WORDS * _WORD)
            made = (kind, shape, f.trunc(rank, I32), f.load(PTR, slot), size)
            emit_hand_out(self.emitter, f, self._drop, (context, number, status), made)

        f.loop(0, count, 1, [], hand_out)

        def hand_in(index: Value, _: list[Value]) -> None:
            slot, __, size = slot_of(index)
            block = f.load(PTR, f.gep(slot, _WORD))

            def copy() -> None:
                f.memcpy(place_of(index), block, size)
                self.emitter.call(f, "ingot_free", block)

            f.if_(f.icmp("ne", block, zero(PTR)), copy)

        f.loop(count, results, 1, [], hand_in)
        f.ret(done)
        return f.reference

    def _fill(
        self, f: FunctionBuilder, frame: Value, variant: Value, data: Value, dims: Value
    ) -> None:
        """Fill the slots of the parameters."""
        places = VARIANT.load(f, variant, "parameters")
        ranks = VARIANT.load(f, variant, "ranks")

        def one(index: Value, _: list[Value]) -> None:
            slot = f.gep(frame, f.load(I64, f.gep(places, index, I64)))
            f.store(f.load(PTR, f.gep(data, index, PTR)), slot)
            given = f.load(PTR, f.gep(dims, index, PTR))

            def size(axis: Value, __: list[Value]) -> None:
                to = f.gep(f.gep(slot, SLOT_HEADER_WORDS * _WORD), axis, I64)
                f.store(f.load(I64, f.gep(given, axis, I64)), to)

            f.loop(0, f.load(I64, f.gep(ranks, index, I64)), 1, [], size)

        f.loop(0, VARIANT.load(f, variant, "num_parameters"), 1, [], one)

    def _bytes(self, f: FunctionBuilder, slot: Value, rank: Value, element: Value) -> Value:
        shape = f.gep(slot, SLOT_HEADER_WORDS * _WORD)

        def times(axis: Value, sizes: list[Value]) -> list[Value]:
            return [f.mul(sizes[0], f.load(I64, f.gep(shape, axis, I64)))]

        sizes = f.loop(0, rank, 1, [element], times)
        return sizes[0]
