# SPDX-License-Identifier: Apache-2.0
"""Control flow on divided values: how the state of loops and branches is divided.

Annotations decide. State of a loop without an annotation is divided as it comes in; state that
comes in whole is divided as the body leaves it: the body is rewritten in rehearsal, on a copy,
until its results are divided no further. A result of branches is divided as in the first branch
that divides it.

Invariant: each rehearsal only divides more values, so rehearsals end; a computation that is
rewritten for one op is a copy, since others may call it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

from ingot.hlo.computation import Computation, reached
from ingot.hlo.instruction import Instruction
from ingot.passes.spmd.annotations import target_of
from ingot.passes.spmd.division import Annotations
from ingot.passes.spmd.reshard import Channels
from ingot.passes.spmd.sharding import Sharding, replicated
from ingot.support.records import record, replace

Row = Sequence[Sharding]
Rewrite = Callable[[Computation, Channels, Row, Sequence[Sharding | None]], tuple[Sharding, ...]]
"""Rewrites a body or branch with divided state to wanted results; returns how they are divided."""
_DIVIDERS = frozenset({"Sharding", "SPMDShardToFullShape"})


@record
class ControlDivision:
    """How an op of control flow is divided.

    Attributes:
        attributes: its attributes, with rewritten computations.
        states: the sharding of each element of each operand that a computation gets.
        results: the sharding of each result.
    """

    attributes: Any
    states: Sequence[Row]
    results: Row


@record
class Control:
    """An op of control flow, and how its operands and results are divided.

    Attributes:
        op: the op.
        given: the sharding of each element of each operand that a computation gets.
        annotated: the shardings that its results are annotated with.
        channels: those of the module.
        rewrite: rewrites a computation that it calls.
    """

    op: Instruction
    given: Sequence[Row]
    annotated: Annotations
    channels: Channels
    rewrite: Rewrite

    def has_divisions(self) -> bool:
        """Whether its computations divide something themselves."""
        return any(map(_divides, self.op.called_computations))

    def rewrite_in_place(self) -> None:
        """Rewrite computations whose state and results are whole, once each."""
        whole = replicated(self.channels.grid.partitions)
        for called in self.op.called_computations:
            if self.channels.is_rehearsal or called in self.channels.done:
                continue
            self.channels.done.add(called)
            (parameter,) = called.parameters
            given = [whole] * _width(parameter)
            self.rewrite(called, self.channels, given, [whole] * _width(called.root))

    def divide(self) -> ControlDivision:
        """Return how the op is divided; its computations are rewritten copies."""
        return self._loop() if self.op.opcode == "while" else self._branches()

    def _loop(self) -> ControlDivision:
        given = self.op.attributes
        (state,) = self.given
        state = [wish or known for wish, known in zip_longest(self.annotated, state)]
        while not self.annotated:
            left = self._rehearse(given.body, state)
            more = [b if a.is_replicated else a for a, b in zip(state, left, strict=True)]
            if more == list(state):
                break
            state = more
        whole = replicated(self.channels.grid.partitions)
        attributes = replace(
            given,
            condition=self._copy(given.condition, state, [whole]),
            body=self._copy(given.body, state, state),
        )
        return ControlDivision(attributes, [state], state)

    def _branches(self) -> ControlDivision:
        branches = list(zip(self.op.attributes.branch_computations, self.given, strict=True))
        annotated = [wish for wish in self.annotated if wish is not None]
        is_said = len(annotated) == _width(self.op)
        results = annotated if is_said else self._left(branches)
        made = tuple(self._copy(branch, row, results) for branch, row in branches)
        attributes = replace(self.op.attributes, branch_computations=made)
        return ControlDivision(attributes, self.given, results)

    def _left(self, branches: Sequence[tuple[Computation, Row]]) -> Row:
        """Return, for each result, the sharding of the first branch that divides it."""
        found = [self._rehearse(branch, row) for branch, row in branches]
        return [
            next((each for each in choices if not each.is_replicated), choices[0])
            for choices in zip(*found, strict=True)
        ]

    def _rehearse(self, computation: Computation, given: Row) -> Row:
        """Return how the results are divided by default."""
        copy = computation.clone()
        return self.rewrite(copy, self.channels.rehearsal(), given, [None] * _width(copy.root))

    def _copy(self, computation: Computation, given: Row, wanted: Row) -> Computation:
        made = computation.clone()
        if not self.channels.is_rehearsal:
            self.channels.module.take(made)
        self.rewrite(made, self.channels, given, wanted)
        return made


def _width(value: Instruction) -> int:
    return len(value.shape.elements) if value.shape.is_tuple else 1


def _divides(computation: Computation) -> bool:
    return any(
        "devices=" in instruction.extra.get("sharding", "") or target_of(instruction) in _DIVIDERS
        for one in reached(computation)
        for instruction in one.instructions
    )
