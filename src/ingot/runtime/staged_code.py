# SPDX-License-Identifier: Apache-2.0
"""Staged programs, run: the function that takes the code of an `artifact.stages.StagedCode` apart.

`ingot_stages_run` runs the stages of a program one after the other, in a frame that the caller made
and in which the slots of the parameters are filled. Afterwards each result's slot owns its block,
unless the caller placed it, and no other slot owns one; if something failed, none does.

An instruction is `CODE_WORDS` words: the operation, then its arguments; a slot is the offset of its
words in the frame. The frame begins with the address of the instruction that runs.

Invariant: all state is in the frame, so any number of threads may run a staged program at once.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.artifact.abi import CANCELLED
from ingot.artifact.polling import Poller
from ingot.artifact.stages import SLOT_HEADER_WORDS
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I8, I32, I64, PTR
from ingot.llvm.values import FunctionRef, Value, zero
from ingot.runtime.allocator import AllocatorFunctions
from ingot.runtime.execute import OUT_OF_MEMORY, ExecuteFunctions, emit_stack_array, emit_word_copy
from ingot.runtime.interrupts import WatchFunctions
from ingot.runtime.records import OUTPUT, PROGRAM, STAGED

END, RUN, DEFINE, COPY, MOVE, FREE, JUMP, UNLESS, DIFFERS = range(9)
NEW, PLACED = -1, -2
"""Where a stage makes a result: a new block, or where the caller placed it; else in an input."""
CODE_WORDS = 6
WORD = 8
NEGATIVE_SIZE = 1
"""Status of a definition whose number is negative."""

_DIMS = SLOT_HEADER_WORDS * WORD


def emit_staged(
    module: ModuleBuilder,
    allocator: AllocatorFunctions,
    watch: WatchFunctions,
    execute: ExecuteFunctions,
) -> None:
    """Add `ingot_stages_run` to `module`."""
    free = _emit_free(module, allocator)
    functions = {
        RUN: _emit_run(module, allocator, execute),
        COPY: _emit_copy(module, allocator),
        DEFINE: _emit_define(module),
        MOVE: _emit_move(module),
        FREE: free,
    }
    code = _emit_code(module, functions)
    _emit_whole(module, code, free, watch)


def _word(f: FunctionBuilder, at: Value, number: int = 0) -> Value:
    return f.load(I64, f.gep(at, number * WORD), WORD)


def _slot(f: FunctionBuilder, frame: Value, at: Value, number: int) -> Value:
    """Return the address of the slot that argument `number` of an instruction names."""
    return f.gep(frame, _word(f, at, number))


def _operation(module: ModuleBuilder, name: str) -> tuple[FunctionBuilder, Value, Value]:
    """Begin `i32 (ptr instruction, ptr frame, ptr runtime)`."""
    names = ("instruction", "frame", "runtime")
    f = module.function(name, I32, [(one, PTR) for one in names], linkage="internal")
    at, frame, _ = f.params
    return f, at, frame


def _done(f: FunctionBuilder) -> FunctionRef:
    f.ret(f.const(I32, 0))
    return f.reference


def _emit_free(module: ModuleBuilder, allocator: AllocatorFunctions) -> FunctionRef:
    """Argument: the slot."""
    f, at, frame = _operation(module, "ingot_stages_free")
    slot = _slot(f, frame, at, 1)
    f.call(allocator.free, [f.load(PTR, f.gep(slot, WORD))])
    f.store(zero(PTR), f.gep(slot, WORD))
    return _done(f)


def _emit_move(module: ModuleBuilder) -> FunctionRef:
    """Arguments: from, to, words of the slot."""
    f, at, frame = _operation(module, "ingot_stages_move")
    source, target = _slot(f, frame, at, 1), _slot(f, frame, at, 2)
    emit_word_copy(f, target, source, _word(f, at, 3))
    f.store(zero(PTR), f.gep(source, WORD))
    return _done(f)


def _emit_copy(module: ModuleBuilder, allocator: AllocatorFunctions) -> FunctionRef:
    """Arguments: from, to, words of the slot, bytes of an element."""
    f, at, frame = _operation(module, "ingot_stages_copy")
    source, target = _slot(f, frame, at, 1), _slot(f, frame, at, 2)
    words = _word(f, at, 3)
    rank = f.sub(words, f.const(I64, SLOT_HEADER_WORDS))
    dims = f.gep(source, _DIMS)

    def times(index: Value, sizes: list[Value]) -> list[Value]:
        return [f.mul(sizes[0], f.load(I64, f.gep(dims, index, I64)))]

    (size,) = f.loop(0, rank, 1, [_word(f, at, 4)], times)
    data = f.call(allocator.allocate, [size])
    missing = f.icmp("eq", data, zero(PTR))
    f.if_(missing, lambda: f.ret(f.const(I32, OUT_OF_MEMORY)), likely=False)
    f.memcpy(data, f.load(PTR, source), size)
    emit_word_copy(f, target, source, words)
    f.store(data, target)
    f.store(data, f.gep(target, WORD))
    return _done(f)


def _emit_define(module: ModuleBuilder) -> FunctionRef:
    """Arguments: the number, the array, bytes of the number, whether it is signed."""
    f, at, frame = _operation(module, "ingot_stages_define")
    data, target = f.load(PTR, _slot(f, frame, at, 1)), _slot(f, frame, at, 2)
    size, signed = _word(f, at, 3), _word(f, at, 4)
    bits = f.mul(size, f.const(I64, 8))
    room = f.alloca(I64)
    f.store(f.const(I64, 0), room)
    f.memcpy(room, data, size)
    shift = f.sub(f.const(I64, 64), bits)
    raw = f.load(I64, room)
    extended = f.ashr(f.shl(raw, shift), shift)
    count = f.select(f.icmp("ne", signed, f.const(I64, 0)), extended, raw)
    negative = f.icmp("slt", count, f.const(I64, 0))
    f.if_(negative, lambda: f.ret(f.const(I32, NEGATIVE_SIZE)), likely=False)
    f.store(count, f.gep(target, _DIMS))
    return _done(f)


def _emit_run(
    module: ModuleBuilder, allocator: AllocatorFunctions, execute: ExecuteFunctions
) -> FunctionRef:
    """Argument: a row of words: the program, parameters, results, the slots of both.

    Behind them there is a word for each result: where it is made.
    """
    f, at, frame = _operation(module, "ingot_stages_stage")
    row = f.load(PTR, f.gep(at, WORD))
    program, inputs_count, outputs_count = f.load(PTR, row), _word(f, row, 1), _word(f, row, 2)
    inputs, in_dims = emit_stack_array(f, PTR, inputs_count), emit_stack_array(f, PTR, inputs_count)
    outputs = emit_stack_array(f, PTR, outputs_count)
    sizes = emit_stack_array(f, I64, PROGRAM.load(f, program, "num_sizes"))
    names = f.gep(row, 3 * WORD)

    def slot_of(number: Value) -> Value:
        return f.gep(frame, f.load(I64, f.gep(names, number, I64)))

    def take(index: Value, _: list[Value]) -> None:
        slot = slot_of(index)
        f.store(f.load(PTR, slot), f.gep(inputs, index, PTR))
        f.store(f.gep(slot, _DIMS), f.gep(in_dims, index, PTR))

    f.loop(0, inputs_count, 1, [], take)
    status = f.call(execute.prepare, [program, in_dims, sizes])
    f.if_(f.icmp("ne", status, f.const(I32, 0)), lambda: f.ret(status), likely=False)
    table = PROGRAM.load(f, program, "outputs")
    sources = f.gep(names, f.add(inputs_count, outputs_count), I64)

    def make(index: Value, _: list[Value]) -> None:
        output, slot = OUTPUT.element(f, table, index), slot_of(f.add(inputs_count, index))
        source = f.load(I64, f.gep(sources, index, I64))

        def take_block() -> list[Value]:
            donor = slot_of(source)
            owned = f.load(PTR, f.gep(donor, WORD))
            f.store(zero(PTR), f.gep(donor, WORD))
            return [owned, owned]

        def use_place() -> list[Value]:
            is_placed = f.icmp("eq", source, f.const(I64, PLACED))
            place = f.select(is_placed, f.load(PTR, slot), zero(PTR))
            has_place = f.icmp("ne", place, zero(PTR))
            return f.if_(has_place, lambda: [place, zero(PTR)], allocate)

        def allocate() -> list[Value]:
            size = f.load(I64, f.gep(sizes, OUTPUT.load(f, output, "bytes_slot"), I64))
            block = f.call(allocator.allocate, [size])
            missing = f.icmp("eq", block, zero(PTR))
            f.if_(missing, lambda: f.ret(f.const(I32, OUT_OF_MEMORY)), likely=False)
            return [block, block]

        takes = f.icmp("sge", source, f.const(I64, 0))
        data, owner = f.if_(takes, take_block, use_place)
        f.store(data, slot)
        f.store(owner, f.gep(slot, WORD))
        first = f.gep(sizes, OUTPUT.load(f, output, "dims_slot"), I64)
        emit_word_copy(f, f.gep(slot, _DIMS), first, OUTPUT.load(f, output, "rank"))
        f.store(data, f.gep(outputs, index, PTR))

    f.loop(0, outputs_count, 1, [], make)
    f.ret(f.call(execute.execute_on, [program, f.params[2], inputs, outputs, sizes]))
    return f.reference


def _emit_code(module: ModuleBuilder, functions: dict[int, FunctionRef]) -> FunctionRef:
    """`i32 (ptr staged, ptr frame, ptr runtime)`: leave what was made in the frame."""
    names = ("staged", "frame", "runtime")
    f = module.function(
        "ingot_stages_code", I32, [(name, PTR) for name in names], linkage="internal"
    )
    staged, frame, runtime = f.params
    start = STAGED.load(f, staged, "code")
    poller = Poller(f, runtime)
    poller.first(lambda: f.ret(f.const(I32, CANCELLED)))
    none = f.const(I32, 0)

    def step(values: list[Value]) -> list[Value]:
        at, _ = values
        f.store(at, frame)
        operation, following = _word(f, at), f.gep(at, CODE_WORDS * WORD)

        def jump_to(number: int) -> Value:
            offset = f.mul(_word(f, at, number), f.const(I64, CODE_WORDS * WORD))
            return f.gep(start, offset)

        def jump() -> list[Value]:
            poller.check(lambda: f.ret(f.const(I32, CANCELLED)))
            return [jump_to(1), none]

        def unless() -> list[Value]:
            flag = f.load(I8, f.load(PTR, _slot(f, frame, at, 1)))
            return [f.select(f.icmp("eq", flag, f.const(I8, 0)), jump_to(2), following), none]

        def differs() -> list[Value]:
            index = f.sext(f.load(I32, f.load(PTR, _slot(f, frame, at, 1))), I64)
            return [f.select(f.icmp("ne", index, _word(f, at, 2)), jump_to(3), following), none]

        def called(function: FunctionRef) -> Callable[[], list[Value]]:
            return lambda: [following, f.call(function, [at, frame, runtime])]

        cases = {number: called(function) for number, function in functions.items()}
        cases |= {JUMP: jump, UNLESS: unless, DIFFERS: differs}
        return _switch(f, operation, list(cases.items()))

    def goes_on(values: list[Value]) -> Value:
        at, status = values
        is_code = f.icmp("ne", _word(f, at), f.const(I64, END))
        return f.and_(f.icmp("eq", status, none), is_code)

    _, status = f.while_([start, none], goes_on, step)
    f.ret(status)
    return f.reference


def _switch(
    f: FunctionBuilder, value: Value, cases: list[tuple[int, Callable[[], list[Value]]]]
) -> list[Value]:
    """Emit the case of `value`, which is one of them."""
    (number, case), *rest = cases
    if not rest:
        return case()
    is_this = f.icmp("eq", value, f.const(I64, number))
    return f.if_(is_this, case, lambda: _switch(f, value, rest))


def _emit_whole(
    module: ModuleBuilder, code: FunctionRef, free: FunctionRef, watch: WatchFunctions
) -> None:
    """`i64 (ptr staged, ptr frame, ptr runtime)`: 0, or what failed << 32 | its status."""
    names = ("staged", "frame", "runtime")
    f = module.function("ingot_stages_run", I64, [(name, PTR) for name in names])
    staged, frame, runtime = f.params
    f.call(watch.begin, [])
    status = f.call(code, [staged, frame, runtime])
    f.call(watch.end, [])
    f.if_(f.icmp("eq", status, f.const(I32, 0)), lambda: f.ret(f.const(I64, 0)))
    offsets = STAGED.load(f, staged, "slots")
    instruction = f.alloca(I64, 2)

    def drop(index: Value, _: list[Value]) -> None:
        f.store(f.load(I64, f.gep(offsets, index, I64)), f.gep(instruction, WORD))
        f.call(free, [instruction, frame, runtime])

    f.loop(0, STAGED.load(f, staged, "num_slots"), 1, [], drop)
    start = f.ptrtoint(STAGED.load(f, staged, "code"))
    place = f.sub(f.ptrtoint(f.load(PTR, frame)), start)
    number = f.sdiv(place, f.const(I64, CODE_WORDS * WORD))
    f.ret(f.or_(f.shl(number, f.const(I64, 32)), f.zext(status, I64)))
