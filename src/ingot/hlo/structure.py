# SPDX-License-Identifier: Apache-2.0
"""The structure of a computation: what tells apart two that are written differently.

Layers of a network are alike, and so are their fused computations: what depends on how one is
written (whether it is valid, its kernel, its cost) is found out for the first of them (`Forms`).

Names and metadata do not count; order of instructions, shapes with layouts, attributes and bits of
constants do. Called computations count by identity: `cse` has made equal reducers one. Cheaper than
`rewrite.fingerprint`, and only of use inside one compilation.

Example:
    >>> from ingot.hlo.builder import Builder
    >>> def negated(name: str) -> Computation:
    ...     b = Builder(name)
    ...     return b.build(b.negate(b.parameter(0, "f32[2]")))
    >>> structure(negated("f")) == structure(negated("g"))
    True
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias, TypeVar

from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction

_Fact = TypeVar("_Fact")
Edition: TypeAlias = tuple[Computation, int]
"""A computation and its version."""


def structure(computation: Computation) -> Hashable:
    """Return a value that computations written alike share."""
    numbers: dict[Instruction, int] = {}
    rows: list[Hashable] = []
    for instruction in computation.post_order():
        numbers[instruction] = len(numbers)
        operands = tuple([numbers[operand] for operand in instruction.operands])
        rows.append((instruction.opcode, instruction.shape, instruction.attributes, operands))
    return numbers[computation.root], tuple(rows)


def fact(ask: Callable[[Computation], _Fact], computation: Computation) -> _Fact:
    """Return `ask(computation)`, asked once of the computations of a module that are written alike.

    The answer must depend on the structure alone, and hold no instructions.
    """
    module = computation.module
    return ask(computation) if module is None else module.forms.fact(ask, computation)


class Forms:
    """The computations of a module by structure, and what was found out about the first of each."""

    __slots__ = ("_facts", "_first", "_known")

    def __init__(self) -> None:
        """Know none."""
        self._first: dict[Hashable, Edition] = {}
        self._known: dict[Computation, tuple[int, Edition]] = {}
        self._facts: dict[tuple[Callable[[Computation], Any], Edition], Any] = {}

    def first(self, computation: Computation) -> Computation:
        """Return the first computation that was met and is written alike; itself, if it is."""
        return self._edition(computation)[0]

    def fact(self, ask: Callable[[Computation], _Fact], computation: Computation) -> _Fact:
        """Return `ask(computation)`, asked once of those written alike; see `fact`."""
        key = (ask, self._edition(computation))
        if key not in self._facts:
            self._facts[key] = ask(key[1][0])
        return self._facts[key]

    def _edition(self, computation: Computation) -> Edition:
        known = self._known.get(computation)
        if known is not None and known[0] == computation.version and _is_unchanged(known[1]):
            return known[1]
        written = structure(computation)
        first = self._first.get(written)
        if first is None or not _is_unchanged(first):
            first = self._first[written] = (computation, computation.version)
        self._known[computation] = (computation.version, first)
        return first


def _is_unchanged(edition: Edition) -> bool:
    return edition[0].version == edition[1]
