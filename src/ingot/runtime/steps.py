# SPDX-License-Identifier: Apache-2.0
"""Host programs as data, run: the three functions that take an `artifact.steps.Steps` apart.

`ingot_steps_sizes` and `ingot_steps_run` are `S_sizes` and `S_run` of the execution ABI for every
program that is a straight line of kernel calls; what they do stands in the constant block.
`ingot_steps_copy` is the kernel that copies. While somebody profiles, each step that is a site says
when it began and ended.

Invariant: they hold no state; the table is only read.
"""

from __future__ import annotations

from ingot.artifact.abi import CANCELLED
from ingot.artifact.polling import Poller
from ingot.artifact.steps import COPY, FIRST_INPUT, HEADER, NO_SITE, WORD_BYTES
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I32, I64, PTR, VOID
from ingot.llvm.values import Value, zero
from ingot.runtime.execute import emit_stack_array, emit_word_copy
from ingot.runtime.profiler import PROFILE_PARAMETERS
from ingot.runtime.records import RUNTIME


def emit_steps(module: ModuleBuilder) -> None:
    """Add the functions to `module`."""
    _emit_sizes(module)
    _emit_copy(module)
    _emit_run(module)


def _word(f: FunctionBuilder, at: Value, number: int = 0) -> Value:
    return f.load(I64, f.gep(at, number * WORD_BYTES), WORD_BYTES)


def _field(f: FunctionBuilder, table: Value, name: str) -> Value:
    return _word(f, table, HEADER.index(name))


def _emit_sizes(module: ModuleBuilder) -> None:
    """`i32 (ptr in_dims, ptr sizes, ptr constants)`."""
    names = ("in_dims", "sizes", "table")
    f = module.function("ingot_steps_sizes", I32, [(name, PTR) for name in names])
    _, sizes, table = f.params
    emit_word_copy(f, sizes, f.gep(table, len(HEADER) * WORD_BYTES), _field(f, table, "sizes"))
    f.ret(f.const(I32, 0))


def _emit_copy(module: ModuleBuilder) -> None:
    """`void (ptr env, i64 chunk)`."""
    f = module.function(COPY, VOID, [("env", PTR), ("chunk", I64)])
    env, _ = f.params
    to, source = f.load(PTR, env), f.load(PTR, f.gep(env, WORD_BYTES))
    size = _word(f, env, 2)
    f.if_(f.icmp("ne", to, source), lambda: f.memcpy(to, source, size))
    f.ret()


def _emit_run(module: ModuleBuilder) -> None:
    """`i32 (ptr rt, ptr inputs, ptr outputs, ptr temp, ptr sizes, ptr constants)`."""
    names = ("rt", "inputs", "outputs", "temp", "sizes", "table")
    f = module.function("ingot_steps_run", I32, [(name, PTR) for name in names])
    runtime, inputs, outputs, temp, _, table = f.params
    num_inputs, num_outputs = _field(f, table, "inputs"), _field(f, table, "outputs")
    first_output = f.add(num_inputs, f.const(I64, FIRST_INPUT))
    poller = Poller(f, runtime)

    def leave() -> None:
        f.ret(f.const(I32, CANCELLED))

    poller.first(leave)
    bases = emit_stack_array(f, I64, f.add(first_output, num_outputs))
    env = emit_stack_array(f, I64, _field(f, table, "slots"))
    constants = f.gep(table, _field(f, table, "table_bytes"))
    for number, base in enumerate((f.zero(PTR), temp, constants, runtime)):
        f.store(base, f.gep(bases, number * WORD_BYTES), WORD_BYTES)
    emit_word_copy(f, f.gep(bases, FIRST_INPUT * WORD_BYTES), inputs, num_inputs)
    emit_word_copy(f, f.gep(bases, first_output, I64), outputs, num_outputs)
    pool, parallel = RUNTIME.load(f, runtime, "pool"), RUNTIME.load(f, runtime, "parallel")
    profile, none = RUNTIME.load(f, runtime, "profile"), f.const(I64, 0)
    is_profiled = f.icmp("ne", profile, zero(PTR))
    this = Value(PTR, f.reference.text)

    def tell(site: Value, start: Value) -> Value:
        arguments = [runtime, this, table, site, start]
        return f.call_indirect(profile, I64, list(PROFILE_PARAMETERS), arguments)

    def fill(index: Value, cursors: list[Value]) -> list[Value]:
        (cursor,) = cursors
        base = f.load(I64, f.gep(bases, _word(f, cursor), I64))
        f.store(f.add(base, _word(f, cursor, 1)), f.gep(env, index, I64))
        return [f.gep(cursor, 2 * WORD_BYTES)]

    def phase(_: Value, cursors: list[Value]) -> list[Value]:
        (cursor,) = cursors
        function, chunks = f.load(PTR, cursor), _word(f, cursor, 1)
        one = f.const(I64, 1)

        def alone() -> None:
            f.call_indirect(function, VOID, [PTR, I64], [env, f.const(I64, 0)])

        def shared() -> None:
            arguments = [pool, function, env, chunks]
            f.call_indirect(parallel, VOID, [PTR, PTR, PTR, I64], arguments)

        f.if_(f.icmp("eq", chunks, one), alone, shared)
        return [f.gep(cursor, 2 * WORD_BYTES)]

    def step(cursors: list[Value]) -> list[Value]:
        (cursor,) = cursors
        slots, site = _word(f, cursor), _word(f, cursor, 1)
        cursors = [f.gep(cursor, 2 * WORD_BYTES)]
        (cursor,) = f.loop(0, slots, 1, cursors, fill, at_least_once=True)
        timed = f.and_(is_profiled, f.icmp("ne", site, f.const(I64, NO_SITE)))
        (start,) = f.if_(timed, lambda: [tell(site, none)], otherwise=[none], likely=False)
        cursors = [f.gep(cursor, WORD_BYTES)]
        cursors = f.loop(0, _word(f, cursor), 1, cursors, phase)

        def end() -> None:
            tell(site, start)

        f.if_(timed, end, likely=False)
        poller.check(leave)
        return cursors

    sizes = f.add(_field(f, table, "sizes"), f.const(I64, len(HEADER)))
    start = f.gep(table, sizes, I64)
    f.while_([start], lambda at: f.icmp("ne", _word(f, at[0]), f.const(I64, 0)), step)
    f.ret(f.const(I32, 0))
