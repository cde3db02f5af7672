# SPDX-License-Identifier: Apache-2.0
"""Checks of the arrays of a LAPACK call: LAPACK trusts its caller.

A call site's static sizes are checked before it is linked; the program derives symbolic sizes from
each other, so they agree. An array must have the routine's element type, and for each matrix of the
batch at least as many elements as the routine reads or writes.

Source: jaxlib/cpu/lapack_kernels.cc (CheckMatrixDimensions, CheckShape).
"""

from __future__ import annotations

import math

from ingot.hlo.shape import Shape
from ingot.runtime.foreign.attributes import Attribute
from ingot.runtime.foreign.lapack.routines import Routine
from ingot.semantics.custom_calls import CallSite

_SQUARE = frozenset({"potrf", "syevd", "geev", "gees", "gehrd", "sytrd"})
_REAL = {"c64": "f32", "c128": "f64"}
_COMPLEX = {"f32": "c64", "f64": "c128"}

# Array -> its type (`x` the matrices' own, `r` its real one, `c` its complex one) and elements of
# each matrix; a routine's own rows come first.
_NEEDS = {
    "info": ("s32", "1"), "selected": ("s32", "1"), "ipiv": ("s32", "k"), "jpvt": ("s32", "n"),
    "tau": ("x", "k"), "s": ("r", "k"), "wr": ("r", "n"), "wi": ("r", "n"), "w": ("x", "n"),
    "vl": ("c", "n*n"), "vr": ("c", "n*n"), "vs": ("x", "n*n"),
    "d": ("x", "m"), "dl": ("x", "m"), "du": ("x", "m"), "e": ("r", "n-1"),
    "u": ("x", "m*k"), "vt": ("x", "k*n"), "scale": ("r", "1"),
}  # fmt: skip
_OWN_NEEDS = {
    ("gehrd", "tau"): ("x", "n-1"), ("sytrd", "tau"): ("x", "n-1"), ("sytrd", "d"): ("r", "n"),
    ("syevd", "w"): ("r", "n"), ("orgqr", "tau"): ("x", "0"), ("ormqr", "tau"): ("x", "0"),
    ("laswp", "ipiv"): ("s32", "0"),
}  # fmt: skip


def shape_misfit(
    row: Routine, call: CallSite, results: dict[str, str], attributes: dict[str, Attribute]
) -> str:
    """Return how an array of a call does not fit the routine; empty if all do.

    Args:
        row: the routine.
        call: the call site; it has as many operands and results as the routine.
        results: result -> the operand that it begins as, or an empty text.
        attributes: the attributes of the call.
    """
    operands = dict(zip(row.operands.split(), call.operands, strict=True))
    main = operands[row.matrix]
    given = list(zip(results, call.results, strict=True))
    if row.name in _SQUARE and main.dims[-1] != main.dims[-2]:
        return f"operand '{row.matrix}' must be square matrices, not {main}"
    for name, shape in given:
        source = results[name]
        if source and not shape.compatible(operands[source]):
            return f"result '{name}' must be {operands[source]}, not {shape}"
    for name, shape in (*operands.items(), *((n, s) for n, s in given if not results[n])):
        why = _array_misfit(row, name, shape, main, attributes)
        if why:
            return why
    return _side_misfit(row, operands, attributes)


def _array_misfit(
    row: Routine, name: str, shape: Shape, main: Shape, attributes: dict[str, Attribute]
) -> str:
    kind, elements = _OWN_NEEDS.get((row.name, name)) or _NEEDS.get(name, ("x", "0"))
    own = main.dtype.name
    wanted = {"x": own, "r": _REAL.get(own, own), "c": _COMPLEX.get(own, own)}.get(kind, kind)
    if shape.dtype.name != wanted:
        return f"'{name}' must be of {wanted}, not {shape}"
    batch = main.dims[:-2]
    if shape.dims[: len(batch)] != batch:
        return f"'{name}' must have the batch of {main}, not {shape}"
    if not (shape.is_static and main.is_static) or _is_unused(row, name, attributes):
        return ""
    needed = _count(elements, main)
    mode = attributes.get("mode")
    if name in ("u", "vt") and mode is not None and chr(mode.value) == "A":
        needed = main.static_dims[-2 if name == "u" else -1] ** 2
    have = math.prod(shape.static_dims[len(batch) :])
    return (
        f"'{name}' must have {needed} elements for each matrix, not {shape}"
        if have < needed
        else ""
    )


def _is_unused(row: Routine, name: str, attributes: dict[str, Attribute]) -> bool:
    attribute = attributes.get(row.unused.get(name, ""))
    return attribute is not None and chr(attribute.value) == "N"


def _count(expression: str, main: Shape) -> int:
    """Return the value of a product of `m`, `n` and `k`, or of `n-1`."""
    m, n = main.static_dims[-2:]
    values = {"m": m, "n": n, "k": min(m, n), "n-1": max(n - 1, 0), "0": 0, "1": 1}
    return math.prod(values[part] for part in expression.split("*"))


def _side_misfit(row: Routine, operands: dict[str, Shape], attributes: dict[str, Attribute]) -> str:
    """Check the matrices that multiply another one from the left or right."""
    m, n = operands[row.matrix].dims[-2:]
    match row.name:
        case "trsm":
            size = m if chr(attributes["side"].value) == "L" else n
            wanted = {"x": (size, size)}
        case "ormqr":
            rows = m if attributes["left"].value else n
            wanted = {"a": (rows, operands["tau"].dims[-1])}
        case "trsyl":
            wanted = {"a": (m, m), "b": (n, n)}
        case _:
            return ""
    for name, (rows, columns) in wanted.items():
        given = operands[name]
        if given.rank < 2 or given.dims[-2:] != (rows, columns):
            return f"operand '{name}' must be matrices of {rows} x {columns}, not {given}"
    return ""
