# SPDX-License-Identifier: Apache-2.0
"""Runs a scheduled module on byte memory laid out by a buffer assignment, for tests.

Every instruction reads its operands from its slices, is evaluated by the evaluator, and writes
its results there; nothing else carries values. What it returns equals plain evaluation only if
no buffer is overwritten too early. In-place outputs are written over their operands like the
kernels do. Fresh memory is filled with garbage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot.analysis.aliasing import is_view
from ingot.evaluator import evaluate_instruction
from ingot.hlo import dim
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.passes.buffers.buffer_table import Allocation, BufferAssignment, Output, Parameter, Slice

Array = np.ndarray[Any, np.dtype[Any]]
_LIMIT = 1000


class ArenaMachine:
    """One execution of a module under an assignment."""

    def __init__(
        self, module: Module, assignment: BufferAssignment, sizes: dict[str, int] | None = None
    ) -> None:
        self.module = module
        self.assignment = assignment
        self.sizes = sizes or {}
        self.memory = {
            allocation: np.full(self._number(allocation.size), 0xA5, np.uint8)
            for allocation in assignment.allocations
        }

    def run(self, inputs: Sequence[Any]) -> list[Array]:
        """Return the output leaves; `inputs` are the entry's arguments."""
        parameters = self.module.entry.parameters
        leaves = [
            _at(value, path)
            for parameter, value in zip(parameters, inputs, strict=True)
            for path, leaf in parameter.shape.leaves()
            if leaf.is_array
        ]
        for allocation, value in zip(self.assignment.parameters, leaves, strict=True):
            assert isinstance(allocation, Parameter | Output)
            data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
            self.memory[allocation][:] = data
        for placed in self.assignment.constants:
            data = np.ascontiguousarray(placed.literal.value).reshape(-1).view(np.uint8)
            block = self.memory[self.assignment.constant]
            block[placed.offset : placed.offset + len(data)] = data
        self._computation(self.module.entry)
        outputs: list[Array] = []
        leaves_of_root = self.module.entry.root.shape.leaves()
        for allocation, (_, shape) in zip(self.assignment.outputs, leaves_of_root, strict=True):
            assert allocation is not None
            outputs.append(self._load(Slice(allocation, 0, shape.bytes), shape))
        return outputs

    def _number(self, size: int | Dim) -> int:
        return dim.evaluate(size, self.sizes)

    def _window(self, where: Slice) -> Array:
        start = self._number(where.offset)
        return self.memory[where.allocation][start : start + self._number(where.size)]

    def _load(self, where: Slice, shape: Shape) -> Array:
        dims = tuple(self._number(size) for size in shape.dims)
        return self._window(where).copy().view(shape.dtype.numpy).reshape(dims)

    def _value(self, instruction: Instruction) -> Any:
        def build(shape: Shape, path: tuple[int, ...]) -> Any:
            if shape.is_tuple:
                return tuple(build(e, (*path, n)) for n, e in enumerate(shape.elements))
            if not shape.is_array:
                return ()
            return self._load(self.assignment.slice_of(instruction, path), shape)

        return build(instruction.shape, ())

    def _computation(self, computation: Computation) -> None:
        for instruction in self.module.schedule[computation]:
            self._instruction(instruction)

    def _instruction(self, instruction: Instruction) -> None:
        if is_view(instruction) or instruction.opcode in ("parameter", "constant"):
            return
        if instruction.opcode == "while":
            self._while(instruction)
        elif instruction.opcode == "conditional":
            self._conditional(instruction)
        elif instruction.opcode == "call":
            self._call(instruction)
        else:
            operands = [self._value(operand) for operand in instruction.operands]
            result = evaluate_instruction(instruction, operands, sizes=self.sizes)
            for path, where in self.assignment.slices_of(instruction):
                leaf = np.ascontiguousarray(_at(result, path))
                self._window(where)[:] = leaf.reshape(-1).view(np.uint8)

    def _call(self, call: Instruction) -> None:
        function = call.attributes.to_apply
        ends = self.assignment.ends[function]
        given = [w for o in call.operands for w in self._windows(o)]
        for allocation, window in zip(_present(ends.parameters), given, strict=True):
            self.memory[allocation][:] = window
        self._computation(function)
        for allocation, window in zip(_present(ends.outputs), self._windows(call), strict=True):
            window[:] = self.memory[allocation]

    def _windows(self, instruction: Instruction) -> list[Array]:
        return [self._window(where) for _, where in self.assignment.slices_of(instruction)]

    def _while(self, loop: Instruction) -> None:
        for _ in range(_LIMIT):
            self._computation(loop.attributes.condition)
            if not self._value(loop.attributes.condition.root):
                return
            self._computation(loop.attributes.body)
        raise AssertionError("the loop does not end")

    def _conditional(self, instruction: Instruction) -> None:
        index = self._value(instruction.operands[0])
        branches = instruction.attributes.branch_computations
        if index.dtype == np.bool_:
            chosen = 0 if index else 1
        else:
            chosen = int(index) if 0 <= int(index) < len(branches) else len(branches) - 1
        self._computation(branches[chosen])


def _at(value: Any, path: tuple[int, ...]) -> Any:
    for number in path:
        value = value[number]
    return value


def _present(allocations: Sequence[Allocation | None]) -> list[Allocation]:
    return [allocation for allocation in allocations if allocation is not None]
