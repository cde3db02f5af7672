# SPDX-License-Identifier: Apache-2.0
"""Latency hiding: collectives run while kernels run that do not need their results.

Of the instructions that are ready, a collective comes first, then those that wait for no result
that is still on its way, in the order in which memory was scheduled; how long that takes follows
from `estimates`. A collective with enough work between it and the first reader of its result
becomes a pair: `async-start` where it stood, `async-done` before that reader.

Data in flight needs memory. If it would be too much, a collective waits for the oldest one that
is; and where the new order still needs much more memory than the old one, that stays.

If the program orders the start and the end of a collective apart (a barrier is its end), these
orders hold for the pair: what must run after the collective waits for its start alone, what the
barrier must run after comes before its `async-done`, and no limit of memory ends it earlier.

Invariants: collectives keep their order on all devices, since nothing but the program decides it;
who overwrites an operand comes after the `async-done`.

Source: xla/service/latency_hiding_scheduler.cc; xla/hlo/transforms/collectives/
async_collective_creator.cc.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ingot.analysis.aliasing import Value
from ingot.analysis.liveness import forget_liveness
from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.opset.transfer import AsyncAttributes, AsyncStartAttributes
from ingot.hlo.rewrite.pass_base import PassContext, module_pass
from ingot.hlo.shape import Shape
from ingot.passes.schedule.problem import Problem, problems_of, typical
from ingot.semantics.device_groups import grid_of
from ingot.semantics.foreign_calls import CONTEXT, DONE, START, ends_at_barrier
from ingot.support.records import record

if TYPE_CHECKING:
    from ingot.passes.schedule.estimates import Estimates

_LEAST_WORK = 20e-6
"""Seconds of other work that are worth a pair: handing data to another thread takes a few us."""
_MOST_GROWTH = 0.2
"""How much more memory the program may take at its peak, as a share of what it took before: its
arguments count, since most data in flight is gradients, which are as large."""
_LEAST_GROWTH = 4 << 20
"""Bytes that any program may take more."""
_SHARES = (1.0, 0.5, 0.25)
"""How much of that may be on its way; the largest share is taken with which the peak allows it."""


@module_pass("latency-hiding-scheduler", *ops_with(Trait.EXCHANGE), requires={"scheduled"})
def latency_hiding_scheduler(module: Module, context: PassContext) -> bool:
    """Moves instructions between a collective and its readers, and makes it a pair."""
    from ingot.passes.schedule.estimates import Estimates

    estimates = Estimates(grid_of(module))
    found: list[tuple[Computation, _Order]] = []
    for problem in problems_of(module):
        computation = problem.computation
        problem.taken = module.schedule[computation]
        if any(one.has(Trait.EXCHANGE) for one in problem.taken) and not problem.surviving:
            order = _hidden(problem, estimates)
            if order is not None:
                found.append((computation, order))
        estimates.add(computation)
    for computation, order in found:
        module.schedule[computation] = _with_pairs(order)
    if found:
        forget_liveness(module)
    return bool(found)


@record
class _Order:
    """Instructions in order, and before which of them each pair ends (None: after the last)."""

    instructions: tuple[Instruction, ...]
    ends: dict[Instruction, Instruction | None]


def _hidden(problem: Problem, estimates: Estimates) -> _Order | None:
    """Return an order in which collectives are hidden, None if that is not worth it."""
    constraints = _Constraints(problem)
    before = problem.lowest_peak
    given = sum(typical(one.shape.bytes) for one in problem.computation.parameters)
    growth = max(_MOST_GROWTH * (before + given), _LEAST_GROWTH)
    instructions = _in_hiding_order(problem, constraints, estimates)
    for share in _SHARES:
        order = _Order(instructions, _ends(instructions, constraints, estimates, share * growth))
        if not order.ends:
            return None
        if problem.peak(instructions, _held(problem, order)) <= before + growth:
            return order
    asked = _Order(tuple(problem.taken), _ends(problem.taken, constraints, estimates, 0.0))
    return asked if asked.ends else None


def _held(problem: Problem, order: _Order) -> dict[Instruction, list[Value]]:
    """Return the operands of pairs, by the instruction until which they must live."""
    last = order.instructions[-1]
    held: dict[Instruction, list[Value]] = {}
    for one, end in order.ends.items():
        held.setdefault(end or last, []).extend(problem.reads[one])
    return held


class _Constraints:
    """Order constraints beside operands, and those on the end of a collective."""

    def __init__(self, problem: Problem) -> None:
        self.next = {one: list(users) for one, users in problem.next.items()}
        self.missing = dict(problem.missing)
        self.awaited: dict[Instruction, list[Instruction]] = {}
        number = {one: n for n, one in enumerate(problem.taken)}
        for reader, writers in problem.waiting[0].items():
            for writer in writers:
                if number[reader] < number[writer]:
                    self.next.setdefault(reader, []).append(writer)
                    self.missing[writer] += 1
                    self._await(reader, writer)
        for one in problem.taken:
            for operand in one.operands:
                self._await(operand, one)
            for before in one.control_predecessors:
                if not ends_at_barrier(before):
                    self._await(before, one)

    def _await(self, first: Instruction, then: Instruction) -> None:
        if first.has(Trait.EXCHANGE):
            self.awaited.setdefault(then, []).append(first)


def _in_hiding_order(
    problem: Problem, constraints: _Constraints, estimates: Estimates
) -> tuple[Instruction, ...]:
    """Return the instructions in the order in which they would begin; see above."""
    taken, missing = problem.taken, dict(constraints.missing)
    number = {one: n for n, one in enumerate(taken)}
    arrival: dict[Instruction, float] = {}
    ready: list[tuple[bool, int]] = []
    coming: list[tuple[float, int]] = []
    order: list[Instruction] = []
    clock = network = 0.0

    def offer(one: Instruction) -> None:
        arrivals = [arrival[first] for first in constraints.awaited.get(one, ())]
        heapq.heappush(coming, (max(arrivals, default=0.0), number[one]))

    for one in taken:
        if not missing[one]:
            offer(one)
    while ready or coming:
        if not ready:
            clock = max(clock, coming[0][0])
        while coming and coming[0][0] <= clock:
            first = heapq.heappop(coming)[1]
            heapq.heappush(ready, (not taken[first].has(Trait.EXCHANGE), first))
        one = taken[heapq.heappop(ready)[1]]
        order.append(one)
        if one.has(Trait.EXCHANGE):
            network = arrival[one] = max(clock, network) + estimates.seconds(one)
        else:
            clock += estimates.seconds(one)
        for user in constraints.next.get(one, ()):
            missing[user] -= 1
            if not missing[user]:
                offer(user)
    return tuple(order)


def _ends(
    order: Sequence[Instruction], constraints: _Constraints, estimates: Estimates, most: float
) -> dict[Instruction, Instruction | None]:
    """Return the collectives with enough work before their end, and where that is.

    Args:
        order: all instructions.
        constraints: the instructions that wait for collectives.
        estimates: how long instructions take.
        most: bytes that may be on their way at once.
    """
    ends: dict[Instruction, int] = {}
    work = [0.0]
    for number, one in enumerate(order):
        for first in constraints.awaited.get(one, ()):
            ends.setdefault(first, number)
        work.append(work[-1] + (0.0 if one.has(Trait.EXCHANGE) else estimates.seconds(one)))
    under_way = deque[tuple[Instruction, int]]()
    total = 0
    for number, one in enumerate(order):
        if not one.has(Trait.EXCHANGE) or ends_at_barrier(one):
            continue
        size = sum(typical(operand.shape.bytes) for operand in one.operands)
        total += size
        under_way.append((one, size))
        while under_way and (total > most or ends.get(under_way[0][0], number + 1) <= number):
            oldest, freed = under_way.popleft()
            ends[oldest] = min(ends.get(oldest, number), number)
            total -= freed
    found: dict[Instruction, Instruction | None] = {}
    for number, one in enumerate(order):
        if one.has(Trait.EXCHANGE):
            end = ends.get(one, len(order))
            if work[end] - work[number] >= _LEAST_WORK:
                found[one] = order[end] if end < len(order) else None
    return found


def _with_pairs(order: _Order) -> list[Instruction]:
    """Make the pairs; return the instructions with them."""
    dones: dict[Instruction | None, list[Instruction]] = {}
    starts: dict[Instruction, Instruction] = {}
    for one, end in order.ends.items():
        starts[one], done = _pair(one)
        dones.setdefault(end, []).append(done)
    made: list[Instruction] = []
    for one in order.instructions:
        made += dones.get(one, ())
        made.append(starts.get(one, one))
    return made + dones.get(None, [])


def _pair(op: Instruction) -> tuple[Instruction, Instruction]:
    """Return the start and the done that replace a collective."""
    computation, inside = op.computation, Builder("async_computation")
    parameters = [inside.parameter(n, one.shape) for n, one in enumerate(op.operands)]
    root = inside.computation.add(
        op.opcode, parameters, op.attributes, shape=op.shape, name=op.name, metadata=op.metadata
    )
    root.extra = dict(op.extra)
    called = inside.build(root)
    module = computation.module
    assert module is not None, "what is scheduled is part of a module"
    module.take(called)
    shape = Shape.tuple((Shape.tuple(tuple(one.shape for one in op.operands)), op.shape, CONTEXT))
    start = computation.add(
        START, op.operands, AsyncStartAttributes(calls=called), shape=shape,
        name=f"{op.opcode}-start", metadata=op.metadata,
    )  # fmt: skip
    done = computation.add(
        DONE, (start,), AsyncAttributes(), name=f"{op.opcode}-done", metadata=op.metadata
    )
    start.run_after(op.control_predecessors)
    op.run_after(())
    if ends_at_barrier(op):
        computation.transfer_control_deps(op, start)
    computation.substitute(op, done)
    return start, done
