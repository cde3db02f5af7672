# SPDX-License-Identifier: Apache-2.0
"""The registry of rules by opcode, and the context that a rule gets.

A rule takes the instruction, its operands' values and a `Context`, and returns the result's value.
A value is a NumPy array, or a tuple of values; a token is the empty tuple. A rule that evaluates a
computation is a generator, which yields `context.call(...)` to get its value
(`support.trampoline`), so the depth of calls is not limited.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ingot.hlo import dim
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import find
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import ResourceError, UnsupportedError
from ingot.support.records import mutable, record
from ingot.support.trampoline import Recursion

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Value: TypeAlias = "Array | tuple[Value, ...]"
Rule: TypeAlias = "Callable[[Instruction, Sequence[Any], Context], Value | Recursion[Value]]"
Caller: TypeAlias = "Callable[[Computation, Sequence[Value], Context], Recursion[Value]]"
_Rule = TypeVar("_Rule", bound=Rule)

_RULES: dict[str, Rule] = {}


@mutable
class RunState:
    """The mutable state of one evaluation.

    Attributes:
        steps_left: loop iterations that are still allowed; None for any number.
        random_state: 128-bit state of the module's own generator.
        orders: the instructions that each computation evaluates, and whether its sizes are dynamic;
            cached for loops.
        acting: whether a computation, or what it calls, has a side effect.
    """

    steps_left: int | None = None
    # XLA's initial value (xla/service/cpu/ir_emitter.cc, RngGetAndUpdateState).
    random_state: int = 0x7012395
    orders: dict[Computation, list[tuple[Instruction, bool]]] = field(
        default_factory=dict[Computation, list[tuple[Instruction, bool]]]
    )
    acting: dict[Computation, bool] = field(default_factory=dict[Computation, bool])


@record
class Context:
    """The context of a rule.

    Attributes:
        call: evaluates a computation on argument values; the rule yields the call.
        sizes: the symbolic sizes' values; definitions of sizes add to them.
        state: the mutable state of the evaluation.
    """

    call: Caller
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    state: RunState = field(default_factory=RunState)

    def number(self, size: int | Dim) -> int:
        """Return the value of a size in this evaluation."""
        return dim.evaluate(size, self.sizes)

    def numbers(self, sizes: Sequence[int | Dim]) -> tuple[int, ...]:
        """Return the values of sizes in this evaluation."""
        return tuple(self.number(size) for size in sizes)

    def dims(self, shape: Shape) -> tuple[int, ...]:
        """Return the dimensions of an array shape as numbers."""
        return self.numbers(shape.dims)

    def step(self, instruction: Instruction) -> None:
        """Count one iteration of a loop; ResourceError when no more are allowed."""
        if self.state.steps_left is None:
            return
        if self.state.steps_left == 0:
            raise ResourceError(
                "the evaluation took more loop iterations than allowed",
                code="INGOT0251",
                instruction=repr(instruction),
                hint="give evaluate() a larger step_limit, or check the loop's condition",
            )
        self.state.steps_left -= 1


def evaluates(*opcodes: str) -> Callable[[_Rule], _Rule]:
    """Register the decorated function as the rule of `opcodes`."""

    def register(rule: _Rule) -> _Rule:
        for opcode in opcodes:
            _RULES[find(opcode).name] = rule
        return rule

    return register


def rule_of(instruction: Instruction) -> Rule:
    """Return the rule of an instruction; UnsupportedError when there is none."""
    rule = _RULES.get(instruction.opcode)
    if rule is None:
        raise UnsupportedError(
            f"the evaluator does not know opcode '{instruction.opcode}'",
            code="INGOT0250",
            instruction=repr(instruction),
            hint="add its rule to the evaluator's file of the op's family",
        )
    return rule


def evaluated_opcodes() -> frozenset[str]:
    """Return the opcodes that have a rule."""
    return frozenset(_RULES)
