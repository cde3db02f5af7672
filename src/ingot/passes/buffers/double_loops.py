# SPDX-License-Identifier: Apache-2.0
"""Double loops: the body of a loop that would copy its state is run twice for each trip.

A step of a stencil reads neighbours, so it cannot be written over the state that it reads, and one
of two states that are exchanged would be lost. Each trip would end with copies. With two steps in a
trip the second one writes where the first one read: no copies are left, and each step has the two
buffers that it had before. A step that is left over runs before the loop.

Invariant: as many steps run, in the same order; both are the same kernels.

Source: xla/service/gpu/transforms/double_buffer_loop_unrolling.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.analysis.in_place import shared_operands
from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.op_pass import op_pass
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.passes.inline import copy_into
from ingot.passes.simplify.while_loops.state import is_plain
from ingot.passes.simplify.while_loops.trip_count import element_index
from ingot.semantics.trip_counts import known_trip_count, set_trip_count

LEAST_BYTES = 1 << 10
"""Bytes of copies in each trip at least. Steps of the heat equation on 16x16 numbers took 0.83 of
the time, on 32x32 0.75, 128x128 0.74, 700x700 0.66; of two states of 5000 numbers 0.54, of
Floyd-Warshall on 100x100 0.56 (AMD EPYC with AVX-512, one thread, 2026-11-28)."""

LEAST_TRIPS, MOST_OPS = 8, 64
"""Trips at least, and instructions of a body at most: those that are added have to pay."""


@op_pass("double-loops", "while")
def double_loops(loop: Instruction, module: Module, context: PassContext) -> bool:
    """Runs bodies twice for each trip where that saves copies of the state."""
    trips, body = known_trip_count(loop), loop.attributes.body
    if trips is None or trips < LEAST_TRIPS or not is_plain(loop):
        return False
    if any(one.opcode != "fusion" for one in body.calls_and_effects):
        return False
    if len(body.instructions) > MOST_OPS or _copied_bytes(body) < LEAST_BYTES:
        return False
    caller = loop.computation
    start = loop.operands[0]
    if trips % 2:
        start = _step(caller, body, start.operands)
    made = Computation(body.name)
    build = Builder(made)
    state = build.parameter(0, body.parameters[0].shape, body.parameters[0].name)
    elements = build.elements_of(state)
    first = _step(made, body, elements)
    made.set_root(_step(made, body, first.operands))
    for unused in (first, *elements):
        made.remove_dead(unused)
    assert caller.module is not None, "passes rewrite computations of a module"
    caller.module.take(made)
    doubled = Builder(caller, loop.metadata).while_(
        start, condition=loop.attributes.condition, body=made
    )
    doubled.extra = dict(loop.extra)
    set_trip_count(doubled, trips // 2)
    before = loop.operands[0]
    caller.substitute(loop, doubled)
    caller.remove_dead(before)
    return True


def _step(into: Computation, body: Computation, state: Sequence[Instruction]) -> Instruction:
    """Copy a body to where it is given the elements of the state; return its root's copy."""
    order, given = body.post_order(), body.parameters[0]
    copies: dict[Instruction, Instruction] = {}
    for read in order:
        index = element_index(read, given)
        if index is not None:
            copies[read] = state[index]
    return copy_into(into, [one for one in order if one is not given], copies)[body.root]


def _copied_bytes(body: Computation) -> int:
    """Return how much of its state a body can only return by a copy that two steps do not need."""
    state, total = body.parameters[0], 0
    for number, value in enumerate(body.root.operands):
        size = value.shape.bytes
        index = element_index(value, state)
        is_moved = index is not None and index != number
        if isinstance(size, int) and (is_moved or _reads_other_elements(value, state, number)):
            total += size
    return total


def _reads_other_elements(value: Instruction, state: Instruction, number: int) -> bool:
    """Whether the kernel of a new element reads the old one elsewhere than it writes."""
    made = value.operands[0] if value.opcode == "get-tuple-element" else value
    if made is state:
        return False
    updated, shared = shared_operands(made)
    return any(
        element_index(operand, state) == number
        and position not in shared
        and position not in updated.values()
        for position, operand in enumerate(made.operands)
    )
