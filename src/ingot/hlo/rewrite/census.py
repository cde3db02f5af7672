# SPDX-License-Identifier: Apache-2.0
"""A census of a module, in words, for passes that declare what they look for (`Pass.concerns`).

The words are opcodes ("dot"), element types of results ("bf16[]") and two marks of shapes: `EMPTY`
and `BOUNDED`. The runner takes a census after a pass changed something, and skips the passes and
groups of passes whose words are not in it.

Example:
    >>> from ingot.hlo.builder import Builder
    >>> b = Builder("main")
    >>> sorted(census(Module.of("m", b.build(b.negate(b.parameter(0, "f32[0]"))))))
    ['[0]', 'f32[]', 'negate', 'parameter']
"""

from __future__ import annotations

from collections.abc import Iterable

from ingot.hlo.dtype import DTYPES, DType
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape

EMPTY = "[0]"
"""The mark of arrays without elements."""

BOUNDED = "[<=]"
"""The mark of arrays with a dynamic dimension."""

_OF_TYPE = {element: f"{name}[]" for name, element in DTYPES.items()}


def types(elements: Iterable[DType]) -> frozenset[str]:
    """Return the words of element types."""
    return frozenset(_OF_TYPE[element] for element in elements)


class Census:
    """The words of one module, counted on demand."""

    def __init__(self, module: Module) -> None:
        """Start without a count."""
        self._module = module
        self._words: frozenset[str] | None = None

    def renew(self) -> None:
        """Drop the count, as the module changed."""
        self._words = None

    def holds_any(self, words: frozenset[str]) -> bool:
        """Whether one of `words` occurs in the module's computations."""
        return not self.words.isdisjoint(words)

    @property
    def words(self) -> frozenset[str]:
        """All words."""
        if self._words is None:
            shapes: dict[int, Shape] = {}
            found: set[str] = set()
            for computation in self._module.computations.values():
                found |= computation.opcodes
                results = [instruction.shape for instruction in computation.instructions]
                shapes.update(zip(map(id, results), results, strict=True))
            for shape in shapes.values():
                _note_words(shape, found)
            self._words = frozenset(found)
        return self._words


def census(module: Module) -> frozenset[str]:
    """Return the words of all instructions in the module's computations."""
    return Census(module).words


def _note_words(shape: Shape, found: set[str]) -> None:
    found.add(_OF_TYPE[shape.dtype])
    if 0 in shape.dims:
        found.add(EMPTY)
    if shape.bounded:
        found.add(BOUNDED)
    for element in shape.elements:
        _note_words(element, found)
