"""Registers the LAPACK targets: `lapack_spotrf_ffi` and so on, for four element types each.

`register_lapack` fills the registry from the table; SciPy is imported by the first call that is
linked. Invariant: a call whose operands, results or attributes do not fit the table is refused when
it is linked, with the user's op and line.
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
from ingot.runtime.foreign.site import linked_code
from ingot.support.diagnostics import UnsupportedError

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
    _check(row, letter, call, attributes)
    function = _function(row, letter)
    text = emit_adapter(call, row, function, attributes)
    imports = {function: function_address(function, is_blas=row.is_blas)}
    return linked_code(text, imports)


def _check(row: Routine, letter: str, call: CallSite, attributes: dict[str, Attribute]) -> None:
    element = ELEMENT_TYPES[letter]
    operands, results = row.operands.split(), result_names(row, letter in "cz")
    counts = (len(operands), len(results))
    if (len(call.operands), len(call.results)) != counts:
        raise _refused(call, f"it takes {counts[0]} operands and gives {counts[1]} results")
    main = call.operands[operands.index(row.matrix)]
    if main.dtype.name != element or main.rank < 2:
        raise _refused(call, f"operand '{row.matrix}' must be matrices of {element}, not {main}")
    for word in row.arguments.split():
        name = word[1:].partition(":")[0]
        if word[0] in "@!#" and name not in attributes:
            raise _refused(call, f"its backend_config must have the attribute '{name}'")
    for name, character in row.refuses.items():
        if chr(attributes[name].value) == character:
            raise _refused(call, f"'{name}' = '{character}' is not offered by XLA or by Ingot")


def _refused(call: CallSite, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"custom call '{call.target}': {why}",
        code="INGOT0333",
        op_name=call.op_name,
        location=call.location,
    )
