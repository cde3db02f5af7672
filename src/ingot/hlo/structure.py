# SPDX-License-Identifier: Apache-2.0
"""The structure of a computation: a key by which computations that are written alike are equal.

Layers of a network are alike, and so are their fused computations: facts that depend on the
structure alone (whether it is valid, its kernel, its cost) are computed for the first of them
(`StructuralCache`).

Names and metadata do not count; order of instructions, shapes with layouts, attributes and bits of
constants do. Called computations count by identity: `cse` has merged equal reducers. Cheaper than
`rewrite.fingerprint`, and valid only inside one compilation.

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

_Answer = TypeVar("_Answer")
Versioned: TypeAlias = tuple[Computation, int]
"""A computation and its version."""


def structure(computation: Computation) -> Hashable:
    """Return a key that is equal for computations written alike."""
    numbers: dict[Instruction, int] = {}
    rows: list[Hashable] = []
    for instruction in computation.post_order():
        numbers[instruction] = len(numbers)
        operands = tuple([numbers[operand] for operand in instruction.operands])
        rows.append((instruction.opcode, instruction.shape, instruction.attributes, operands))
    return numbers[computation.root], tuple(rows)


def memoize_by_structure(
    ask: Callable[[Computation], _Answer], computation: Computation
) -> _Answer:
    """Return `ask(computation)`, computed once for computations of a module that are written alike.

    The answer must depend on the structure alone, and hold no instructions.
    """
    module = computation.module
    return ask(computation) if module is None else module.structural_cache.memoize(ask, computation)


class StructuralCache:
    """The computations of a module by structure, and cached facts about the first of each."""

    __slots__ = ("_answers", "_first", "_known")

    def __init__(self) -> None:
        """Start empty."""
        self._first: dict[Hashable, Versioned] = {}
        self._known: dict[Computation, tuple[int, Versioned]] = {}
        self._answers: dict[tuple[Callable[[Computation], Any], Versioned], Any] = {}

    def first(self, computation: Computation) -> Computation:
        """Return the first computation seen that is written alike; possibly itself."""
        return self._versioned(computation)[0]

    def memoize(self, ask: Callable[[Computation], _Answer], computation: Computation) -> _Answer:
        """Return `ask(computation)`, computed once for those written alike.

        See `memoize_by_structure`.
        """
        key = (ask, self._versioned(computation))
        if key not in self._answers:
            self._answers[key] = ask(key[1][0])
        return self._answers[key]

    def _versioned(self, computation: Computation) -> Versioned:
        known = self._known.get(computation)
        if known is not None and known[0] == computation.version and _is_unchanged(known[1]):
            return known[1]
        written = structure(computation)
        first = self._first.get(written)
        if first is None or not _is_unchanged(first):
            first = self._first[written] = (computation, computation.version)
        self._known[computation] = (computation.version, first)
        return first


def _is_unchanged(versioned: Versioned) -> bool:
    return versioned[0].version == versioned[1]
