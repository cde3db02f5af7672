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

from ingot.artifact.abi import CANCELLED
from ingot.artifact.stages import SLOT_HEADER_WORDS
from ingot.native.functions import exported, inlined, native
from ingot.native.operations import address_of, memcpy, unlikely
from ingot.native.pointers import Array, Pointer, Struct, Structs, sizeof
from ingot.native.types import i8, i32, i64
from ingot.runtime.allocator import allocate, free
from ingot.runtime.execute import OUT_OF_MEMORY, copy_words, execute_on, prepare
from ingot.runtime.interrupts import Polls, begin_watch, end_watch, has_to_end, is_cancelled
from ingot.runtime.records import Buffers, Dims, Program, Runtime, Staged

END, RUN, DEFINE, COPY, MOVE, FREE, JUMP, UNLESS, DIFFERS = range(9)
NEW, PLACED = -1, -2
"""Where a stage makes a result: a new block, or where the caller placed it; else in an input."""
CODE_WORDS = 6
WORD = 8
NEGATIVE_SIZE = 1
"""Status of a definition whose number is negative."""


class Instruction(Struct, counts={"arguments": CODE_WORDS - 1}):
    """An instruction."""

    operation: i64
    arguments: Array[i64]


class Slot(Struct):
    """A value that stages hand on; its dimensions follow."""

    data: Pointer | None
    owner: Pointer | None  # the block to free, null if the data is somebody else's


class Frame(Struct):
    """How a frame begins; the slots follow."""

    instruction: Instruction


class Row(Struct):
    """What a stage is run on. The slots of inputs and outputs follow, and a word for each output.

    That word says where the output is made: `NEW`, `PLACED`, or the input whose block it takes.
    """

    program: Program
    inputs: i64
    outputs: i64


@inlined
def slot_at(frame: Frame, offset: i64) -> Slot:
    """Return the slot with an offset."""
    return Slot.at(frame + offset)


@inlined
def dims_of(slot: Slot) -> Array[i64]:
    """Return the dimensions of a slot."""
    return Array[i64].at(slot + SLOT_HEADER_WORDS * WORD)


@inlined
def free_slot(slot: Slot) -> None:
    """Give back the block that a slot owns."""
    free(slot.owner)
    slot.owner = None


@inlined
def move_slot(source: Slot, target: Slot, words: i64) -> None:
    """Move a value of `words` words to another slot."""
    copy_words(Array[i64].at(target), Array[i64].at(source), words)
    source.owner = None


@native
def copy_slot(source: Slot, target: Slot, words: i64, element_bytes: i64) -> i32:
    """Copy a value to another slot, which owns the copy."""
    size: i64 = element_bytes
    for axis in range(words - SLOT_HEADER_WORDS):
        size *= dims_of(source)[axis]
    block = allocate(size)
    if block is None:
        return OUT_OF_MEMORY
    data = source.data
    assert data is not None
    memcpy(block, data, size)
    copy_words(Array[i64].at(target), Array[i64].at(source), words)
    target.data = block
    target.owner = block
    return 0


@native
def define_slot(number: Slot, target: Slot, number_bytes: i64, is_signed: bool) -> i32:
    """Give `target` as many elements as a number says."""
    word = Array[i64].on_stack(1)
    word[0] = 0
    data = number.data
    assert data is not None
    memcpy(word, data, number_bytes)
    shift = 64 - number_bytes * 8
    count = i64(word[0] << shift) >> shift if is_signed else word[0]
    if count < 0:
        return NEGATIVE_SIZE
    dims_of(target)[0] = count
    return 0


