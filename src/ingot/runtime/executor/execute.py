# SPDX-License-Identifier: Apache-2.0
"""Execution of a program record, for every caller, Python or native.

`ingot_prepare` computes sizes, `ingot_execute` runs with an arena from the allocator, `ingot_call`
does both; `ingot_execute_on` is `ingot_execute` for one of several devices, whose copy of the
runtime record says which replica and partition it is.

Invariant: these functions hold no state of their own, so any number of threads may execute the same
program at once. Their status: 0 done, 1+k run error k, -1 out of memory, -2-k shape constraint k
violated, `CANCELLED` cancelled. `ingot_execute_watched` also ends by signals and deadlines
(`interrupts`).
"""

from __future__ import annotations

from ingot.artifact.abi import ARENA_SLOT
from ingot.native.functions import exported, inlined, native
from ingot.native.operations import unlikely
from ingot.native.pointers import Array, Pointer
from ingot.native.types import i32, i64
from ingot.runtime.memory.allocator import allocate, free
from ingot.runtime.records import Buffers, Dims, Meeting, Program, Runtime
from ingot.runtime.threading.float_modes import begin_plain, end_plain
from ingot.runtime.threading.interrupts import begin_watch, end_watch

OUT_OF_MEMORY = -1
FIRST_CONSTRAINT = -2
"""Status of constraint 0; constraint k is `FIRST_CONSTRAINT - k`."""


@inlined
def copy_words(to: Array[i64], source: Array[i64], count: i64) -> None:
    """Copy a few words: a loop, which is faster than a call."""
    for index in range(count):
        to[index] = source[index]


@exported("ingot_prepare")
def prepare(program: Program, in_dims: Dims, sizes: Array[i64]) -> i32:
    """Fill `sizes` from the dimensions of the parameters; return a status."""
    status = program.sizes(in_dims, sizes, program.constants)
    return status if status == 0 else FIRST_CONSTRAINT + 1 - status


@native
def leave_meeting(runtime: Runtime) -> None:
    """Let nobody use the memory of an execution that failed."""
    if runtime.rendezvous is not None:
        leave = Meeting.at(runtime.rendezvous).leave
        if leave is not None:
            leave(runtime)


@exported("ingot_execute_on")
def execute_on(
    program: Program, runtime: Runtime, inputs: Buffers, outputs: Buffers, sizes: Array[i64]
) -> i32:
    """Run with an arena, and with a runtime record of the execution's own."""
    arena_bytes = sizes[ARENA_SLOT]
    arena: Pointer | None = None
    if arena_bytes > 0:
        arena = allocate(arena_bytes)
        if arena is None:
            return OUT_OF_MEMORY
    modes = begin_plain()
    status = program.run(runtime, inputs, outputs, arena, sizes, program.constants)
    end_plain(modes)
    if unlikely(status != 0):
        leave_meeting(runtime)
    free(arena)
    return status


@exported("ingot_execute_watched")
def execute_watched(
    program: Program, runtime: Runtime, inputs: Buffers, outputs: Buffers, sizes: Array[i64]
) -> i32:
    """Run as `execute_on`; signals and deadlines may end it."""
    begin_watch()
    status = execute_on(program, runtime, inputs, outputs, sizes)
    end_watch()
    return status


@exported("ingot_execute")
def execute(program: Program, inputs: Buffers, outputs: Buffers, sizes: Array[i64]) -> i32:
    """Run with an arena, with the runtime of the process."""
    # A program that waits for others, or loops, must be able to end.
    if program.release_gil_bytes == 0:
        return execute_watched(program, program.runtime, inputs, outputs, sizes)
    return execute_on(program, program.runtime, inputs, outputs, sizes)


@exported("ingot_call")
def call(program: Program, inputs: Buffers, in_dims: Dims, outputs: Buffers) -> i32:
    """Compute sizes, then run.

    For callers that know the sizes of the outputs already, because they are static.
    """
    sizes = Array[i64].on_stack(program.num_sizes)
    status = prepare(program, in_dims, sizes)
    if unlikely(status != 0):
        return status
    return execute(program, inputs, outputs, sizes)
