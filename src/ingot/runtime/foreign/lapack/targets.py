"""Registers the LAPACK targets: `lapack_spotrf_ffi` and so on, for four element types each.

`register_lapack` fills the registry from the table; SciPy is imported by the first call that is
linked. Invariant: a call whose operands, results or attributes do not fit the table is compiled,
and refused when it runs: so does XLA, and a program may hold one that it never runs.
"""

from __future__ import annotations

from functools import partial

from ingot.hlo import custom_calls
from ingot.hlo.custom_calls import CallSite, LinkedCall, Target
from ingot.runtime.foreign.attributes import Attribute, parse_attributes
from ingot.runtime.foreign.evaluate import evaluator_of
from ingot.runtime.foreign.lapack.adapter import emit_adapter, result_names
from ingot.runtime.foreign.lapack.library import function_address
from ingot.runtime.foreign.lapack.routines import ROUTINES, Routine
from ingot.runtime.foreign.site import failing_call, linked_code

ELEMENT_TYPES = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}
"""LAPACK's letter -> element type."""


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
    """Emit and link the adapter of one call site."""
    attributes = parse_attributes(call.config)
    why = _misfit(row, letter, call, attributes)
    if why:
        return failing_call(why)
    function = _function(row, letter)
    text = emit_adapter(call, row, function, attributes)
    imports = {function: function_address(function, is_blas=row.is_blas)}
    return linked_code(text, imports)


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
    for word in row.arguments.split():
        name = word[1:].partition(":")[0]
        if word[0] in "@!#" and name not in attributes:
            return f"its backend_config must have the attribute '{name}'"
    for name, character in row.refuses.items():
        if chr(attributes[name].value) == character:
            return f"'{name}' = '{character}' is not offered by XLA or by Ingot"
    return ""
