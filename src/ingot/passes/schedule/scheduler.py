# SPDX-License-Identifier: Apache-2.0
"""Scheduling: an order of the host program's instructions with little memory and few copies.

For each computation, callees first, the better of two orders by peak memory is taken, unless each
instruction reads the result of the previous one, so that there is only one order (`problem` says
what an order must respect):

* list scheduling: of the ready instructions, the one that frees most bytes, less those it takes;
* depth first: operands right before their user, as in `post_order`.

In both, an instruction that overwrites a value (an in-place update, a loop, the value that a loop
body returns for a state) waits while other readers of that value can still run: a reader that comes
too late would cost a copy. An instruction that overwrites a parameter that must survive a failure
also waits for all that may fail. Instructions with side effects keep their order.

Invariant: `module.schedule[c]` holds every instruction of `c` once, after its operands and control
predecessors.

Source: xla/service/hlo_memory_scheduler.cc (ListScheduler, PostOrderScheduler).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import pairwise

from ingot.analysis.liveness import forget_liveness
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext, module_pass
from ingot.passes.schedule.problem import Problem, problems_of

_EARLY = ops_with(Trait.LEAF)


@module_pass("hlo-memory-scheduler", requires={"flat-call-graph"}, ensures={"scheduled"})
def memory_scheduler(module: Module, context: PassContext) -> bool:
    """Fills `module.schedule` for the entry and all that calls and control flow run.

    Callees come before callers, so that a loop's own peak is known.
    """
    before = dict(module.schedule)
    module.schedule.clear()
    for problem in problems_of(module):
        problem.taken = best_order(problem)
        module.schedule[problem.computation] = list(problem.taken)
    if before == module.schedule:
        return False
    forget_liveness(module)
    return True


def best_order(problem: Problem) -> list[Instruction]:
    """Return the order with the lower peak, depth first or by bytes."""
    makers = [instruction for instruction in problem.order if instruction not in problem.free]
    if all(_reads_of(problem, after, before) for before, after in pairwise(makers)):
        return _in_turn(problem, makers)
    orders = [_ListScheduler(problem, greedy=greedy).run() for greedy in (False, True)]
    return min(orders, key=problem.peak)


def _reads_of(problem: Problem, reader: Instruction, maker: Instruction) -> bool:
    return any(value.instruction is maker for value in problem.reads[reader])


def _in_turn(problem: Problem, makers: list[Instruction]) -> list[Instruction]:
    """Return an order that runs `makers` one after another."""
    missing, order = dict(problem.missing), list[Instruction]()
    ready = [number for one, number in problem.number.items() if one in problem.free]
    ready = [number for number in ready if not missing[problem.order[number]]]

    def run(instruction: Instruction) -> None:
        order.append(instruction)
        for user in problem.next.get(instruction, ()):
            missing[user] -= 1
            if not missing[user] and user in problem.free:
                heapq.heappush(ready, problem.number[user])

    for maker in makers:
        while ready:
            run(problem.order[heapq.heappop(ready)])
        run(maker)
    while ready:
        run(problem.order[heapq.heappop(ready)])
    return order


class _ListScheduler:
    """List scheduling: always runs the best ready instruction."""

    def __init__(self, problem: Problem, *, greedy: bool) -> None:
        self._problem = problem
        self._greedy = greedy
        self._left = dict(problem.counts)
        self._missing = dict(problem.missing)
        self._done: set[Instruction] = set()
        self._writers, counts = problem.waiting
        self._readers_left = dict(counts)
        self._heap: list[tuple[bool, int, int]] = []
        self._order: list[Instruction] = []

    def run(self) -> list[Instruction]:
        order = self._problem.order
        for instruction in order:
            if not self._missing[instruction]:
                self._offer(instruction)
        while self._heap:
            blocked, cost, number = heapq.heappop(self._heap)
            instruction = order[number]
            if instruction in self._done or (blocked, cost) != self._key(instruction):
                continue
            self._take(instruction)
        return self._order

    def _key(self, instruction: Instruction) -> tuple[bool, int]:
        if instruction in self._problem.free:
            return False, -(1 << 62)
        return self._readers_left.get(instruction, 0) > 0, self._cost(
            instruction
        ) if self._greedy else 0

    def _cost(self, instruction: Instruction) -> int:
        problem, left, sizes = self._problem, self._left, self._problem.sizes
        cost = 0
        for value in problem.makes[instruction]:
            cost += sizes[value]
        for value in problem.reads[instruction]:
            if left[value] == 1 and value.kind not in _EARLY:
                cost -= sizes[value]
        return cost

    def _offer(self, instruction: Instruction) -> None:
        heapq.heappush(self._heap, (*self._key(instruction), self._problem.number[instruction]))

    def _take(self, instruction: Instruction) -> None:
        self._done.add(instruction)
        self._order.append(instruction)
        again: list[Instruction] = []
        for value in self._problem.reads[instruction]:
            self._left[value] -= 1
            if self._left[value] == 1:
                again.extend(self._problem.readers[value])
        for writer in self._writers.get(instruction, ()):
            self._readers_left[writer] -= 1
            if not self._readers_left[writer]:
                again.append(writer)
        for user in self._problem.next.get(instruction, ()):
            self._missing[user] -= 1
            if not self._missing[user]:
                self._offer(user)
        self._offer_again(again)

    def _offer_again(self, instructions: Iterable[Instruction]) -> None:
        for instruction in instructions:
            if instruction not in self._done and not self._missing[instruction]:
                self._offer(instruction)
