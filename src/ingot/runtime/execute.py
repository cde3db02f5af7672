# SPDX-License-Identifier: Apache-2.0
"""Execution of a program record, emitted: what every caller, Python or native, goes through.

`ingot_prepare` computes sizes, `ingot_execute` runs with an arena from the allocator, `ingot_call`
does both; `ingot_execute_on` is `ingot_execute` for one of several devices, whose copy of the
runtime record says which replica and partition it is.

Invariant: these functions hold no state of their own, so any number of threads may execute the same
program at once. Their status: 0 done, 1+k run error k, -1 out of memory, -2-k shape constraint k
violated, `CANCELLED` ended. `ingot_execute_watched` sees signals and deadlines (`interrupts`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.artifact.abi import ARENA_SLOT
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I32, I64, PTR, Type
from ingot.llvm.values import FunctionRef, Value, zero
from ingot.runtime.allocator import AllocatorFunctions
from ingot.runtime.interrupts import WatchFunctions
from ingot.runtime.records import PROGRAM

OUT_OF_MEMORY = -1
FIRST_CONSTRAINT = -2
"""Status of constraint 0; constraint k is `FIRST_CONSTRAINT - k`."""


@dataclass(frozen=True, slots=True)
class ExecuteFunctions:
    """What the Python call and staged programs use."""

    prepare: FunctionRef
    execute: FunctionRef
    execute_on: FunctionRef
    execute_watched: FunctionRef


def emit_word_copy(f: FunctionBuilder, to: Value, source: Value, count: Value) -> None:
    """Copy a few words: a loop, which is faster than a call."""

    def one(index: Value, _: list[Value]) -> None:
        f.store(f.load(I64, f.gep(source, index, I64)), f.gep(to, index, I64))

    f.loop(0, count, 1, [], one)


def emit_stack_array(f: FunctionBuilder, item: Type, count: Value) -> Value:
    """Return room for `count` items on the stack, where the stream stands (not in a loop)."""
    return f.define(PTR, f"alloca {item.text}, {count.type.text} {count.text}, align 8")


def emit_execute(
    module: ModuleBuilder, allocator: AllocatorFunctions, watch: WatchFunctions
) -> ExecuteFunctions:
    """Add `ingot_prepare`, `ingot_execute` and `ingot_call` to `module`."""
    prepare = _emit_prepare(module)
    execute_on = _emit_execute_on(module, allocator)
    watched = _emit_execute_watched(module, execute_on, watch)
    execute = _emit_execute(module, execute_on, watched)
    _emit_call(module, prepare, execute)
    return ExecuteFunctions(prepare, execute, execute_on, watched)


def _emit_execute_watched(
    module: ModuleBuilder, execute_on: FunctionRef, watch: WatchFunctions
) -> FunctionRef:
    """`i32 (ptr program, ptr runtime, ptr inputs, ptr outputs, ptr sizes)`: may be ended."""
    names = ("program", "runtime", "inputs", "outputs", "sizes")
    f = module.function("ingot_execute_watched", I32, [(name, PTR) for name in names])
    f.call(watch.begin, [])
    status = f.call(execute_on, list(f.params))
    f.call(watch.end, [])
    f.ret(status)
    return f.reference


def _emit_prepare(module: ModuleBuilder) -> FunctionRef:
    """`i32 (ptr program, ptr in_dims, ptr sizes)`: fill `sizes`."""
    f = module.function("ingot_prepare", I32, [("program", PTR), ("in_dims", PTR), ("sizes", PTR)])
    program, in_dims, sizes = f.params
    function = PROGRAM.load(f, program, "sizes")
    arguments = [in_dims, sizes, PROGRAM.load(f, program, "constants")]
    status = f.call_indirect(function, I32, [PTR] * 3, arguments)
    violated = f.sub(f.const(I32, FIRST_CONSTRAINT + 1), status)
    done = f.icmp("eq", status, f.const(I32, 0))
    f.ret(f.select(done, status, violated))
    return f.reference


def _emit_execute(
    module: ModuleBuilder, execute_on: FunctionRef, watched: FunctionRef
) -> FunctionRef:
    """`i32 (ptr program, ptr inputs, ptr outputs, ptr sizes)`: run with an arena."""
    f = module.function(
        "ingot_execute",
        I32,
        [("program", PTR), ("inputs", PTR), ("outputs", PTR), ("sizes", PTR)],
    )
    program, *rest = f.params
    arguments = [program, PROGRAM.load(f, program, "runtime"), *rest]
    # What may wait for others, or loop, may have to be ended.
    patient = f.icmp("eq", PROGRAM.load(f, program, "release_gil_bytes"), f.const(I64, 0))
    f.if_(patient, lambda: f.ret(f.call(watched, arguments)))
    f.ret(f.call(execute_on, arguments))
    return f.reference


def _emit_execute_on(module: ModuleBuilder, allocator: AllocatorFunctions) -> FunctionRef:
    """`i32 (ptr program, ptr runtime, ptr inputs, ptr outputs, ptr sizes)`."""
    names = ("program", "runtime", "inputs", "outputs", "sizes")
    f = module.function("ingot_execute_on", I32, [(name, PTR) for name in names])
    program, runtime, inputs, outputs, sizes = f.params
    arena_bytes = f.load(I64, f.gep(sizes, ARENA_SLOT, I64))

    def take_arena() -> list[Value]:
        arena = f.call(allocator.allocate, [arena_bytes])
        missing = f.icmp("eq", arena, zero(PTR))
        f.if_(missing, lambda: f.ret(f.const(I32, OUT_OF_MEMORY)), likely=False)
        return [arena]

    needs_arena = f.icmp("sgt", arena_bytes, f.const(I64, 0))
    (arena,) = f.if_(needs_arena, take_arena, otherwise=[zero(PTR)])
    values = [
        *(runtime, inputs, outputs),
        *(arena, sizes, PROGRAM.load(f, program, "constants")),
    ]
    status = f.call_indirect(PROGRAM.load(f, program, "run"), I32, [PTR] * 6, values)
    f.call(allocator.free, [arena])
    f.ret(status)
    return f.reference


def _emit_call(module: ModuleBuilder, prepare: FunctionRef, execute: FunctionRef) -> None:
    """`i32 (ptr program, ptr inputs, ptr in_dims, ptr outputs)`: sizes, then run.

    For callers that know the sizes of the outputs already, because they are static.
    """
    f = module.function(
        "ingot_call",
        I32,
        [("program", PTR), ("inputs", PTR), ("in_dims", PTR), ("outputs", PTR)],
    )
    program, inputs, in_dims, outputs = f.params
    sizes = emit_stack_array(f, I64, PROGRAM.load(f, program, "num_sizes"))
    status = f.call(prepare, [program, in_dims, sizes])
    f.if_(f.icmp("ne", status, f.const(I32, 0)), lambda: f.ret(status), likely=False)
    f.ret(f.call(execute, [program, inputs, outputs, sizes]))
