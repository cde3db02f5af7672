# SPDX-License-Identifier: Apache-2.0
"""The interpreter of host programs that are data (`artifact.steps.Steps`): three functions.

`ingot_steps_sizes` and `ingot_steps_run` are `S_sizes` and `S_run` of the execution ABI for every
program that is a straight line of kernel calls; the steps are in the constant block.
`ingot_steps_copy` is the kernel that copies. While a profiler is on, each step that is a site tells
it when it began and ended.

Invariant: these functions hold no state; they only read the table.
"""

from __future__ import annotations

from ingot.artifact.abi import CANCELLED
from ingot.artifact.steps import (
    CONSTANTS,
    COPIED_BYTES,
    COPY,
    FIRST_INPUT,
    NO_SITE,
    NUMBER,
    RUNTIME,
    TEMP,
    WORD_BYTES,
)
from ingot.native.functions import cold, exported, inlined, native
from ingot.native.operations import address_of, memcpy, unlikely
from ingot.native.pointers import Array, Pointer, Struct, Structs, sizeof
from ingot.native.types import i32, i64
from ingot.runtime.executor.execute import copy_words
from ingot.runtime.records import Buffers, ChunkFunction, Dims, ProfileFunction, Runtime
from ingot.runtime.threading.interrupts import Polls, has_to_end, is_cancelled


class Table(Struct):
    """How the table begins: `artifact.steps.HEADER`. The sizes follow, then the steps."""

    table_bytes: i64
    inputs: i64
    outputs: i64
    slots: i64
    sizes: i64


class StepHead(Struct):
    """How a step begins. Its slots follow, the number of its phases, and these."""

    slots: i64
    site: i64


class Slot(Struct):
    """A word of env: an offset from a base."""

    base: i64
    offset: i64


class Phase(Struct):
    """A parallel loop."""

    function: ChunkFunction
    chunks: i64


class Copy(Struct):
    """The env of the kernel that copies."""

    to: Pointer
    source: Pointer
    size: i64


@inlined
def sizes_of(table: Table) -> Array[i64]:
    """Return the sizes that `S_sizes` stores."""
    return Array[i64].at(table + sizeof(Table))


@exported("ingot_steps_sizes")
def steps_sizes(in_dims: Dims, sizes: Array[i64], table: Table) -> i32:
    """Fill `sizes`: `S_sizes`."""
    copy_words(sizes, sizes_of(table), table.sizes)
    return 0


@exported(COPY)
def steps_copy(env: Copy, chunk: i64) -> None:
    """Copy a chunk: a kernel."""
    if env.to != env.source:
        first = chunk * COPIED_BYTES
        memcpy(env.to + first, env.source + first, min(COPIED_BYTES, env.size - first))


@cold
@native
def tell(
    profile: ProfileFunction | None, runtime: Runtime, table: Table, site: i64, start: i64
) -> i64:
    """Tell the profiler about a site; return the time now."""
    assert profile is not None
    return profile(runtime, steps_run, table, site, start)


@inlined
def run_step(runtime: Runtime, step: StepHead, bases: Array[i64], env: Array[i64]) -> StepHead:
    """Fill env and run the phases of a step; return the address of the next one."""
    slots = Structs[Slot].at(step + sizeof(StepHead))
    for index in range(step.slots):
        slot = slots[index]
        env[index] = bases[slot.base] + slot.offset
    num_phases = Array[i64].at(slots + step.slots * sizeof(Slot))
    phases = Structs[Phase].at(num_phases + WORD_BYTES)
    for number in range(num_phases[0]):
        phase = phases[number]
        if phase.chunks == 1:
            phase.function(env, 0)
        else:
            runtime.parallel(runtime.pool, phase.function, env, phase.chunks)
    return StepHead.at(phases + num_phases[0] * sizeof(Phase))


@exported("ingot_steps_run")
def steps_run(
    runtime: Runtime,
    inputs: Buffers,
    outputs: Buffers,
    temp: Pointer | None,
    sizes: Array[i64],
    constants: Pointer | None,
) -> i32:
    """Run all steps, which are in the constant block: `S_run`."""
    table = Table.at(constants)
    assert table is not None
    polls = Polls.on_stack()
    if unlikely(is_cancelled(runtime, polls)):
        return CANCELLED
    profile = runtime.profile
    bases = Array[i64].on_stack(table.inputs + table.outputs + FIRST_INPUT)
    env = Array[i64].on_stack(table.slots)
    bases[NUMBER] = 0
    bases[TEMP] = address_of(temp)
    bases[CONSTANTS] = address_of(table + table.table_bytes)
    bases[RUNTIME] = address_of(runtime)
    first_input = Array[i64].at(bases + FIRST_INPUT * WORD_BYTES)
    copy_words(first_input, Array[i64].at(inputs), table.inputs)
    first_output = Array[i64].at(first_input + table.inputs * WORD_BYTES)
    copy_words(first_output, Array[i64].at(outputs), table.outputs)
    step = StepHead.at(sizes_of(table) + table.sizes * WORD_BYTES)
    while step.slots != 0:
        site = step.site
        is_timed = profile is not None and site != NO_SITE
        start: i64 = 0
        if unlikely(is_timed):
            start = tell(profile, runtime, table, site, 0)
        step = run_step(runtime, step, bases, env)
        if unlikely(is_timed):
            tell(profile, runtime, table, site, start)
        if has_to_end(runtime, polls):
            return CANCELLED
    return 0
