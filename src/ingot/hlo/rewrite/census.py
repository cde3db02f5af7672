# SPDX-License-Identifier: Apache-2.0
"""What a module holds, in words, for passes that say what they look for (`Pass.concerns`).

The words are opcodes ("dot"), element types of results ("bf16[]") and two marks of shapes: `EMPTY`
and `BOUNDED`. The runner takes a census where a pass changed something, and leaves out the passes
and groups of passes that concern nothing in it.

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


_NONE: frozenset[str] = frozenset()
_OF_SHAPES = frozenset({*_OF_TYPE.values(), EMPTY, BOUNDED})


class Census:
    """The words of one module, counted as far as somebody asks."""

    def __init__(self, module: Module) -> None:
        """Have counted nothing."""
        self._module = module
        self._opcodes: frozenset[str] | None = None
        self._shapes: frozenset[str] | None = None
        self._words: frozenset[str] | None = None

    def renew(self) -> None:
        """Count again, as the module changed."""
        self._opcodes = self._shapes = self._words = None

    def holds_any(self, words: frozenset[str]) -> bool:
        """Whether one of `words` stands in the module's computations."""
        if not (self._opcodes or self.opcodes).isdisjoint(words):
            return True
        return not words.isdisjoint(_OF_SHAPES) and not self.shapes.isdisjoint(words)

    @property
    def words(self) -> frozenset[str]:
        """All of them."""
        if self._words is None:
            self._words = self.opcodes | self.shapes
        return self._words

    @property
    def opcodes(self) -> frozenset[str]:
        """The opcodes."""
        if self._opcodes is None:
            held = [computation.opcodes for computation in self._module.computations.values()]
            self._opcodes = _NONE.union(*held)
        return self._opcodes

    @property
    def shapes(self) -> frozenset[str]:
        """The words of results' shapes."""
        if self._shapes is None:
            shapes: dict[int, Shape] = {}
            for computation in self._module.computations.values():
                results = [instruction.shape for instruction in computation.instructions]
                shapes.update(zip(map(id, results), results, strict=True))
            found: set[str] = set()
            for shape in shapes.values():
                _note_words(shape, found)
            self._shapes = frozenset(found)
        return self._shapes


def census(module: Module) -> frozenset[str]:
    """Return the words of all that stands in the module's computations."""
    return Census(module).words


def _note_words(shape: Shape, found: set[str]) -> None:
    found.add(_OF_TYPE[shape.dtype])
    if 0 in shape.dims:
        found.add(EMPTY)
    if shape.bounded:
        found.add(BOUNDED)
    for element in shape.elements:
        _note_words(element, found)
