# SPDX-License-Identifier: Apache-2.0
"""Checks a buffer assignment by running the schedule on memory that only records who wrote it.

Independent of liveness and coalescing: every write puts a new mark on the bytes of a slice and
removes the marks that it overlaps; every read requires the mark of the value that it reads. Loops
run twice and end after a third test, so that dependences between trips are seen; branches run one
after another from the same memory, and bytes on which they disagree have no owner. Where the entry
may fail, the parameters that survive a failure must be unchanged. Each function runs once, callees
first, on memory of its own; after a call, the bytes of the arena that the function and its callees
write have no owner.

Symbolic sizes are tried with several numbers each.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence, Set
from itertools import count

from ingot.analysis.aliasing import Path, is_view
from ingot.analysis.failures import may_fail, may_fail_to_start, surviving_aliases
from ingot.analysis.in_place import in_place_operands, may_share_operand
from ingot.analysis.liveness import Schedule
from ingot.artifact.abi import DATA_ALIGNMENT
from ingot.hlo import dim
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Alias, Module
from ingot.passes.buffers.buffer_table import (
    Allocation,
    BufferAssignment,
    Constant,
    Parameter,
    Slice,
    Temp,
)
from ingot.support.diagnostics import InternalError
from ingot.support.records import fresh, mutable
from ingot.support.trampoline import Recursion, run

_ROUNDS = 2
_REPEATED = 6
"""Depth of nested loops that run several times; deeper ones run once, as 3^n would be too much."""

_SIZES = ((0, 1), (1, 2), (5, 37), (129, 1))  # (first symbol's number, step to the next one's)
# Marks of the leaves of one instruction; 0 for tokens.
Marks = dict[Path, int]


def verify_assignment(module: Module, schedule: Schedule, assignment: BufferAssignment) -> None:
    """Check that no value is overwritten while it is needed, and that all slices are in bounds.

    The instructions of `module` are run in the order of `schedule` on marks in place of elements,
    which `assignment` places; symbolic sizes take several values.

    Raises:
        InternalError: INGOT0923 with the instruction that makes a forbidden access.
    """
    symbols = sorted(_symbols(module))
    survivors = surviving_aliases(module)
    refused = may_fail_to_start(module) if survivors else set[Computation]()
    for start, step in _SIZES if symbols else _SIZES[:1]:
        numbers = {name: start + step * n for n, name in enumerate(symbols)}
        written: dict[Computation, tuple[int, int]] = {}
        for function in reversed(assignment.aliasing.functions):
            aliases = survivors if function is module.entry else []
            simulation = _Simulation(schedule, assignment, numbers, written, refused)
            simulation.run(function, aliases)
            written[function] = simulation.span


def _symbols(module: Module) -> frozenset[str]:
    sizes = [
        size
        for computation in module.computations.values()
        for instruction in computation.instructions
        for _, leaf in instruction.shape.leaves()
        for size in leaf.dims
    ]
    return dim.symbols_of(sizes)


@mutable
class _Block:
    """The marked bytes of one allocation: disjoint [start, end) -> mark."""

    starts: list[int] = fresh(factory=list)
    marks: dict[int, tuple[int, int]] = fresh(factory=dict)

    def write(self, start: int, end: int, mark: int) -> None:
        where = bisect_left(self.starts, start)
        if where and self.marks[self.starts[where - 1]][0] > start:
            where -= 1
        stop = bisect_left(self.starts, end)
        for old in self.starts[where:stop]:
            del self.marks[old]
        del self.starts[where:stop]
        insort(self.starts, start)
        self.marks[start] = (end, mark)

    def holds(self, start: int, end: int, mark: int) -> bool:
        return self.marks.get(start) == (end, mark)

    def copy(self) -> _Block:
        return _Block(list(self.starts), dict(self.marks))

    def keep_common(self, other: _Block) -> None:
        self.marks = {s: m for s, m in self.marks.items() if other.marks.get(s) == m}
        self.starts = sorted(self.marks)


class _Simulation:
    """One run of a function with symbolic sizes as numbers.

    Attributes:
        span: the first byte of the arena that it writes, and the one after the last.
    """

    def __init__(
        self,
        schedule: Schedule,
        assignment: BufferAssignment,
        numbers: Mapping[str, int],
        written: Mapping[Computation, tuple[int, int]],
        refused: Set[Computation],
    ) -> None:
        self._written = written
        self._refused = refused
        self._fails: dict[Computation, bool] = {}
        self._surviving: list[tuple[Slice, int]] = []
        self.span = (0, 0)
        self._schedule = schedule
        self._assignment = assignment
        self._numbers = numbers
        self._new = count(1)
        self._memory: dict[Allocation, _Block] = {a: _Block() for a in assignment.allocations}
        self._constants: dict[int, int] = {}
        self._depth = 0

    def run(self, function: Computation, survivors: Sequence[Alias]) -> None:
        """Run a function; `survivors` are the parameters that survive a failure of it."""
        arguments: list[Marks] = []
        for parameter in function.parameters:
            marks = {path: next(self._new) for path, _ in parameter.shape.leaves()}
            for path, where in self._assignment.slices_of(parameter):
                self._put(where, marks[path], parameter)
            arguments.append(marks)
        for alias in survivors:
            parameter = function.parameters[alias.parameter]
            where = self._assignment.slice_of(parameter, alias.path)
            self._surviving.append((where, arguments[alias.parameter][alias.path]))
        for placed in self._assignment.constants:
            mark = next(self._new)
            self._constants[placed.offset] = mark
            start = placed.offset
            block = self._memory[self._assignment.constant]
            if placed.literal.value.nbytes:
                block.write(start, start + placed.literal.value.nbytes, mark)
        result = run(self._computation(function, arguments))
        outputs = iter(self._assignment.ends[function].outputs)
        for path, leaf in function.root.shape.leaves():
            output = next(outputs)
            if leaf.is_array:
                assert output is not None
                where = Slice(output, 0, leaf.bytes)
                self._expect(where, result[path], function.root, f"output {path}")

    # ---- memory

    def _bytes(self, where: Slice) -> tuple[int, int]:
        start = dim.evaluate(where.offset, self._numbers)
        return start, start + dim.evaluate(where.size, self._numbers)

    def _expect(self, where: Slice, mark: int, user: Instruction, what: str) -> None:
        start, end = self._bytes(where)
        if start < end and not self._memory[where.allocation].holds(start, end, mark):
            raise _error(user, f"{what} is no longer in {where}")

    def _put(self, where: Slice, mark: int, writer: Instruction) -> None:
        start, end = self._bytes(where)
        if start % DATA_ALIGNMENT:
            raise _error(writer, f"{where} is not aligned")
        if end > dim.evaluate(where.allocation.size, self._numbers):
            raise _error(writer, f"{where} is out of bounds")
        if start < end:
            self._memory[where.allocation].write(start, end, mark)
            if isinstance(where.allocation, Temp):
                self._widen(start, end)

    def _widen(self, start: int, end: int) -> None:
        first, last = self.span
        self.span = (min(first, start), max(last, end)) if first < last else (start, end)

    # ---- instructions

    def _computation(
        self, computation: Computation, arguments: Sequence[Marks]
    ) -> Recursion[Marks]:
        marks: dict[Instruction, Marks] = {}
        for parameter, argument in zip(computation.parameters, arguments, strict=True):
            marks[parameter] = argument
        if computation in self._refused:
            self._expect_surviving(computation.root)
        for instruction in self._schedule[computation]:
            if instruction.opcode != "parameter":
                marks[instruction] = yield from self._instruction(instruction, marks)
        return marks[computation.root]

    def _instruction(
        self, instruction: Instruction, marks: dict[Instruction, Marks]
    ) -> Recursion[Marks]:
        for operand in instruction.operands:
            if operand not in marks:
                raise _error(instruction, f"%{operand.name} is scheduled too late")
        if is_view(instruction):
            return _view(instruction, marks)
        if instruction.opcode == "constant":
            return {
                path: self._constants[dim.evaluate(where.offset, {})]
                for path, where in self._assignment.slices_of(instruction)
            }
        operands = [marks[operand] for operand in instruction.operands]
        if instruction.opcode == "while":
            return (yield from self._while(instruction, operands[0]))
        if instruction.opcode == "conditional":
            return (yield from self._conditional(instruction, operands))
        if instruction.opcode == "async-done":
            self._read(instruction, 0, operands[0])
            made = _element(operands[0], 1)
        else:
            made = self._kernel(instruction, operands)
        if may_fail(instruction, self._fails):
            self._expect_surviving(instruction)
        return made

    def _read(self, user: Instruction, number: int, marks: Marks) -> list[Slice]:
        operand = user.operands[number]
        slices = self._assignment.slices_of(operand)
        for path, where in slices:
            self._expect(where, marks[path], user, f"operand {number} (%{operand.name})")
        return [where for _, where in slices]

    def _kernel(self, instruction: Instruction, operands: list[Marks]) -> Marks:
        in_place = in_place_operands(instruction)
        held = _held_operands(instruction, operands)
        slices = self._assignment.slices_of(instruction)
        written = [(path, where) for path, where in slices if path not in held]
        for number, marks in enumerate(operands):
            shared = may_share_operand(instruction, number)
            for source in self._read(instruction, number, marks):
                for path, target in written:
                    same = in_place.get(path) == number
                    if same and source != target:
                        raise _error(instruction, f"output {path} is not in place")
                    if not (same or (shared and source == target)):
                        self._keep_apart(instruction, source, target)
        made: Marks = {path: 0 for path, _ in instruction.shape.leaves()} | held
        if instruction.opcode == "call":
            self._call(instruction, [where for _, where in written])
        for path, where in written:
            if isinstance(where.allocation, Parameter | Constant):
                raise _error(instruction, f"writes to {where}")
            made[path] = next(self._new)
            self._put(where, made[path], instruction)
        for path, where in written:
            self._expect(where, made[path], instruction, f"output {path}")
        return made

    def _expect_surviving(self, failing: Instruction) -> None:
        """Require that the surviving parameters are unchanged where the execution may fail."""
        for where, mark in self._surviving:
            self._expect(where, mark, failing, "a parameter that survives a failure")

    def _call(self, call: Instruction, results: Sequence[Slice]) -> None:
        """Mark the bytes of the arena that a function writes as having no owner."""
        start, end = self._written[call.attributes.to_apply]
        if start >= end:
            return
        arena = Slice(self._assignment.temp, start, end - start)
        operands = (w for o in call.operands for _, w in self._assignment.slices_of(o))
        for where in (*operands, *results):
            self._keep_apart(call, where, arena)
        self._memory[self._assignment.temp].write(start, end, next(self._new))
        self._widen(start, end)

    def _keep_apart(self, instruction: Instruction, left: Slice, right: Slice) -> None:
        (start, end), (other_start, other_end) = self._bytes(left), self._bytes(right)
        overlap = (
            start < other_end and other_start < end and start < end and other_start < other_end
        )
        if left.allocation == right.allocation and overlap:
            raise _error(instruction, f"reads {left} and writes {right}")

    def _while(self, loop: Instruction, state: Marks) -> Recursion[Marks]:
        # Leaves that the body passes on unchanged are checked where they are read.
        condition, body = loop.attributes.condition, loop.attributes.body
        varying = [path for path, _, _ in self._assignment.aliasing.states[loop]]
        self._depth += 1
        rounds = _ROUNDS if self._depth <= _REPEATED else 1
        for number in range(rounds + 1):
            for path in varying:
                where = self._assignment.slice_of(loop, path)
                self._expect(where, state[path], loop, f"state {path} in round {number}")
            test: Marks = yield self._computation(condition, [state])
            self._expect(self._assignment.slice_of(condition.root), test[()], loop, "condition")
            if number < rounds:
                state = yield self._computation(body, [state])
        self._depth -= 1
        for path in varying:
            where = self._assignment.slice_of(loop, path)
            self._expect(where, state[path], loop, f"result {path}")
        return state

    def _conditional(self, instruction: Instruction, operands: list[Marks]) -> Recursion[Marks]:
        self._read(instruction, 0, operands[0])
        before = {allocation: block.copy() for allocation, block in self._memory.items()}
        made: Marks = {path: next(self._new) for path, _ in instruction.shape.leaves()}
        after: list[dict[Allocation, _Block]] = []
        branches: tuple[Computation, ...] = instruction.attributes.branch_computations
        given: list[Marks] = []
        merged = [path for path, _ in self._assignment.aliasing.merges[instruction]]
        for branch, operand in zip(branches, operands[1:], strict=True):
            self._memory = {allocation: block.copy() for allocation, block in before.items()}
            result: Marks = yield self._computation(branch, [operand])
            given.append(result)
            for path in merged:
                where = self._assignment.slice_of(instruction, path)
                self._expect(where, result[path], instruction, f"result {path} of {branch.name}")
            after.append(self._memory)
        for path in made.keys() - set(merged):
            made[path] = given[0][path]
        for memory in after:
            self._memory = memory
            for path in merged:
                self._put(self._assignment.slice_of(instruction, path), made[path], instruction)
        for memory in after[:-1]:
            for allocation, block in memory.items():
                self._memory[allocation].keep_common(block)
        return made


def _view(instruction: Instruction, marks: dict[Instruction, Marks]) -> Marks:
    if instruction.opcode == "tuple":
        return {
            (number, *path): mark
            for number, operand in enumerate(instruction.operands)
            for path, mark in marks[operand].items()
        }
    first = marks[instruction.operands[0]]
    if instruction.opcode == "get-tuple-element":
        return _element(first, instruction.attributes.index)
    return first


def _element(marks: Marks, index: int) -> Marks:
    return {path[1:]: mark for path, mark in marks.items() if path[0] == index}


def _held_operands(instruction: Instruction, operands: Sequence[Marks]) -> Marks:
    """Return the leaves of a result that are operands: an `async-start` holds its own."""
    if instruction.opcode != "async-start":
        return {}
    return {
        (0, number, *path): mark
        for number, marks in enumerate(operands)
        for path, mark in marks.items()
    }


def _error(instruction: Instruction, message: str) -> InternalError:
    return InternalError(message, code="INGOT0923", instruction=repr(instruction))
