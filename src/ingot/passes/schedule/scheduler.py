# SPDX-License-Identifier: Apache-2.0
"""Scheduling: an order of the host program's instructions with little memory and few copies.

For each computation, callees first, the better of two orders by peak memory is taken, unless each
instruction reads the result of the previous one, so that there is only one order:

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import ClassVar

from ingot.analysis.aliasing import Path, Tree, Value, analyze, at, leaves
from ingot.analysis.failures import may_fail, surviving_aliases
from ingot.analysis.in_place import in_place_operands
from ingot.analysis.liveness import called_by_control_flow, forget_liveness
from ingot.hlo import dim
from ingot.hlo.computation import Computation, has_side_effect
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.passes.buffers.flatten import FLAT
from ingot.support.records import record

SCHEDULED = "scheduled"
_TYPICAL_SIZE = 64  # what a symbolic size counts for when bytes are compared
_EARLY = ops_with(Trait.LEAF)
_FREE = ops_with(Trait.LEAF, Trait.TUPLE, Trait.VIEW)


@record
class MemoryScheduler(Pass):
    """Fills `module.schedule` for the entry and all that calls and control flow run."""

    name: ClassVar[str] = "hlo-memory-scheduler"
    requires: ClassVar[frozenset[str]] = frozenset({FLAT})
    ensures: ClassVar[frozenset[str]] = frozenset({SCHEDULED})

    def run(self, module: Module, context: PassContext) -> bool:
        """Schedule callees before callers, so that a loop's own peak is known."""
        before = dict(module.schedule)
        module.schedule.clear()
        aliasing = analyze(module)
        problems: dict[Computation, _Problem] = {}
        effects: dict[Computation, bool] = {}
        surviving = {
            alias.output: (alias.parameter, alias.path) for alias in surviving_aliases(module)
        }
        for computation in _order(aliasing.functions):
            replaced = surviving if computation is module.entry else {}
            problem = _Problem(computation, aliasing.trees, problems, effects, replaced)
            problems[computation] = problem
            module.schedule[computation] = list(problem.best)
            if computation is not module.entry:
                # Callers need it; computed on demand, it would recurse through chains of callers.
                _ = problem.lowest_peak
        if before == module.schedule:
            return False
        forget_liveness(module)
        return True


def _order(functions: Sequence[Computation]) -> list[Computation]:
    """Return the computations that the host program runs, callees before callers."""
    order: list[Computation] = []
    for function in functions:
        stack = [function]
        while stack:
            computation = stack.pop()
            order.append(computation)
            for instruction in computation.instructions:
                stack.extend(called_by_control_flow(instruction))
    return order[::-1]


def typical_bytes(value: Value) -> int:
    """Return the bytes of a value, symbolic sizes taken as some middling number."""
    size = value.shape.bytes
    return size if isinstance(size, int) else _typical(size)


@lru_cache(maxsize=4096)
def _typical(size: Dim) -> int:
    return max(dim.evaluate(size, dict.fromkeys(size.symbols, _TYPICAL_SIZE)), 0)


