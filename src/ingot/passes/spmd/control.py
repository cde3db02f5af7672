# SPDX-License-Identifier: Apache-2.0
"""Control flow on divided values: which parts of its state loops and branches hand on.

What the program says of the state is taken. A loop's state that it says nothing of is divided as it
comes in, and where it comes in whole, as the body leaves it: the body is rewritten in rehearsal, on
a copy, until its results say nothing new. Branches give what the first of them divides.

Invariant: each division only adds to what is divided, so rehearsals end; a computation that is
rewritten for one op is a copy, since others may call it too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from ingot.hlo.computation import Computation, reached
from ingot.hlo.instruction import Instruction
from ingot.passes.spmd.division import Wishes
from ingot.passes.spmd.moves import Channels
from ingot.passes.spmd.sharding import Sharding, replicated
from ingot.support.records import replace

Row = Sequence[Sharding]
Rewrite = Callable[[Computation, Channels, Row, Sequence[Sharding | None]], tuple[Sharding, ...]]
"""Rewrites a body or branch whose state is divided so, to results that are divided so."""
_DIVIDERS = frozenset({"Sharding", "SPMDShardToFullShape"})


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Control:
    """An op of control flow, and how what it hands on is divided."""

    op: Instruction
    given: Sequence[Row]
    said: Wishes
    channels: Channels
    rewrite: Rewrite

    def divides_inside(self) -> bool:
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
        state = [wish or known for wish, known in zip_longest(self.said, state)]
        while not self.said:
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
        said = [wish for wish in self.said if wish is not None]
        is_said = len(said) == _width(self.op)
        results = said if is_said else self._left(branches)
        made = tuple(self._copy(branch, row, results) for branch, row in branches)
        attributes = replace(self.op.attributes, branch_computations=made)
        return ControlDivision(attributes, self.given, results)

    def _left(self, branches: Sequence[tuple[Computation, Row]]) -> Row:
        """Return how the first branch divides each result that divides it."""
        found = [self._rehearse(branch, row) for branch, row in branches]
        return [
            next((each for each in choices if not each.is_replicated), choices[0])
            for choices in zip(*found, strict=True)
        ]

    def _rehearse(self, computation: Computation, given: Row) -> Row:
        """Return how the results are divided if nobody asks."""
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
        "devices=" in instruction.extra.get("sharding", "")
        or (
            instruction.opcode == "custom-call"
            and instruction.attributes.custom_call_target in _DIVIDERS
        )
        for one in reached(computation)
        for instruction in one.instructions
    )
