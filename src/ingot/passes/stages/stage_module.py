# SPDX-License-Identifier: Apache-2.0
"""The module of one stage: some instructions of a computation as a program of its own.

Arrays from other stages are its parameters, arrays that other stages need are its results. A size
that is no parameter's bare dimension gets one more parameter, which nobody reads: the slot of an
array that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from ingot.analysis.aliasing import Path
from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation, callees_first
from ingot.hlo.dim import symbols_of
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module, retarget
from ingot.hlo.shape import Shape
from ingot.hlo.size_definitions import bare_symbols, is_size_definition, used_symbols
from ingot.passes.stages.levels import is_cheap
from ingot.support.records import fresh, mutable

Leaf = tuple[Instruction, Path]
"""An array: an instruction that is no view, and the path in its result."""


def leaf_of(instruction: Instruction, path: Path) -> Leaf:
    """Return the array at `path` of a value, looked up through tuples and their elements."""
    while True:
        if instruction.opcode == "tuple" and path:
            instruction, path = instruction.operands[path[0]], path[1:]
        elif instruction.opcode == "get-tuple-element":
            path = (instruction.attributes.index, *path)
            instruction = instruction.operands[0]
        else:
            return instruction, path


def leaves_of(instruction: Instruction) -> list[Leaf]:
    """Return the arrays of a value."""
    return [leaf_of(instruction, path) for path, _ in instruction.shape.leaves()]


@mutable
class Stage:
    """A stage.

    Attributes:
        module: the program.
        inputs: the arrays that its parameters are.
        sizes: behind them, for each size that no array there has: its name.
        outputs: the arrays that its results are.
    """

    module: Module
    inputs: list[Leaf]
    sizes: list[str]
    outputs: list[Leaf]


def make_stage(
    name: str,
    instructions: Sequence[Instruction],
    outputs: Sequence[Leaf],
    binder: Callable[[str], Shape],
) -> Stage:
    """Return the stage of some instructions, operands first.

    `binder` gives the shape of an array that has a size as a bare dimension.
    """
    return _Maker(name, set(instructions)).stage(instructions, outputs, binder)


@mutable
class _Maker:
    name: str
    own: set[Instruction]
    builder: Builder = field(init=False)
    copies: dict[Instruction, Instruction] = fresh(factory=dict)
    inputs: dict[Leaf, Instruction] = fresh(factory=dict)

    def __post_init__(self) -> None:
        self.builder = Builder(self.name)

    def stage(
        self,
        instructions: Sequence[Instruction],
        outputs: Sequence[Leaf],
        binder: Callable[[str], Shape],
    ) -> Stage:
        for instruction in instructions:
            self._copy(instruction)
        results = [self._array(leaf) for leaf in outputs]
        b = self.builder
        root = results[0] if len(results) == 1 else b.emit("tuple", *results)
        sizes = self._bind_sizes(binder)
        entry = b.build(root)
        _own_callees(entry)
        return Stage(Module.of(self.name, entry), list(self.inputs), sizes, list(outputs))

    def _copy(self, instruction: Instruction) -> Instruction:
        made = self.copies.get(instruction)
        if made is None:
            operands = [self._operand(operand) for operand in instruction.operands]
            made = self.copies[instruction] = self.builder.computation.copy_of(
                instruction, operands
            )
            made.run_after(
                tuple(self.copies[p] for p in instruction.control_predecessors if p in self.copies)
            )
        return made

    def _operand(self, instruction: Instruction) -> Instruction:
        """Return a value in this module: copied, or assembled from arrays."""
        if instruction in self.own or is_cheap(instruction):
            return self._copy(instruction)
        return self._value(instruction, (), instruction.shape)

    def _value(self, instruction: Instruction, path: Path, shape: Shape) -> Instruction:
        if shape.is_tuple:
            parts = [
                self._value(instruction, (*path, number), element)
                for number, element in enumerate(shape.elements)
            ]
            return self.builder.emit("tuple", *parts)
        return self._array(leaf_of(instruction, path))

    def _array(self, leaf: Leaf) -> Instruction:
        instruction, path = leaf
        if instruction in self.own or is_cheap(instruction):
            made = self._copy(instruction)
            for index in path:
                made = self.builder.element_of(made, index)
            return made
        shape = instruction.shape.at(path)
        if not shape.is_array:
            return self.builder.emit("after-all")  # Stages run one after the other.
        if is_size_definition(instruction):
            return self.builder.full(False, shape)
        made = self.inputs.get(leaf)
        if made is None:
            name = ".".join((instruction.name, *map(str, path)))
            made = self.inputs[leaf] = self.builder.parameter(len(self.inputs), shape, name)
        return made

    def _bind_sizes(self, binder: Callable[[str], Shape]) -> list[str]:
        """Add parameters for sizes that are no parameter's bare dimension; return them."""
        computation = self.builder.computation
        needed: set[str] = set()
        for instruction in computation.instructions:
            needed |= used_symbols(instruction)
        bound = {name for one in self.inputs.values() for name in bare_symbols(one.shape)}
        added: list[str] = []
        while missing := sorted(needed - bound):
            shape = binder(missing[0])
            self.builder.parameter(len(self.inputs) + len(added), shape)
            added.append(missing[0])
            bound |= {missing[0], *bare_symbols(shape)}
            needed |= symbols_of(shape.dims)
        return added


def _own_callees(entry: Computation) -> None:
    """Let a computation call copies of its callees."""
    copies: dict[Computation, Computation] = {}
    for computation in callees_first(entry.callees()):
        copies[computation] = computation.clone()
    for made in (entry, *copies.values()):
        for instruction in made.calls_and_effects:
            retarget(instruction, copies)
