# SPDX-License-Identifier: Apache-2.0
"""The interpreter of staged programs, which executes an `artifact.stages.StagedCode`.

`ingot_stages_run` runs the stages of a program one after the other, in a frame in which the caller
has filled the slots of the parameters. Afterwards each result's slot owns its block, unless the
caller allocated it, and no other slot owns one; if something failed, none does.

Blocks are of the memory of a device, whose functions (`StageFunctions`) the runtime record names:
`cpu_stages` are those of the CPU, `runtime.cuda.native` has those of GPUs.

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
from ingot.native.statics import static
from ingot.native.types import i32, i64
from ingot.runtime.executor.execute import OUT_OF_MEMORY, copy_words, execute_on, prepare
from ingot.runtime.memory.allocator import allocate, free
from ingot.runtime.records import Buffers, Dims, Program, Runtime, Staged, StageFunctions
from ingot.runtime.threading.interrupts import (
    Polls,
    begin_watch,
    end_watch,
    has_to_end,
    is_cancelled,
)

END, RUN, DEFINE, COPY, MOVE, FREE, JUMP, UNLESS, DIFFERS = range(9)
NEW, PLACED = -1, -2
"""Where a stage stores a result: in a new block, or in the caller's; else in an input's."""
CODE_WORDS = 6
WORD = 8
NEGATIVE_SIZE = 1
"""Status of a definition whose number is negative."""


class Instruction(Struct, counts={"arguments": CODE_WORDS - 1}):
    """An instruction."""

    operation: i64
    arguments: Array[i64]


class Slot(Struct):
    """A value that is passed between stages; its dimensions follow."""

    data: Pointer | None
    owner: Pointer | None  # the block to free, null if the data is somebody else's


class Frame(Struct):
    """How a frame begins; the slots follow."""

    instruction: Instruction


class Row(Struct):
    """The operands of a stage. The slots of inputs and outputs follow, and a word for each output.

    That word says where the output is stored: `NEW`, `PLACED`, or the input whose block it takes.
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


@native
def allocate_block(runtime: Runtime, size: i64, to: Buffers) -> i32:
    """Store the address of a new block at `to`."""
    block = allocate(size)
    to[0] = block
    if block is None:
        return OUT_OF_MEMORY
    return 0


@native
def free_block(runtime: Runtime, block: Pointer | None) -> None:
    """Give a block back."""
    free(block)


@native
def copy_block(runtime: Runtime, target: Pointer, source: Pointer, size: i64) -> i32:
    """Copy bytes of one block to another."""
    memcpy(target, source, size)
    return 0


@native
def read_block(runtime: Runtime, to: Pointer, source: Pointer, size: i64) -> i32:
    """Copy bytes of a block."""
    memcpy(to, source, size)
    return 0


CPU_STAGES = static(StageFunctions, "IngotStageFunctions.cpu")


@native
def cpu_stages() -> StageFunctions:
    """Return the functions of the CPU that programs of stages call."""
    CPU_STAGES.allocate = allocate_block
    CPU_STAGES.free = free_block
    CPU_STAGES.copy = copy_block
    CPU_STAGES.read = read_block
    CPU_STAGES.execute = execute_on
    return CPU_STAGES


@inlined
def free_slot(slot: Slot, runtime: Runtime) -> None:
    """Give back the block that a slot owns."""
    runtime.stages.free(runtime, slot.owner)
    slot.owner = None


@native
def fill_slot(slot: Slot, size: i64, runtime: Runtime) -> i32:
    """Give a slot a new block."""
    made = Buffers.on_stack(1)
    status = runtime.stages.allocate(runtime, size, made)
    if status == 0:
        slot.data = made[0]
        slot.owner = made[0]
    return status


@inlined
def move_slot(source: Slot, target: Slot, words: i64) -> None:
    """Move a value of `words` words to another slot."""
    copy_words(Array[i64].at(target), Array[i64].at(source), words)
    source.owner = None


@native
def copy_slot(source: Slot, target: Slot, words: i64, element_bytes: i64, runtime: Runtime) -> i32:
    """Copy a value to another slot, which owns the copy."""
    size: i64 = element_bytes
    for axis in range(words - SLOT_HEADER_WORDS):
        size *= dims_of(source)[axis]
    status = fill_slot(target, size, runtime)
    if status != 0:
        return status
    block = target.data
    data = source.data
    assert block is not None
    assert data is not None
    copy_words(Array[i64].at(target), Array[i64].at(source), words)
    target.data = block
    target.owner = block
    return runtime.stages.copy(runtime, block, data, size)


