# SPDX-License-Identifier: Apache-2.0
"""Buffer assignment: puts every value of a scheduled module into memory of the execution ABI.

Runs after copy insertion: every pair that must share a buffer does. Then elementwise results take
over operands that die, and each class of values is one buffer. A class with an output is that
output, one with a parameter or constant is that; the others are packed into the arena by the times
at which they are live, whatever computation of their function they belong to. Functions that may
call each other have different parts of the arena: no computation calls itself, so each has the part
of its *level*, the length of the longest chain of calls that leads to it.

Invariant: parameters and constants are never written; `verify.py` checks the rest.

Source: xla/service/buffer_assignment.cc.
"""

from __future__ import annotations

from ingot.analysis.aliasing import Path, Value
from ingot.analysis.liveness import Liveness, call_levels
from ingot.artifact.abi import DATA_ALIGNMENT, MAX_BUFFER_BYTES
from ingot.hlo import dim
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim, bound, round_up
from ingot.hlo.literal import Literal
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.passes.buffers.buffer_table import (
    Allocation,
    BufferAssignment,
    Constant,
    Ends,
    Output,
    Parameter,
    PlacedConstant,
    Slice,
    Temp,
)
from ingot.passes.buffers.coalesce import Classes, shared_buffers
from ingot.passes.buffers.packing import Item, aligned, pack
from ingot.support.diagnostics import ResourceError
from ingot.support.records import fresh, mutable


def assign_buffers(module: Module, scratch_bytes: int | Dim = 0) -> BufferAssignment:
    """Return where every value lives; kernels get `scratch_bytes` at the end of the arena.

    Raises:
        InternalError: INGOT0922 when copy insertion has not run, or not after the last edit.
        ResourceError: INGOT0402 when a buffer or the arena is larger than any memory.
    """
    liveness, classes = shared_buffers(module)
    return _Assigner(module, liveness, classes, scratch_bytes).run()


def _parameters(function: Computation) -> dict[Path, int]:
    """Return the number of each flattened leaf of a function's parameters."""
    shapes = tuple(parameter.shape for parameter in function.parameters)
    return {path: number for number, (path, _) in enumerate(flat_leaves(shapes))}


def flat_leaves(shapes: tuple[Shape, ...]) -> list[tuple[Path, Shape]]:
    """Return ((parameter number, *path), leaf shape) of all leaves, as the ABI numbers them."""
    return [((n, *path), leaf) for n, shape in enumerate(shapes) for path, leaf in shape.leaves()]


@mutable
class _ConstantBlock:
    """Literals at aligned offsets, equal ones once."""

    offsets: dict[Literal, int] = fresh(factory=dict)
    end: int = 0

    def place(self, literal: Literal) -> int:
        found = self.offsets.get(literal)
        if found is None:
            found = self.end
            self.offsets[literal] = found
            self.end += round_up(literal.value.nbytes, DATA_ALIGNMENT)
        return found


def _require_allocatable(size: int | Dim, value: Value) -> None:
    """Raise unless memory of `size` bytes, for the sake of `value`, can exist."""
    if isinstance(size, Dim) or size <= MAX_BUFFER_BYTES:
        return
    origin = value.instruction.metadata
    raise ResourceError(
        f"{value.shape} takes {value.shape.bytes} bytes, and its buffer {size}: too much",
        code="INGOT0402",
        instruction=repr(value.instruction),
        op_type=origin.op_type,
        op_name=origin.op_name,
        location=origin.location,
        hint="use smaller sizes",
    )


