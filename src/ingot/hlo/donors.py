"""`buffer_donor` of a module's header: parameters whose memory the program may take.

A donor that is no alias of a result: its memory may become any result, or none. As in XLA it is
taken for a result of as many bytes, and stays the caller's if there is none. The header keeps the
text as XLA writes it, `{ (0, {}), (2, {1}) }`: (parameter, path in it).

Example:
    >>> module = Module("m")
    >>> write_donors(module, [(0, ()), (2, (1,))])
    >>> module.extra["buffer_donor"], read_donors(module)
    ('{ (0, {}), (2, {1}) }', [(0, ()), (2, (1,))])
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ingot.hlo.module import Alias, Module
from ingot.hlo.shape import Shape

Donor = tuple[int, tuple[int, ...]]
_KEY = "buffer_donor"
_ENTRY = re.compile(r"\(\s*(\d+)\s*,\s*\{([\d, ]*)\}\s*\)")


def read_donors(module: Module) -> list[Donor]:
    """Return (parameter, path) of every donor."""
    found = _ENTRY.findall(module.extra.get(_KEY, ""))
    return [(int(number), tuple(map(int, re.findall(r"\d+", path)))) for number, path in found]


def write_donors(module: Module, donors: Sequence[Donor]) -> None:
    """Set the donors; none are no header."""
    entries = [f"({number}, {{{', '.join(map(str, path))}}})" for number, path in donors]
    if entries:
        module.extra[_KEY] = f"{{ {', '.join(entries)} }}"


def taken_donors(module: Module) -> list[Alias]:
    """Return the donors that are taken, each with the result for which it is.

    Source: xla/hlo/transforms/simplifiers/optimize_input_output_buffer_alias.cc.
    """
    given = {alias.output for alias in module.aliases}
    donors = {(alias.parameter, alias.path) for alias in module.aliases}
    results = [(path, leaf) for path, leaf in module.result_shape.leaves() if path not in given]
    found: list[Alias] = []
    for number, path in read_donors(module):
        donor = _leaf(module.parameter_shapes[number], path)
        fitting = [row for row in results if row[1].is_array and row[1].bytes == donor.bytes]
        if fitting and (number, path) not in donors:
            same = [row for row in fitting if _leaf_kind(row[1]) == _leaf_kind(donor)]
            output = (same or fitting)[0]
            results.remove(output)
            found.append(Alias(output[0], number, path))
    return found


def alias_donors(module: Module) -> None:
    """Let results of a donor's shape be aliases of it."""
    module.aliases += tuple(
        alias
        for alias in taken_donors(module)
        if _leaf_kind(_leaf(module.result_shape, alias.output))
        == _leaf_kind(_leaf(module.parameter_shapes[alias.parameter], alias.path))
    )


def _leaf(shape: Shape, path: tuple[int, ...]) -> Shape:
    for place in path:
        shape = shape.elements[place]
    return shape


def _leaf_kind(shape: Shape) -> object:
    return (shape.dtype, shape.dims)