@inlined
def place_output(row: Row, frame: Frame, number: i64, sizes: Array[i64]) -> bool:
    """Give the slot of an output its memory and its dimensions; false: there is no memory."""
    slots = Array[i64].at(row + sizeof(Row))
    slot = slot_at(frame, slots[row.inputs + number])
    output = row.program.outputs[number]
    source = slots[row.inputs + row.outputs + number]
    if source >= 0:
        donor = slot_at(frame, slots[source])
        block = donor.owner
        donor.owner = None
        slot.data = block
        slot.owner = block
    elif source == PLACED and slot.data is not None:
        slot.owner = None
    else:
        fresh = allocate(sizes[output.bytes_slot])
        if fresh is None:
            return False
        slot.data = fresh
        slot.owner = fresh
    copy_words(dims_of(slot), Array[i64].at(sizes + output.dims_slot * WORD), output.rank)
    return True


@native
def run_stage(row: Row, frame: Frame, runtime: Runtime) -> i32:
    """Run a stage on its slots."""
    program = row.program
    inputs = Buffers.on_stack(row.inputs)
    in_dims = Dims.on_stack(row.inputs)
    outputs = Buffers.on_stack(row.outputs)
    sizes = Array[i64].on_stack(program.num_sizes)
    slots = Array[i64].at(row + sizeof(Row))
    for index in range(row.inputs):
        slot = slot_at(frame, slots[index])
        inputs[index] = slot.data
        in_dims[index] = dims_of(slot)
    status = prepare(program, in_dims, sizes)
    if unlikely(status != 0):
        return status
    for number in range(row.outputs):
        if unlikely(not place_output(row, frame, number, sizes)):
            return OUT_OF_MEMORY
        outputs[number] = slot_at(frame, slots[row.inputs + number]).data
    return execute_on(program, runtime, inputs, outputs, sizes)


@inlined
def act(instruction: Instruction, frame: Frame, runtime: Runtime) -> i32:
    """Do what an instruction says that does not jump."""
    operation = instruction.operation
    words = instruction.arguments
    if operation == RUN:
        return run_stage(Array[Row].at(words)[0], frame, runtime)
    first = slot_at(frame, words[0])
    if operation == FREE:
        free_slot(first)
        return 0
    second = slot_at(frame, words[1])
    if operation == COPY:
        return copy_slot(first, second, words[2], words[3])
    if operation == DEFINE:
        return define_slot(first, second, words[2], words[3] != 0)
    move_slot(first, second, words[2])
    return 0


@inlined
def jumps_to(instruction: Instruction, frame: Frame) -> i64:
    """Return the number of the instruction that a branch goes on with; -1: the following one."""
    words = instruction.arguments
    if instruction.operation == JUMP:
        return words[0]
    data = slot_at(frame, words[0]).data
    assert data is not None
    if instruction.operation == UNLESS:
        return words[1] if Array[i8].at(data)[0] == 0 else -1
    return words[2] if i64(Array[i32].at(data)[0]) != words[1] else -1


@native
def run_code(staged: Staged, frame: Frame, runtime: Runtime) -> i32:
    """Run all instructions; leave what was made in the frame."""
    polls = Polls.on_stack()
    if unlikely(is_cancelled(runtime, polls)):
        return CANCELLED
    code = Structs[Instruction].at(staged.code)
    at = code[0]
    status: i32 = 0
    while status == 0 and at.operation != END:
        frame.instruction = at
        operation = at.operation
        target: i64 = -1
        if operation < JUMP:
            status = act(at, frame, runtime)
        else:
            if operation == JUMP and has_to_end(runtime, polls):
                return CANCELLED
            target = jumps_to(at, frame)
        at = Instruction.at(at + sizeof(Instruction)) if target < 0 else code[target]
    return status


@exported("ingot_stages_run")
def stages_run(staged: Staged, frame: Frame, runtime: Runtime) -> i64:
    """Return 0, or the number of the instruction that failed << 32 | its status."""
    begin_watch()
    status = run_code(staged, frame, runtime)
    end_watch()
    if status == 0:
        return 0
    for index in range(staged.num_slots):
        free_slot(slot_at(frame, staged.slots[index]))
    offset = address_of(frame.instruction) - address_of(staged.code)
    return offset // sizeof(Instruction) << 32 | i64(status) & 0xFFFFFFFF