class _Assigner:
    """Turns classes of values into slices."""

    def __init__(
        self, module: Module, liveness: Liveness, classes: Classes, scratch_bytes: int | Dim
    ) -> None:
        self._module = module
        self._liveness = liveness
        self._classes = classes
        self._aliasing = liveness.aliasing
        functions = self._aliasing.functions
        self._parameters = {function: _parameters(function) for function in functions}
        self._outputs = {
            function: {path: n for n, (path, _) in enumerate(function.root.shape.leaves())}
            for function in functions
        }
        self._constants = _ConstantBlock()
        self._slices: dict[Value, Slice] = {}
        self._scratch_bytes = scratch_bytes
        self._temp = Temp(0)

    def run(self) -> BufferAssignment:
        constant = self._place_constants()
        temps: list[Value] = []
        for representative in self._classes.representatives:
            members = self._classes.members(representative)
            first = members[0]
            if first.kind == "constant":
                continue
            allocation = self._fixed(members)
            if allocation is None:
                temps.append(representative)
                continue
            if isinstance(allocation, Output):
                _require_allocatable(allocation.size, first)
            for value in members:
                self._slices[value] = Slice(allocation, 0, value.shape.bytes)
        scratch_offset = self._place_temps(self._by_level(temps))
        ends = self._ends()
        return BufferAssignment(
            aliasing=self._aliasing,
            slices=self._slices,
            ends=ends,
            temp=self._temp,
            constant=constant,
            constants=tuple(PlacedConstant(lit, at) for lit, at in self._constants.offsets.items()),
            scratch_offset=scratch_offset,
            donations=self._donations(ends[self._module.entry]),
        )

    # ---- allocations

    def _place_constants(self) -> Constant:
        offsets: dict[Value, int] = {}
        for value in self._aliasing.values:
            if value.kind == "constant":
                literal: Literal = value.instruction.attributes.literal
                for number in value.path:
                    literal = literal.elements[number]
                offsets[value] = self._constants.place(literal)
        allocation = Constant(self._constants.end)
        for value, offset in offsets.items():
            self._slices[value] = Slice(allocation, offset, value.shape.bytes)
        return allocation

    def _fixed(self, members: list[Value]) -> Allocation | None:
        """Return the caller's memory that a class is, or None for a temporary."""
        output = next((v for v in members if v.kind == "output"), None)
        parameter = next((v for v in members if v.kind == "parameter"), None)
        taken = self._parameter_number(parameter) if parameter is not None else None
        if output is not None:
            function = output.instruction.computation
            number = self._outputs[function][output.path]
            return Output(number, output.shape.bytes, taken, self._name(function))
        if parameter is not None and taken is not None:
            function = parameter.instruction.computation
            return Parameter(taken, parameter.shape.bytes, self._name(function))
        return None

    def _name(self, function: Computation) -> str:
        return "" if function is self._module.entry else function.name

    def _parameter_number(self, value: Value) -> int:
        instruction = value.instruction
        numbers = self._parameters[instruction.computation]
        return numbers[(instruction.attributes.number, *value.path)]

    def _ends(self) -> dict[Computation, Ends]:
        found: dict[Computation, Ends] = {}
        for function, numbers in self._parameters.items():
            parameters = (function.parameters[number] for number, *_ in numbers)
            given = [
                self._allocation(self._aliasing.value(parameter, tuple(path)))
                for parameter, (_, *path) in zip(parameters, numbers, strict=True)
            ]
            outputs = self._liveness.outputs[function]
            taken = [self._allocation(outputs.get(path)) for path in self._outputs[function]]
            found[function] = Ends(tuple(given), tuple(taken))
        return found

    def _allocation(self, value: Value | None) -> Allocation | None:
        return None if value is None else self._slices[value].allocation

    def _donations(self, ends: Ends) -> tuple[tuple[int, int, int | Dim], ...]:
        return tuple(
            (allocation.index, allocation.parameter, allocation.size)
            for allocation in ends.outputs
            if isinstance(allocation, Output) and allocation.parameter is not None
        )

    # ---- the arena

    def _by_level(self, temps: list[Value]) -> list[list[list[Value]]]:
        """Return the temporaries of each function, the functions of each level together."""
        if len(self._aliasing.functions) == 1:
            return [[temps]]
        levels = call_levels(self._liveness)
        made: dict[Computation, list[Value]] = {function: [] for function in levels}
        for value in temps:
            made[self._liveness.function_of(value)].append(value)
        found: list[list[list[Value]]] = [[] for _ in range(max(levels.values()) + 1)]
        for function, values in made.items():
            found[levels[function]].append(values)
        return found

    def _place_temps(self, by_level: list[list[list[Value]]]) -> int | Dim:
        temps = [value for functions in by_level for values in functions for value in values]
        for value in temps:
            _require_allocatable(value.shape.bytes, value)
        offsets: dict[Value, int | Dim] = {}
        base: int | Dim = 0
        hull = self._classes.hull
        for functions in by_level:
            sizes: list[int | Dim] = []
            for values in functions:
                packed = pack([Item(*hull(v), v.shape.bytes) for v in values])
                offsets.update((v, base + o) for v, o in zip(values, packed.offsets, strict=True))
                sizes.append(packed.size)
            base = base + dim.greatest(sizes)
        self._temp = Temp(base + aligned(self._scratch_bytes))
        if temps:
            largest_value = max(temps, key=lambda value: bound(value.shape.bytes, 0))
            _require_allocatable(self._temp.size, largest_value)
        for representative, offset in offsets.items():
            for value in self._classes.members(representative):
                self._slices[value] = Slice(self._temp, offset, value.shape.bytes)
        return base
