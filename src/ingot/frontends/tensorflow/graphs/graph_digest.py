# SPDX-License-Identifier: Apache-2.0
"""Digests of captured graphs: what a function's stored program is named by (`stored_programs`).

What a graph is lowered to follows from the graph, its binding and Ingot's sources, which are all
that is digested. TensorFlow numbers the names of functions through the process. A digest knows a
function by its place among those that the graph calls, so the number does not matter.
"""

from __future__ import annotations

import hashlib
import marshal
from typing import Any, cast

import numpy as np

from ingot.client import stored
from ingot.frontends.tensorflow.graphs.binding import Binding
from ingot.frontends.tensorflow.graphs.captured import (
    CapturedFunction,
    CapturedInput,
    CapturedNode,
    FunctionRef,
    PartialShape,
    TensorType,
    TypeName,
)
from ingot.llvm.target import TargetSpec
from ingot.support.records import record
from ingot.support.sources import sources_stamp
from ingot.support.xla_flags import current_xla_flags

SOURCES = ("frontends/building", "frontends/tensorflow")
"""The packages that decide what a graph is lowered to."""

_MARSHAL = 2
"""The version of Python's format whose bytes follow from values alone: later ones say too which of
them are one object."""


@record
class GraphDigest:
    """What names a function's program, beside the settings in force.

    Attributes:
        captured: the function.
        data: the digest; empty if the program is neither stored nor looked for.
    """

    captured: CapturedFunction
    data: bytes

    @staticmethod
    def of(captured: CapturedFunction, binding: Binding) -> GraphDigest:
        """Digest a function's graph and its binding."""
        stamp = sources_stamp(SOURCES) if stored.is_used() else ""
        if not stamp or _constant_bytes(captured) > stored.MOST_CONSTANT_BYTES:
            return GraphDigest(captured, b"")
        try:
            data = marshal.dumps((stamp, _of_binding(binding), _whole(captured)), _MARSHAL)
        except ValueError:  # An attribute is of a type that is not listed here.
            return GraphDigest(captured, b"")
        return GraphDigest(captured, hashlib.sha256(data).digest())

    @property
    def name(self) -> str:
        """The program's name under the settings in force; empty if it has none."""
        if not self.data:
            return ""
        return stored.name_of(self.data, TargetSpec.host(), current_xla_flags())


def _constant_bytes(captured: CapturedFunction) -> int:
    """Return the bytes of the arrays in a function and those that it calls."""
    return sum(
        value.nbytes
        for function in (captured, *captured.library.values())
        for node in function.nodes
        for value in node.attributes.values()
        if isinstance(value, np.ndarray)
    )


def _of_binding(binding: Binding) -> tuple[Any, ...]:
    """Return a binding as plain values."""
    return (
        tuple([(item.input, item.is_lengths) for item in binding.parameters]),
        tuple(
            [
                (item.output, item.variable, item.is_length, item.of_lists)
                for item in binding.results
            ]
        ),
        binding.handed_on,
        binding.has_effects,
    )


class _Names:
    """The functions that a graph calls, in the order in which they are found, and their numbers."""

    def __init__(self, captured: CapturedFunction) -> None:
        self.functions = [captured]
        self._numbers = {captured.name: 0}
        self._library = captured.library

    def number(self, name: str) -> int:
        """Return the number of a function, which is found now if it is new."""
        found = self._numbers.setdefault(name, len(self._numbers))
        if found == len(self.functions):
            self.functions.append(self._library[name])
        return found


def _whole(captured: CapturedFunction) -> tuple[Any, ...]:
    """Return a function and those that it calls as plain values."""
    names, made = _Names(captured), list[tuple[Any, ...]]()
    while len(made) < len(names.functions):
        made.append(_of_function(names.functions[len(made)], names))
    return tuple(made)


def _of_function(function: CapturedFunction, names: _Names) -> tuple[Any, ...]:
    return (
        function.name.rstrip("0123456789"),
        tuple(map(_of_input, function.inputs)),
        tuple([_of_node(node, names) for node in function.nodes]),
        tuple(map(tuple, function.outputs)),
        tuple(map(_of_type, function.output_types)),
        tuple(map(_of_type, function.output_handles)),
        tuple(sorted(function.control_outputs)),  # TensorFlow has them in a set
        tuple(sorted(function.lists_of_lists)),
        function.shown,
    )


def _of_input(item: CapturedInput) -> tuple[Any, ...]:
    types = (_of_type(item.type), _of_type(item.handle))
    return (item.name, *types, item.of_lists, item.is_shaped)


def _of_type(item: TensorType | None) -> tuple[Any, ...] | None:
    return None if item is None else (item.dtype, item.shape)


def _of_node(node: CapturedNode, names: _Names) -> tuple[Any, ...]:
    location = node.location
    return (
        node.name,
        node.op,
        tuple(map(tuple, node.inputs)),
        tuple(sorted(node.control_inputs)),
        tuple(
            [(key, _of_attribute(node.attributes[key], names)) for key in sorted(node.attributes)]
        ),
        tuple(map(_of_type, node.outputs)),
        None if location is None else (location.file, location.line),
    )


def _of_attribute(value: Any, names: _Names) -> Any:
    """Return an attribute as plain values."""
    if isinstance(value, tuple):
        return tuple([_of_value(item, names) for item in cast("tuple[Any, ...]", value)])
    return _of_value(value, names)


def _of_value(value: Any, names: _Names) -> Any:
    """Return an attribute that is no list as plain values; its kind is a part of them."""
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, np.dtype[Any]]", value)
        data = tuple(array.ravel().tolist()) if array.dtype.hasobject else array.tobytes()
        return ("array", array.dtype.name, array.shape, data)
    if isinstance(value, TypeName):
        return ("type", value.name)
    if isinstance(value, FunctionRef):
        return ("function", names.number(value.name))
    if isinstance(value, PartialShape):
        return ("shape", value.shape)
    return value
