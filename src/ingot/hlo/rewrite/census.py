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


def census(module: Module) -> set[str]:
    """Return the words of all that stands in the module's computations."""
    found: set[str] = set()
    shapes: dict[int, Shape] = {}
    for computation in module.computations.values():
        instructions = computation.instructions
        found.update([instruction.opcode for instruction in instructions])
        shapes.update([(id(instruction.shape), instruction.shape) for instruction in instructions])
    for shape in shapes.values():
        _add_words(shape, found)
    return found


def _add_words(shape: Shape, found: set[str]) -> None:
    for element in shape.elements:
        _add_words(element, found)
    found.add(_OF_TYPE[shape.dtype])
    if 0 in shape.dims:
        found.add(EMPTY)
    if shape.bounded:
        found.add(BOUNDED)
