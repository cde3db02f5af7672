# SPDX-License-Identifier: Apache-2.0
"""What machine code and Python share about launches: records and texts.

Declared once, in the layout of C; the native functions of the launch op read them, `launch` fills
them.
"""

from __future__ import annotations

from ingot.native.pointers import Array, Atomic, Pointer, Struct, Structs
from ingot.native.types import i32, i64
from ingot.runtime.programs.execution import CANCELLED_TEXT
from ingot.runtime.records import Buffers, Program, SharedMemory, Staged


class VariableRow(Struct, name="IngotVariable"):
    """An input that is a variable's handle."""

    input: i64  # index of the handle among the inputs
    result: i64  # index of the new value among the program's results, or -1
    rank: i64
    dims: Array[i64]
    elements: i64
    type: i32  # TF_DataType
    copy: Pointer | None  # where `miss` finds the value of a small variable
    copy_bytes: i64


class Guard(Struct, name="IngotGuard"):
    """The value of an input that a program was compiled for."""

    input: i64
    bytes: i64
    data: Pointer  # what the input's first bytes must be


class ResultRow(Struct, name="IngotResult"):
    """Where a program in stages has a result."""

    slot: i64  # its offset in the frame
    rank: i64
    element_bytes: i64


class Variant(Struct, name="IngotVariant"):
    """A compiled program, and what it is for."""

    program: Program
    ranks: Array[i64]  # of each input
    next: Variant | None
    num_guards: i64
    guards: Structs[Guard]
    staged: Staged | None  # of a program that runs in stages
    runs_again: i64  # 1: it may end for lack of room, and another one run then
    num_parameters: i64  # of a program in stages
    parameters: Array[i64]  # offsets of their slots
    num_results: i64  # of a program in stages
    results: Structs[ResultRow]
    shared: SharedMemory | None  # where variables are to be; null: where TensorFlow has them


class LaunchRecord(Struct, name="IngotLaunch"):
    """A function of TensorFlow's that Ingot runs."""

    variants: Atomic[Variant | None]  # a list, newest first
    identifier: i64  # what the trampolines are told
    num_inputs: i64
    num_outputs: i64
    output_types: Array[i32]  # TF_DataType
    rows: Array[i64]  # of each input: its row in `variables`, or -1 for a tensor
    num_variables: i64  # inputs that are handles of variables
    variables: Structs[VariableRow]
    quiet: Atomic[i64]  # 1: `request` need not be called
    kernels: Atomic[i64]  # of TensorFlow's that may run it


class EagerCall(Struct, name="IngotEagerCall"):
    """A program for some arguments."""

    program: Program
    num_inputs: i64
    num_outputs: i64
    sources: Array[i64]  # of each input: the index of the argument, or -1
    captures: Buffers  # of each input: the data of a captured tensor
    sizes: Array[i64]  # computed once
    output_types: Array[i32]  # TF_DataType
    releases_gil: i64  # not 0: the program runs without the GIL
    num_guards: i64  # values of inputs that the program was compiled for
    guards: Structs[Guard]
    next: EagerCall | None  # the record for other values of the same inputs


LAUNCH, VARIABLE = LaunchRecord.c_layout, VariableRow.c_layout
GUARD, VARIANT = Guard.c_layout, Variant.c_layout
EAGER_CALL = EagerCall.c_layout

PROCESS = "ingot_process"
"""The symbol of an i64 that marks the ops of this process: what they hold are addresses."""

ENDED_TEXT = f"{CANCELLED_TEXT}; variables may hold values of a step that was not done."
OUT_OF_MEMORY_TEXT = "Ingot: there is not enough memory for the temporary buffers of this function."
"""What is said where Python has no memory to say more."""
FOREIGN = (
    "Ingot: this graph was compiled in another process. Save models with tf.saved_model.save or "
    "model.save, which store the original functions."
)

DONE, NO_VARIANT, TRY_EXACT, TRY_ROOM = range(4)
"""What an attempt returns: the status says how it went; else `miss` is called first, for a variant,
for one for exactly these sizes, or for one with more room for lists that grow."""
