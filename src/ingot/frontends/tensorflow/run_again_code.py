# SPDX-License-Identifier: Apache-2.0
"""How the launch op runs a program that may end for lack of room, to be run again with more.

TensorFlow lets an op allocate each output once, and with more room an output may be larger. So the
outputs are blocks of Ingot's, which become tensors when the program has succeeded.

Invariant: a block belongs to a tensor, or is given back, on every way out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingot.frontends.tensorflow.launch_records import DONE, LAUNCH, VARIANT
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import I32, I64, PTR
from ingot.llvm.values import FunctionRef, Value, zero
from ingot.runtime.execute import OUT_OF_MEMORY, emit_stack_array
from ingot.runtime.records import OUTPUT, PROGRAM

if TYPE_CHECKING:
    from ingot.frontends.tensorflow.launch_code import LaunchEmitter


def emit_hand_out(
    emitter: LaunchEmitter,
    f: FunctionBuilder,
    drop: FunctionRef,
    place: tuple[Value, Value, Value],
    made: tuple[Value, Value, Value, Value, Value],
) -> None:
    """Make a tensor of a block, and an output of the tensor.

    Args:
        emitter: of the launch op.
        f: where to emit.
        drop: what gives the block back.
        place: context, number of the output, status.
        made: element type, shape, rank, block, bytes.
    """
    context, number, status = place
    rest = (Value(PTR, drop.text), zero(PTR))
    tensor = emitter.call(f, "TF_NewTensor", *made, *rest)
    emitter.call(f, "TF_SetOutput", context, number, tensor, status)
    emitter.call(f, "TF_DeleteTensor", tensor)


def emit_run_again(emitter: LaunchEmitter, report: FunctionRef, drop: FunctionRef) -> FunctionRef:
    """`i32 (record, context, variant, data, dims, more, status)`: as the launch's `run`."""
    names = ("record", "context", "variant", "data", "dims", "more", "status")
    f = emitter.module.function(
        "ingot_launch_run_again", I32, [(name, PTR) for name in names], linkage="internal"
    )
    record, context, variant, data, dims, more, status = f.params
    program = VARIANT.load(f, variant, "program")
    sizes = emit_stack_array(f, I64, PROGRAM.load(f, program, "num_sizes"))
    count = LAUNCH.load(f, record, "num_outputs")
    results = PROGRAM.load(f, program, "num_outputs")
    outputs = emit_stack_array(f, PTR, results)
    types, infos = LAUNCH.load(f, record, "output_types"), PROGRAM.load(f, program, "outputs")

    def block_of(index: Value) -> Value:
        return f.load(PTR, f.gep(outputs, index, PTR))

    def size_of(index: Value) -> Value:
        slot = OUTPUT.load(f, OUTPUT.element(f, infos, index), "bytes_slot")
        return f.load(I64, f.gep(sizes, slot, I64))

    def check(code: Value) -> None:
        def give_back(index: Value, _: list[Value]) -> None:
            emitter.call(f, "ingot_free", block_of(index))

        def fail() -> None:
            f.loop(0, count, 1, [], give_back)
            identifier = LAUNCH.load(f, record, "identifier")
            f.ret(f.call(report, [variant, dims, f.sext(code, I64), identifier, status]))

        f.if_(f.icmp("ne", code, f.const(I32, 0)), fail, likely=False)

    def clear(index: Value, _: list[Value]) -> None:
        f.store(zero(PTR), f.gep(outputs, index, PTR))

    f.loop(0, count, 1, [], clear)
    check(emitter.call(f, "ingot_prepare", program, dims, sizes))

    def allocate(index: Value, missing: list[Value]) -> list[Value]:
        block = emitter.call(f, "ingot_allocate", size_of(index))
        f.store(block, f.gep(outputs, index, PTR))
        none = f.icmp("eq", block, zero(PTR))
        return [f.select(none, f.const(I32, OUT_OF_MEMORY), missing[0])]

    (missing,) = f.loop(0, count, 1, [f.const(I32, 0)], allocate)
    check(missing)

    def hand_in(index: Value, _: list[Value]) -> None:
        given = f.load(PTR, f.gep(more, f.sub(index, count), PTR))
        f.store(given, f.gep(outputs, index, PTR))

    f.loop(count, results, 1, [], hand_in)
    check(emitter.call(f, "ingot_execute", program, data, outputs, sizes))

    def hand_out(index: Value, _: list[Value]) -> None:
        info = OUTPUT.element(f, infos, index)
        shape = f.gep(sizes, OUTPUT.load(f, info, "dims_slot"), I64)
        rank = f.trunc(OUTPUT.load(f, info, "rank"), I32)
        kind = f.load(I32, f.gep(types, index, I32))
        made = (kind, shape, rank, block_of(index), size_of(index))
        emit_hand_out(emitter, f, drop, (context, f.trunc(index, I32), status), made)

    f.loop(0, count, 1, [], hand_out)
    f.ret(f.const(I32, DONE))
    return f.reference
