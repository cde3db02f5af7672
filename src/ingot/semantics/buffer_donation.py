# SPDX-License-Identifier: Apache-2.0
"""Which result takes the memory of a donor, a parameter that the caller gives away.

As in XLA, a donor is taken for a result of the same number of bytes, and stays the caller's if
there is none. A donor with a result of its shape becomes an alias, as if the program had named that
result. `hlo.donors` reads the header's text.

Invariant: a result takes one donor, and none that has an alias takes another.

Example:
    >>> from ingot.hlo.builder import Builder
    >>> from ingot.hlo.donors import write_donors
    >>> b = Builder("main")
    >>> module = Module.of("m", b.build(b.parameter(0, "f32[8]")))
    >>> write_donors(module, [(0, ())])
    >>> [(alias.output, alias.parameter) for alias in taken_donors(module)]
    [((), 0)]
"""

from __future__ import annotations

from ingot.hlo.donors import read_donors, write_donors
from ingot.hlo.module import Alias, Module
from ingot.hlo.shape import Shape


def taken_donors(module: Module) -> list[Alias]:
    """Return the donors that are taken, each with the result that takes it.

    Source: xla/hlo/transforms/simplifiers/optimize_input_output_buffer_alias.cc.
    """
    given = {alias.output for alias in module.aliases}
    donors = {(alias.parameter, alias.path) for alias in module.aliases}
    results = [(path, leaf) for path, leaf in module.result_shape.leaves() if path not in given]
    found: list[Alias] = []
    for number, path in read_donors(module):
        donor = module.parameter_shapes[number].at(path)
        fitting = [row for row in results if row[1].is_array and row[1].bytes == donor.bytes]
        if fitting and (number, path) not in donors:
            same = [row for row in fitting if _leaf_kind(row[1]) == _leaf_kind(donor)]
            output = (same or fitting)[0]
            results.remove(output)
            found.append(Alias(output[0], number, path))
    return found


def alias_donors(module: Module) -> None:
    """Turn donors into aliases of results of the same shape."""
    made = [
        alias
        for alias in taken_donors(module)
        if _leaf_kind(module.result_shape.at(alias.output))
        == _leaf_kind(module.parameter_shapes[alias.parameter].at(alias.path))
    ]
    named = {(alias.parameter, alias.path) for alias in made}
    module.aliases += tuple(made)
    write_donors(module, [donor for donor in read_donors(module) if donor not in named])


def drop_unequal_aliases(module: Module) -> None:
    """Drop aliases of a parameter and a result that do not have the same dimensions any more."""
    module.aliases = tuple(
        alias
        for alias in module.aliases
        if module.result_shape.at(alias.output).dims
        == module.parameter_shapes[alias.parameter].at(alias.path).dims
    )


def _leaf_kind(shape: Shape) -> object:
    return (shape.dtype, shape.dims)
