# SPDX-License-Identifier: Apache-2.0
"""Registers the LAPACK targets: `lapack_spotrf_ffi` and so on, for four element types each.

`register_lapack` fills the registry from the table; SciPy is imported by the first call that is
linked. The code of a call knows ranks and attributes and asks the frame for sizes, so it is made
once in a process, for all programs, and its object is cached on disk. Invariant: a call whose
operands, results or attributes do not fit the table is compiled, and fails when it runs, as in XLA:
a program may hold one that it never runs.
"""

from __future__ import annotations

from functools import cache, partial

from ingot.hlo.dim import Dim
from ingot.hlo.shape import Shape
from ingot.runtime.foreign.attributes import Attribute, parse_attributes
from ingot.runtime.foreign.evaluate import evaluator_of
from ingot.runtime.foreign.lapack.adapter import emit_adapter, result_names
from ingot.runtime.foreign.lapack.library import function_address
from ingot.runtime.foreign.lapack.one_thread import thread_imports
from ingot.runtime.foreign.lapack.routines import ROUTINES, Routine
from ingot.runtime.foreign.lapack.shapes import shape_misfit
from ingot.runtime.foreign.site import failing_call, linked_library
from ingot.semantics import custom_calls
from ingot.semantics.custom_calls import CallSite, LinkedCall, Target

ELEMENT_TYPES = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}
"""LAPACK's letter -> element type."""
_SOURCES = ("support", "llvm", "native", "hlo", "runtime")
"""The packages that make the code of a call."""
_SIZE = Dim.symbol("size")
"""The size of every dimension, since a call's code does not depend on sizes."""


def target_name(routine: str, element: str) -> str:
    """Return the target of a real routine's name for an element type.

    Example:
        >>> target_name("syevd", "c64")
        'lapack_cheevd_ffi'
    """
    row = next(row for row in ROUTINES if row.name == routine)
    letter = next(letter for letter, name in ELEMENT_TYPES.items() if name == element)
    return f"lapack_{_function(row, letter)}_ffi"


def register_lapack() -> None:
    """Register every LAPACK target."""
    for row in ROUTINES:
        for letter in ELEMENT_TYPES:
            link = partial(_link, row, letter)
            name = f"lapack_{_function(row, letter)}_ffi"
            custom_calls.register(Target(name, evaluator_of(link), link))


def _function(row: Routine, letter: str) -> str:
    return letter + (row.complex_name if letter in "cz" and row.complex_name else row.name)


def _link(row: Routine, letter: str, call: CallSite) -> LinkedCall:
    """Return the adapter of one call site."""
    attributes = parse_attributes(call.config)
    why = _misfit(row, letter, call, attributes)
    if why:
        return failing_call(why)
    divided = attributes.get(custom_calls.WHOLE_BATCH)
    is_divided = divided is not None and divided.type == "i64"
    read = _attributes_of(row) | ({custom_calls.WHOLE_BATCH} if is_divided else set[str]())
    return _adapter(
        row.name,
        letter,
        tuple(map(_of_any_size, call.operands)),
        tuple(map(_of_any_size, call.results)),
        tuple((name, attributes[name]) for name in sorted(read & attributes.keys())),
    )


def _attributes_of(row: Routine) -> set[str]:
    """Return the attributes that a routine's code depends on."""
    words = f"{row.arguments} {row.complex_arguments}".split()
    return {word[1:].partition(":")[0] for word in words if word[0] in "@!#"}


def _of_any_size(shape: Shape) -> Shape:
    return Shape.array(shape.dtype, (_SIZE,) * shape.rank)


@cache
def _adapter(
    name: str,
    letter: str,
    operands: tuple[Shape, ...],
    results: tuple[Shape, ...],
    attributes: tuple[tuple[str, Attribute], ...],
) -> LinkedCall:
    """Emit and link the adapter of all calls of such operands, results and attributes."""
    row = next(row for row in ROUTINES if row.name == name)
    function = _function(row, letter)
    call = CallSite(function, operands, results)
    threads = thread_imports()
    kind = f"{function} {operands} {results} {attributes} {sorted(threads)}"
    imports = {function: function_address(function, is_blas=row.is_blas), **threads}
    return linked_library(
        kind, _SOURCES, lambda: emit_adapter(call, row, function, dict(attributes)), imports
    )


def _misfit(row: Routine, letter: str, call: CallSite, attributes: dict[str, Attribute]) -> str:
    """Return how a call does not fit the table; empty if it fits."""
    element = ELEMENT_TYPES[letter]
    operands, results = row.operands.split(), result_names(row, letter in "cz")
    counts = (len(operands), len(results))
    if (len(call.operands), len(call.results)) != counts:
        return f"it takes {counts[0]} operands and gives {counts[1]} results"
    main = call.operands[operands.index(row.matrix)]
    if main.dtype.name != element or main.rank < 2:
        return f"operand '{row.matrix}' must be matrices of {element}, not {main}"
    for name in sorted(_attributes_of(row) - attributes.keys()):
        return f"its backend_config must have the attribute '{name}'"
    for name, character in row.refuses.items():
        if chr(attributes[name].value) == character:
            return f"'{name}' = '{character}' is not offered by XLA or by Ingot"
    return shape_misfit(row, call, results, attributes)