@native
def read_slot(slot: Slot, size: i64, to: Array[i64], runtime: Runtime) -> i32:
    """Copy the first bytes of a value into a word of zeros, when it is computed."""
    data = slot.data
    assert data is not None
    to[0] = 0
    return runtime.stages.read(runtime, to, data, size)


@native
def define_slot(
    number: Slot, target: Slot, number_bytes: i64, is_signed: bool, runtime: Runtime
) -> i32:
    """Give `target` as many elements as a number says."""
    word = Array[i64].on_stack(1)
    status = read_slot(number, number_bytes, word, runtime)
    if status != 0:
        return status
    shift = 64 - number_bytes * 8
    count = i64(word[0] << shift) >> shift if is_signed else word[0]
    if count < 0:
        return NEGATIVE_SIZE
    dims_of(target)[0] = count
    return 0


@inlined
def place_output(row: Row, frame: Frame, number: i64, sizes: Array[i64], runtime: Runtime) -> i32:
    """Give the slot of an output its memory and its dimensions."""
    slots = Array[i64].at(row + sizeof(Row))
    slot = slot_at(frame, slots[row.inputs + number])
    output = row.program.outputs[number]
    source = slots[row.inputs + row.outputs + number]
    status: i32 = 0
    if source >= 0:
        donor = slot_at(frame, slots[source])
        block = donor.owner
        donor.owner = None
        slot.data = block
        slot.owner = block
    elif source == PLACED and slot.data is not None:
        slot.owner = None
    else:
        status = fill_slot(slot, sizes[output.bytes_slot], runtime)
    copy_words(dims_of(slot), Array[i64].at(sizes + output.dims_slot * WORD), output.rank)
    return status


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
        placed = place_output(row, frame, number, sizes, runtime)
        if unlikely(placed != 0):
            return placed
        outputs[number] = slot_at(frame, slots[row.inputs + number]).data
    return runtime.stages.execute(program, runtime, inputs, outputs, sizes)


@inlined
def act(instruction: Instruction, frame: Frame, runtime: Runtime) -> i32:
    """Execute an instruction that is no branch."""
    operation = instruction.operation
    words = instruction.arguments
    if operation == RUN:
        return run_stage(Array[Row].at(words)[0], frame, runtime)
    first = slot_at(frame, words[0])
    if operation == FREE:
        free_slot(first, runtime)
        return 0
    second = slot_at(frame, words[1])
    if operation == COPY:
        return copy_slot(first, second, words[2], words[3], runtime)
    if operation == DEFINE:
        return define_slot(first, second, words[2], words[3] != 0, runtime)
    move_slot(first, second, words[2])
    return 0


@native
def find_target(
    instruction: Instruction, frame: Frame, runtime: Runtime, target: Array[i64]
) -> i32:
    """Store the number of the instruction that a branch continues at; -1: the following one."""
    words = instruction.arguments
    if instruction.operation == JUMP:
        target[0] = words[0]
        return 0
    slot = slot_at(frame, words[0])
    word = Array[i64].on_stack(1)
    if instruction.operation == UNLESS:
        status = read_slot(slot, 1, word, runtime)
        target[0] = words[1] if word[0] == 0 else -1
        return status
    status = read_slot(slot, 4, word, runtime)
    target[0] = words[2] if i64(i32(word[0])) != words[1] else -1
    return status


@native
def run_code(staged: Staged, frame: Frame, runtime: Runtime) -> i32:
    """Run all instructions; results stay in the frame."""
    polls = Polls.on_stack()
    if unlikely(is_cancelled(runtime, polls)):
        return CANCELLED
    code = Structs[Instruction].at(staged.code)
    at = code[0]
    target = Array[i64].on_stack(1)
    status: i32 = 0
    while status == 0 and at.operation != END:
        frame.instruction = at
        operation = at.operation
        target[0] = -1
        if operation < JUMP:
            status = act(at, frame, runtime)
        else:
            if operation == JUMP and has_to_end(runtime, polls):
                return CANCELLED
            status = find_target(at, frame, runtime, target)
        at = Instruction.at(at + sizeof(Instruction)) if target[0] < 0 else code[target[0]]
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
        free_slot(slot_at(frame, staged.slots[index]), runtime)
    offset = address_of(frame.instruction) - address_of(staged.code)
    return offset // sizeof(Instruction) << 32 | i64(status) & 0xFFFFFFFF
