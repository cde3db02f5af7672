# SPDX-License-Identifier: Apache-2.0
"""Parameters whose memory results may take: `input_output_alias` and `buffer_donor` of a header.

An alias names the result that takes a parameter's memory. A donor does not: any result, or none,
may take its memory; `semantics.buffer_donation` decides which. The header keeps the donors' text as
XLA writes it, `{ (0, {}), (2, {1}) }`: (parameter, path in it).

Invariant of a verified module: a result takes the memory of at most one parameter, and a parameter
gives its memory to at most one result (`sharing_problem`).

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
from ingot.support.regex import regex

Donor = tuple[int, tuple[int, ...]]
_KEY = "buffer_donor"
_ENTRY = regex(r"\(\s*(\d{1,9})\s*,\s*\{((?:\d{1,9}[, ]*)*)\}\s*\)")
_DONORS = regex(rf"\{{\s*(?:{_ENTRY.pattern}\s*(?:,\s*{_ENTRY.pattern}\s*)*)?\}}")
_ALIAS_KINDS = ("may-alias", "must-alias")


def read_donors(module: Module) -> list[Donor]:
    """Return (parameter, path) of every donor, once."""
    found = _ENTRY.findall(module.extra.get(_KEY, ""))
    rows = ((int(number), tuple(map(int, re.findall(r"\d+", path)))) for number, path in found)
    return list(dict.fromkeys(rows))


def write_donors(module: Module, donors: Sequence[Donor]) -> None:
    """Set the donors; without any, the header has no such entry."""
    entries = [f"({number}, {{{', '.join(map(str, path))}}})" for number, path in donors]
    module.extra.pop(_KEY, None)
    if entries:
        module.extra[_KEY] = f"{{ {', '.join(entries)} }}"


def sharing_problem(module: Module) -> str:
    """Return what is wrong with the module's aliases and donors; "" when nothing is.

    Source: HloInputOutputAliasConfig::Verify and HloBufferDonorConfig::Verify of XLA.
    """
    text = module.extra.get(_KEY, "")
    if not module.aliases and not text:
        return ""
    if text and not _DONORS.fullmatch(text.strip()):
        return f"buffer_donor={text} is not a list of donors such as {{ (0, {{}}), (2, {{1}}) }}"
    outputs: set[tuple[int, ...]] = set()
    inputs: set[Donor] = set()
    for alias in module.aliases:
        source = (alias.parameter, alias.path)
        problem = _alias_problem(module, alias)
        if problem:
            return problem
        if alias.output in outputs:
            return f"output {alias.output} is aliased to two parameters"
        if source in inputs:
            return f"parameter {alias.parameter} {alias.path} is aliased to two outputs"
        outputs.add(alias.output)
        inputs.add(source)
    return _donors_problem(module, inputs)


def _alias_problem(module: Module, alias: Alias) -> str:
    given = _parameter_leaf(module, alias.parameter, alias.path)
    result = _find(module.result_shape, alias.output)
    if alias.kind not in _ALIAS_KINDS:
        return f"alias of kind '{alias.kind}', which is neither may-alias nor must-alias"
    if isinstance(given, str):
        return f"alias of {given}"
    if result is None or not result.is_array:
        return f"alias of output {alias.output}, which is no array of {module.result_shape}"
    if given.bytes != result.bytes:
        return f"output {alias.output} is {result}, aliased parameter is {given}"
    return ""


def _donors_problem(module: Module, aliased: set[Donor]) -> str:
    for number, path in read_donors(module):
        given = _parameter_leaf(module, number, path)
        if isinstance(given, str):
            return f"donor is {given}"
        if (number, path) in aliased:
            return f"parameter {number} {path} is a donor and aliased to an output"
    return ""


def _parameter_leaf(module: Module, number: int, path: tuple[int, ...]) -> Shape | str:
    """Return the shape of an array inside a parameter, or what is wrong with its path."""
    shapes = module.parameter_shapes
    if not 0 <= number < len(shapes):
        return f"parameter {number}, which does not exist"
    found = _find(shapes[number], path)
    if found is None or not found.is_array:
        return f"parameter {number} {path}, which is no array of {shapes[number]}"
    return found


def _find(shape: Shape, path: tuple[int, ...]) -> Shape | None:
    for number in path:
        if not 0 <= number < len(shape.elements):
            return None
        shape = shape.elements[number]
    return shape
