# SPDX-License-Identifier: Apache-2.0
"""Constraints on the order of a computation's instructions, and the memory that an order takes.

An instruction comes after its operands, its control predecessors and, if it has a side effect, the
one before it that has one. An instruction that overwrites a value should wait for the other readers
of that value, which would need a copy else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from types import MappingProxyType

from ingot.analysis.aliasing import Path, Tree, Value, analyze, at, leaves
from ingot.analysis.failures import may_fail, surviving_aliases
from ingot.analysis.in_place import in_place_operands
from ingot.analysis.liveness import called_by_control_flow
from ingot.hlo import dim
from ingot.hlo.computation import Computation, has_side_effect
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.module import Module

_EARLY = ops_with(Trait.LEAF)
_FREE = ops_with(Trait.LEAF, Trait.TUPLE, Trait.VIEW)
_NOTHING: Mapping[Instruction, Sequence[Value]] = MappingProxyType({})


def problems_of(module: Module) -> Iterator[Problem]:
    """Yield the computations that the host program runs, callees before callers.

    Who iterates sets `taken` of each, so that a loop's own peak is known to its callers.
    """
    aliasing = analyze(module)
    problems: dict[Computation, Problem] = {}
    effects: dict[Computation, bool] = {}
    surviving = {alias.output: (alias.parameter, alias.path) for alias in surviving_aliases(module)}
    for computation in _callees_first(aliasing.functions):
        replaced = surviving if computation is module.entry else {}
        problem = Problem(computation, aliasing.trees, problems, effects, replaced)
        problems[computation] = problem
        yield problem
        if computation is not module.entry:
            # Callers need it; computed on demand, it would recurse through chains of callers.
            _ = problem.lowest_peak


def _callees_first(functions: Sequence[Computation]) -> list[Computation]:
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
    return typical(value.shape.bytes)


def typical(size: int | Dim) -> int:
    """Return a size, its symbols taken as some middling number."""
    return size if isinstance(size, int) else _typical(size)


@lru_cache(maxsize=4096)
def _typical(size: Dim) -> int:
    return max(dim.nominal(size), 0)


class Problem:
    """One computation: the makers and readers of values, and the dependences.

    Attributes:
        computation: the computation.
        order: the instructions, operands first; `number` is the position of each there.
        free: those that take no memory and no time; they run as soon as they can.
        makes, reads: the values that each instruction makes and reads.
        missing, next: how many predecessors each instruction has, and its successors.
        surviving: the parameters that survive a failure, each with the value that overwrites it.
        taken: the order that was decided on.
    """

    taken: Sequence[Instruction]

    def __init__(
        self,
        computation: Computation,
        trees: dict[Instruction, Tree],
        problems: dict[Computation, Problem],
        effects: dict[Computation, bool],
        surviving: Mapping[Path, tuple[int, Path]],
    ) -> None:
        """Find the values and dependences of `computation`; its callees are known already.

        Args:
            computation: the computation to schedule.
            trees: the values in the result of each instruction, as trees that mirror its tuples.
            problems: the problem of each callee.
            effects: whether each callee has effects, so that its calls stay in order.
            surviving: for an output (a path in the root): the number of the parameter, and the path
                in it, whose buffer the output overwrites and which must survive a failure.
        """
        self.computation = computation
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
        """Number of readers of each value; the root reads the results."""
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
        """The writers that come after each reader, and the number of readers before each writer."""
        writers: dict[Instruction, list[Instruction]] = {}
        counts: dict[Instruction, int] = {}
        known: dict[Computation, bool] = {}
        failing = [one for one in self.order if may_fail(one, known)] if self.surviving else []
        for writer, values in self.overwrites.items():
            for value in dict.fromkeys(values):
                checks = failing if value in self.surviving else ()
                for reader in (*self.readers.get(value, ()), *checks):
                    if reader is not writer:
                        writers.setdefault(reader, []).append(writer)
                        counts[writer] = counts.get(writer, 0) + 1
        return writers, counts

    @cached_property
    def lowest_peak(self) -> int:
        """The peak of the order that was decided on."""
        return self.peak(self.taken)

    def peak(
        self, order: Sequence[Instruction], held: Mapping[Instruction, Sequence[Value]] = _NOTHING
    ) -> int:
        """Return the most bytes that are live at once; parameters and constants do not count.

        Args:
            order: the instructions.
            held: values that live until an instruction besides those that it reads.
        """
        left, sizes = dict(self.counts), self.sizes
        for values in held.values():
            for value in values:
                left[value] += 1
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
            for value in (*self.reads[instruction], *held.get(instruction, ())):
                left[value] -= 1
                if not left[value] and value.kind not in _EARLY:
                    live -= sizes[value]
        return peak
