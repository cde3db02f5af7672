# SPDX-License-Identifier: Apache-2.0
"""Values that the lowering needs at compile time: found by evaluation, or asked of the arguments.

An op whose result's shape follows from an operand needs that operand's value. Where it is computed
from constants only, `known_value` evaluates the instructions that compute it. Where it is computed
from small arguments, variables or open sizes, `ValueNeededError` asks for those, and the lowering
starts again with their values of this call as constants (see `entry`). Operands of branches and
what a loop does not change are followed out of their computations (`Program.origins`).

Invariant: nothing is asked for that the value does not depend on, and a value that depends on large
or changing data is an error that says which.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ingot.frontends.tensorflow.graphs.captured import CapturedNode
from ingot.frontends.tensorflow.lowering.context.program import Program
from ingot.frontends.tensorflow.lowering.context.values import Known, Size
from ingot.hlo import dim as dim_math
from ingot.hlo.computation import has_effect_itself, reaches
from ingot.hlo.instruction import Instruction
from ingot.semantics.assertions import is_assertion
from ingot.support.diagnostics import IngotError
from ingot.support.records import mutable

_MOST_INSTRUCTIONS = 20_000
_MOST_ELEMENTS = 1 << 16
_MOST_STEPS = 10_000
_RANDOM = frozenset({"rng", "rng-bit-generator", "rng-get-and-update-state", "infeed", "recv"})


class ValueNeededError(Exception):
    """The lowering needs values or sizes of this call's arguments: start again with them.

    Attributes:
        inputs: indices of `CapturedFunction.inputs` whose values are needed.
        symbols: sizes whose numbers are needed.
        what: what they are needed for.
        node: the op that needs them; the walk over the graph fills it in.
    """

    def __init__(self, inputs: frozenset[int], symbols: frozenset[str], what: str) -> None:
        super().__init__(what)
        self.inputs = inputs
        self.symbols = symbols
        self.what = what
        self.node: CapturedNode | None = None


class UnknownValueError(Exception):
    """A value depends on what only run time knows; the text says on what."""


def known_value(
    program: Program, value: Instruction, what: str, *, or_computed: bool = False
) -> Known:
    """Return the value of an instruction that is needed at compile time.

    Args:
        program: the lowering.
        value: the instruction.
        what: what its value is needed for.
        or_computed: whether run time will do, so that what follows from arguments that vary from
            call to call is unknown.

    Raises:
        ValueNeededError: it follows from arguments and sizes that the function can specialise on.
        UnknownValueError: it does not.
    """
    found = program.evaluated.get(value)
    if found is None:
        source = _Source(program, or_computed)
        source.follow(value)
        if source.inputs or source.symbols:
            raise ValueNeededError(frozenset(source.inputs), frozenset(source.symbols), what)
        found = program.evaluated[value] = _evaluated(program, value, source.order)
    return found


def need_sizes(program: Program, sizes: tuple[Size, ...], what: str) -> None:
    """Ask for the numbers of the symbols in `sizes`, if the function can specialise on them."""
    symbols = dim_math.symbols_of(sizes)
    if symbols and program.arguments is not None and not program.is_computed(sizes):
        raise ValueNeededError(frozenset(), symbols, what)


@mutable
class _Source:
    """What a value is computed from.

    Attributes:
        or_computed: whether arguments that vary make it unknown.
        inputs: the function's inputs.
        symbols: sizes that are open.
        order: the instructions that compute it, operands first.
    """

    program: Program
    or_computed: bool = False
    inputs: set[int] = field(default_factory=set[int])
    symbols: set[str] = field(default_factory=set[str])
    order: list[Instruction] = field(default_factory=list[Instruction])

    def follow(self, value: Instruction) -> None:
        seen = {value}
        pending = [(value, iter(self._before(value)))]
        while pending:
            current, rest = pending[-1]
            following = next((item for item in rest if item not in seen), None)
            if following is None:
                self.order.append(current)
                pending.pop()
                continue
            seen.add(following)
            if len(seen) > _MOST_INSTRUCTIONS:
                raise UnknownValueError("the computation is too long")
            pending.append((following, iter(self._before(following))))

    def _before(self, value: Instruction) -> tuple[Instruction, ...]:
        """Return what an instruction is computed from."""
        origin = self.program.origins.get(value)
        if origin is not None:
            return (origin,)
        if value in self.program.parameters:
            self._add_input(self.program.parameters[value])
            return ()
        if value.opcode == "get-dimension-size":
            self._add_symbols((_asked_size(value),))
            return ()
        if value.opcode == "parameter" or _is_state(value):
            raise UnknownValueError("a loop changes it from iteration to iteration")
        if value.opcode in _RANDOM or reaches(value, _does_more_than_check):
            raise UnknownValueError(f"{value.metadata.op_type or value.opcode} gives it")
        for _, shape in value.shape.leaves():
            self._add_symbols(shape.dims)
            if isinstance(shape.size, int) and shape.size > _MOST_ELEMENTS:
                raise UnknownValueError(f"it is computed from {shape.size} elements")
        return value.operands

    def _add_input(self, index: int) -> None:
        problem = self.program.why_not_fixed(index)
        if problem is not None:
            raise UnknownValueError(problem)
        if self.or_computed and self.program.is_varying(index):
            self.program.varying.add(index)
            name = self.program.captured.inputs[index].name
            raise UnknownValueError(f"argument '{name}' has another value in each call")
        self.inputs.add(index)

    def _add_symbols(self, sizes: tuple[Size, ...]) -> None:
        symbols = dim_math.symbols_of(sizes)
        if symbols and self.program.arguments is None:
            raise UnknownValueError("it follows from a size that is open")
        if self.program.is_computed(sizes):
            raise UnknownValueError("it follows from a size that the program computes")
        self.symbols |= symbols


def _asked_size(value: Instruction) -> Size:
    axis: int = value.attributes.dimensions[0]
    return value.operands[0].shape.dims[axis]


def _does_more_than_check(value: Instruction) -> bool:
    """Whether an instruction has an effect; the evaluator tells if an assertion fails."""
    return has_effect_itself(value) and not is_assertion(value)


def _is_state(value: Instruction) -> bool:
    """Whether this is an element of a body's parameter."""
    return value.opcode == "get-tuple-element" and value.operands[0].opcode == "parameter"


def _evaluated(program: Program, value: Instruction, order: list[Instruction]) -> Known:
    from ingot.evaluator import evaluate_instruction

    values: dict[Instruction, Any] = {}
    for item in order:
        origin = program.origins.get(item)
        if origin is not None:
            values[item] = values[origin]
            continue
        if item.opcode == "get-dimension-size":
            values[item] = Known.of(_asked_size(item), item.shape.dtype).array
            continue
        operands = [values[operand] for operand in item.operands]
        try:
            values[item] = evaluate_instruction(item, operands, step_limit=_MOST_STEPS)
        except IngotError as error:
            raise UnknownValueError(error.diagnostic.message) from error
    return Known.of(values[value], value.shape.dtype)