class _Problem:
    """One computation: the makers and readers of values, and the dependences.

    Attributes:
        order: the instructions, operands first; `number` is the position of each there.
        free: those that take no memory and no time; they run as soon as they can.
        makes, reads: the values that each instruction makes and reads.
        missing, next: how many predecessors each instruction has, and its successors.
        surviving: the parameters that survive a failure, each with the value that overwrites it.
    """

    def __init__(
        self,
        computation: Computation,
        trees: dict[Instruction, Tree],
        problems: dict[Computation, _Problem],
        effects: dict[Computation, bool],
        surviving: Mapping[Path, tuple[int, Path]],
    ) -> None:
        self.order = computation.post_order()
        self._trees = trees
        self._problems = problems
        self._root = computation.root
        self.number = {i: n for n, i in enumerate(self.order)}
        self.free = {i for i in self.order if i.opcode in _FREE}
        self.makes = {i: self._made(i) for i in self.order}
        self.reads = {i: self._read(i) for i in self.order}
        self.surviving = dict(self._replaced(surviving))
        self.missing: dict[Instruction, int] = {}
        self.next: dict[Instruction, list[Instruction]] = {}
        self._depend(effects)

    def _replaced(
        self, surviving: Mapping[Path, tuple[int, Path]]
    ) -> Iterator[tuple[Value, Value]]:
        for output, (number, path) in surviving.items():
            parameter = self._root.computation.parameters[number]
            old, new = at(self._trees[parameter], path), at(self._trees[self._root], output)
            if isinstance(old, Value) and isinstance(new, Value):
                yield old, new

    @cached_property
    def readers(self) -> dict[Value, list[Instruction]]:
        """The instructions that read each value."""
        found: dict[Value, list[Instruction]] = {}
        for instruction, values in self.reads.items():
            for value in values:
                found.setdefault(value, []).append(instruction)
        return found

    @cached_property
    def sizes(self) -> dict[Value, int]:
        """The bytes of each value."""
        values = (self.readers, *self.makes.values())
        return {value: typical_bytes(value) for some in values for value in some}

    @cached_property
    def counts(self) -> dict[Value, int]:
        """Number of readers of each value; the root reads what it returns."""
        counts = {value: len(found) for value, found in self.readers.items()}
        for _, value in leaves(self._trees[self._root]):
            counts[value] = counts.get(value, 0) + 1
        return counts

    def _made(self, instruction: Instruction) -> list[Value]:
        if instruction in self.free:
            return []
        return [v for _, v in leaves(self._trees[instruction]) if v.instruction is instruction]

    def _read(self, instruction: Instruction) -> list[Value]:
        if instruction in self.free:
            return []
        found: dict[Value, None] = {}
        for operand in instruction.operands:
            found.update((value, None) for _, value in leaves(self._trees[operand]))
        return list(found)

    def _depend(self, effects: dict[Computation, bool]) -> None:
        """Note the predecessors of each instruction; side effects keep their order."""
        previous: Instruction | None = None
        for instruction in self.order:
            needed = dict.fromkeys((*instruction.operands, *instruction.control_predecessors))
            if has_side_effect(instruction, effects):
                if previous is not None:
                    needed[previous] = None
                previous = instruction
            self.missing[instruction] = len(needed)
            for other in needed:
                self.next.setdefault(other, []).append(instruction)

    @cached_property
    def overwrites(self) -> dict[Instruction, list[Value]]:
        """Per instruction, the values whose memory it should overwrite."""
        found: dict[Instruction, list[Value]] = {}
        written = (
            *self._updated_operands(),
            *self._returned_states(),
            *self._returned_parameters(),
        )
        for writer, tree in written:
            if isinstance(tree, Value) and tree.kind != "constant":
                found.setdefault(writer, []).append(tree)
        return found

    def _updated_operands(self) -> Iterator[tuple[Instruction, Tree]]:
        for instruction in self.order:
            if instruction.opcode == "while":
                for _, value in leaves(self._trees[instruction.operands[0]]):
                    yield instruction, value
            elif self.makes[instruction]:
                for number in in_place_operands(instruction).values():
                    yield instruction, self._trees[instruction.operands[number]]

    def _returned_states(self) -> Iterator[tuple[Instruction, Tree]]:
        """Yield the makers of a loop body's results, with the state that each overwrites."""
        parameters = [p for p in self.order if p.opcode == "parameter"]
        if len(parameters) != 1 or not self._root.shape.compatible(parameters[0].shape):
            return
        for path, value in leaves(self._trees[self._root]):
            if value.instruction in self.makes and value.instruction.opcode not in _EARLY:
                yield value.instruction, at(self._trees[parameters[0]], path)

    def _returned_parameters(self) -> Iterator[tuple[Instruction, Tree]]:
        """Yield the makers of values that overwrite a parameter that survives a failure."""
        for parameter, value in self.surviving.items():
            if value.instruction in self.makes and value.instruction.opcode not in _EARLY:
                yield value.instruction, parameter

    @cached_property
    def waiting(self) -> tuple[dict[Instruction, list[Instruction]], dict[Instruction, int]]:
        """The writers that wait for each reader, and how many readers each writer waits for."""
        writers: dict[Instruction, list[Instruction]] = {}
        waits: dict[Instruction, int] = {}
        known: dict[Computation, bool] = {}
        failing = [one for one in self.order if may_fail(one, known)] if self.surviving else []
        for writer, values in self.overwrites.items():
            for value in dict.fromkeys(values):
                checks = failing if value in self.surviving else ()
                for reader in (*self.readers.get(value, ()), *checks):
                    if reader is not writer:
                        writers.setdefault(reader, []).append(writer)
                        waits[writer] = waits.get(writer, 0) + 1
        return writers, waits

    # ---- orders

    @cached_property
    def best(self) -> list[Instruction]:
        """The order with the lower peak, depth first or by bytes."""
        makers = [instruction for instruction in self.order if instruction not in self.free]
        if all(self._reads_of(after, before) for before, after in pairwise(makers)):
            return self._in_turn(makers)
        orders = [_ListScheduler(self, greedy=greedy).run() for greedy in (False, True)]
        return min(orders, key=self.peak)

    def _reads_of(self, reader: Instruction, maker: Instruction) -> bool:
        return any(value.instruction is maker for value in self.reads[reader])

    def _in_turn(self, makers: list[Instruction]) -> list[Instruction]:
        """Return an order that runs `makers` one after another."""
        missing, order = dict(self.missing), list[Instruction]()
        ready = [number for one, number in self.number.items() if one in self.free]
        ready = [number for number in ready if not missing[self.order[number]]]

        def run(instruction: Instruction) -> None:
            order.append(instruction)
            for user in self.next.get(instruction, ()):
                missing[user] -= 1
                if not missing[user] and user in self.free:
                    heapq.heappush(ready, self.number[user])

        for maker in makers:
            while ready:
                run(self.order[heapq.heappop(ready)])
            run(maker)
        while ready:
            run(self.order[heapq.heappop(ready)])
        return order

    @cached_property
    def lowest_peak(self) -> int:
        """The peak of the best order."""
        return self.peak(self.best)

    def peak(self, order: Sequence[Instruction]) -> int:
        """Return the most bytes that are live at once; parameters and constants do not count."""
        left, sizes = dict(self.counts), self.sizes
        live = peak = 0
        for instruction in order:
            if instruction in self.free:
                continue
            for value in self.makes[instruction]:
                live += sizes[value]
            called = called_by_control_flow(instruction)
            if instruction.opcode == "call":
                called = instruction.called_computations
            inner = max([self._problems[c].lowest_peak for c in called]) if called else 0
            peak = max(peak, live + inner)
            for value in self.reads[instruction]:
                left[value] -= 1
                if not left[value] and value.kind not in _EARLY:
                    live -= sizes[value]
        return peak


class _ListScheduler:
    """List scheduling: always runs the best ready instruction."""

    def __init__(self, problem: _Problem, *, greedy: bool) -> None:
        self._problem = problem
        self._greedy = greedy
        self._left = dict(problem.counts)
        self._missing = dict(problem.missing)
        self._done: set[Instruction] = set()
        self._writers, waits = problem.waiting
        self._waits = dict(waits)
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
        return self._waits.get(instruction, 0) > 0, self._cost(instruction) if self._greedy else 0

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
            self._waits[writer] -= 1
            if not self._waits[writer]:
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
