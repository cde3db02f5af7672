# SPDX-License-Identifier: Apache-2.0
"""Versions of called computations that take and return parts instead of complex numbers.

A version starts as a copy whose parameters are parts, which are joined at its start; splitting the
copy removes these joins. Each version is made once.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.operand_order import operands_behind
from ingot.passes.expand.complex_expander.split_values import (
    SplitValue,
    SplitValues,
    flat_shapes,
    from_flat,
    split_shape,
)
from ingot.passes.inline import copy_into, inline
from ingot.support.records import fresh, mutable

Split = Callable[[Computation], SplitValues]
"""Splits the body of a computation in place; its root is still the old one."""

Result = Callable[[SplitValues, SplitValue], Instruction]
"""Makes the result of a version from the split value of the old root."""


@mutable
class Versions:
    """The versions made so far, by source computation and kind."""

    module: Module
    split: Split
    _made: dict[tuple[Computation, str], Computation] = fresh(factory=dict)
    _separated: dict[Computation, list[Computation] | None] = fresh(factory=dict)

    def _once(self, source: Computation, kind: str, make: Callable[[], Computation]) -> Computation:
        found = self._made.get((source, kind))
        if found is None:
            found = self._made[source, kind] = self.module.take(make())
        return found

    def nested(self, source: Computation) -> Computation:
        """Return the version of nested parameters and result: for while, call, conditional."""

        def make() -> Computation:
            build = Builder(f"{source.name}.parts")
            splits = SplitValues(build.computation)
            values: list[SplitValue] = []
            for number, parameter in enumerate(source.parameters):
                made = build.parameter(number, split_shape(parameter.shape), parameter.name)
                values.append(splits.from_nested(made, parameter.shape))
            return self._body(source, build, splits, values, SplitValues.nested)

        return self._once(source, "nested", make)

    def flat(self, source: Computation) -> Computation:
        """Return the version of flat parameters and a flat tuple as result: for reducers."""
        return self._once(source, "flat", lambda: self._flat(source, _as_tuple))

    def mapped(self, source: Computation, part: int) -> Computation:
        """Return the version of flat parameters that gives one part of the result: for map."""

        def one(splits: SplitValues, root: SplitValue) -> Instruction:
            return splits.flat(root)[part]

        return self._once(source, f"part {part}", lambda: self._flat(source, one))

    def _flat(self, source: Computation, result: Result) -> Computation:
        build = Builder(f"{source.name}.parts")
        numbers = count()
        values: list[SplitValue] = []
        for parameter in source.parameters:
            leaves = [
                build.parameter(next(numbers), shape, parameter.name)
                for shape in flat_shapes(parameter.shape)
            ]
            values.append(from_flat(iter(leaves), parameter.shape))
        return self._body(source, build, SplitValues(build.computation), values, result)

    def comparator(self, source: Computation) -> Computation:
        """Return the version for sort: the two sides of each leaf are adjacent parameters."""

        def make() -> Computation:
            build = Builder(f"{source.name}.parts")
            numbers = count()
            values: list[SplitValue] = []
            for left, right in zip(source.parameters[::2], source.parameters[1::2], strict=True):
                sides: tuple[list[Instruction], list[Instruction]] = ([], [])
                for shape in flat_shapes(left.shape):
                    sides[0].append(build.parameter(next(numbers), shape, left.name))
                    sides[1].append(build.parameter(next(numbers), shape, right.name))
                values.extend(from_flat(iter(side), left.shape) for side in sides)
            return self._body(
                source, build, SplitValues(build.computation), values, SplitValues.nested
            )

        return self._once(source, "comparator", make)

    def _body(
        self,
        source: Computation,
        build: Builder,
        splits: SplitValues,
        values: list[SplitValue],
        result: Result,
    ) -> Computation:
        """Copy the body onto joined parameters, split it, and make `result` of its root."""
        computation = build.computation
        computation.set_root(inline(computation, source, [splits.whole(split) for split in values]))
        splits = self.split(computation)
        computation.set_root(result(splits, splits.of(computation.root)))
        remove_dead(splits)
        return computation

    def separated(self, source: Computation) -> list[Computation] | None:
        """Return a reducer per leaf of the result, or None if one needs more than its own leaf."""
        if source not in self._separated:
            found = _separated(self.flat(source))
            self._separated[source] = found and [self.module.take(made) for made in found]
        return self._separated[source]


def _as_tuple(splits: SplitValues, root: SplitValue) -> Instruction:
    return Builder(splits.computation).tuple(*splits.flat(root))


def remove_dead(splits: SplitValues) -> None:
    """Remove unused instructions, and control dependencies on them."""
    computation = splits.computation
    for instruction in reversed(computation.post_order()):
        if instruction in splits.superseded and instruction in computation:
            computation.remove(instruction)
        else:
            computation.remove_dead(instruction)
    for instruction in computation.instructions:
        if instruction.control_predecessors:
            left = tuple(p for p in instruction.control_predecessors if p in computation)
            instruction.run_after(left)


def _separated(reducer: Computation) -> list[Computation] | None:
    results = reducer.root.operands
    made: list[Computation] = []
    for number, result in enumerate(results):
        own = (reducer.parameters[number], reducer.parameters[len(results) + number])
        needed = set(operands_behind([result], ()))
        if any(item.opcode == "parameter" and item not in own for item in needed):
            return None
        build = Builder(f"{reducer.name}.{number}")
        copies = {p: build.parameter(k, p.shape, p.name) for k, p in enumerate(own)}
        order = [item for item in reducer.post_order() if item in needed]
        made.append(build.build(copy_into(build.computation, order, copies)[result]))
    return made
