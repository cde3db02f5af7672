# SPDX-License-Identifier: Apache-2.0
"""Index arithmetic: reshapes of indices, division with known ranges, strides.

Indices are `Dim` polynomials over axis names. Sizes may be symbolic; what cannot be decided stays
a floordiv or mod, never wrong.

Example:
    >>> i, j = Dim.symbol("@i"), Dim.symbol("@j")
    >>> str(reshape_index((i * 4 + j,), (12,), (3, 4), {"@i": 3, "@j": 4}))
    '(Dim(@i), Dim(@j))'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ingot.analysis.common_factors import common_factors
from ingot.hlo import dim
from ingot.hlo.dim import Dim, product

MIN_INDEX_BITS = 32
"""Bits of the narrowest integers that are taken for indices: narrower ones may wrap around."""

Index = tuple[int | Dim, ...]
Extents = Mapping[str, int | Dim]


def linearize(indices: Sequence[int | Dim], dims: Sequence[int | Dim]) -> int | Dim:
    """Return the row-major element number of `indices` in an array of `dims`."""
    total: int | Dim = 0
    for position, size in zip(indices, dims, strict=True):
        total = _put_together(total, position, size)
    return total


def _put_together(quotient: int | Dim, rest: int | Dim, divisor: int | Dim) -> int | Dim:
    """Return quotient * divisor + rest; of `floordiv(x, divisor)` and `mod(x, divisor)` that is x.

    Where x is `floordiv(y, step)`, the quotient has `floordiv(y, step * divisor)`.
    """
    below = _division(rest, "mod")
    if below is None or below[1] != divisor or isinstance(quotient, int):
        return quotient * divisor + rest
    for key, factor in quotient.terms:
        if factor != 1 or len(key) != 1 or key[0].function != "floordiv":
            continue
        step = dim.exact_quotient(key[0].right, divisor)
        if step is not None and dim.floordiv(key[0].left, step) == below[0]:
            return (quotient - dim_of(key[0])) * divisor + below[0]
    return quotient * divisor + rest


def _division(value: int | Dim, function: str) -> tuple[int | Dim, int | Dim] | None:
    """Return both operands of an index that is nothing but a division, else None."""
    if isinstance(value, int) or len(value.terms) != 1:
        return None
    (key, factor) = value.terms[0]
    if factor != 1 or len(key) != 1 or key[0].function != function:
        return None
    return key[0].left, key[0].right


def coefficient(value: int | Dim, name: str) -> int | Dim | None:
    """Return c where value = c*name + rest and rest is free of `name`; None when not linear."""
    if isinstance(value, int):
        return 0
    total: int | Dim = 0
    for key, factor in value.terms:
        if len(key) == 1 and not key[0].function:  # most terms
            if key[0].text == name:
                total = total + factor
            continue
        times = 0
        for atom in key:
            if not atom.function:
                times += atom.text == name
            elif name in dim.symbols_of((atom.left, atom.right)):
                return None
        if times > 1:
            return None
        if times:
            rest = [dim_of(atom) for atom in key if atom.function or atom.text != name]
            total = total + (product([factor, *rest]) if rest else factor)
    return total


def dim_of(atom: dim.Atom) -> int | Dim:
    """Return an atom as an expression."""
    if not atom.function:
        return Dim.symbol(atom.text)
    functions = {
        "floordiv": dim.floordiv, "mod": dim.mod, "max": dim.maximum, "min": dim.minimum,
    }  # fmt: skip
    return functions[atom.function](atom.left, atom.right)


def upper_bound(value: int | Dim, extents: Extents) -> int | None:
    """Return an upper bound of a non-negative index when one is known, else None."""
    if isinstance(value, int):
        return value
    total = 0
    for key, factor in value.terms:
        bound = factor
        for atom in key:
            most = _atom_bound(atom, extents)
            if most is None or factor < 0:
                return None
            bound *= most
        total += bound
    return total


def _atom_bound(atom: dim.Atom, extents: Extents) -> int | None:
    if not atom.function:
        extent = extents.get(atom.text)
        return extent - 1 if isinstance(extent, int) else None
    if atom.function == "mod" and isinstance(atom.right, int):
        return atom.right - 1
    if atom.function == "floordiv" and isinstance(atom.right, int):
        inner = upper_bound(atom.left, extents)
        return None if inner is None else inner // atom.right
    return None


def divide(value: int | Dim, divisor: int | Dim, extents: Extents) -> tuple[int | Dim, int | Dim]:
    """Return (value // divisor, value % divisor) of a non-negative index, simplified by ranges."""
    if divisor == 1:
        return value, 0
    exact: int | Dim = 0
    rest: int | Dim = 0
    for key, factor in dim._terms(value):  # pyright: ignore[reportPrivateUsage]
        if not key and isinstance(divisor, int) and divisor > 0:
            # The remainder is not negative, as the question below supposes.
            exact, rest = exact + factor // divisor, rest + factor % divisor
            continue
        term = product([factor, *(dim_of(atom) for atom in key)])
        quotient = dim.exact_quotient(term, divisor)
        if quotient is None:
            rest = rest + term
        else:
            exact = exact + quotient
    if _is_below(rest, divisor, extents):
        return exact, rest
    return dim.floordiv(value, divisor), dim.mod(value, divisor)


def _is_below(value: int | Dim, limit: int | Dim, extents: Extents) -> bool:
    """Whether 0 <= value < limit is known."""
    if isinstance(limit, int):
        bound = upper_bound(value, extents)
        return bound is not None and bound < limit
    if value == 0:
        return True
    # A single axis whose extent is the limit itself.
    return isinstance(value, Dim) and value.is_symbol and extents.get(value.text) == limit


def delinearize(value: int | Dim, dims: Sequence[int | Dim], extents: Extents) -> Index:
    """Return the indices of element number `value` in an array of `dims`.

    The first dimension of more than one element takes what is left: `value` lies in the array
    wherever there is an element.
    """
    found: list[int | Dim] = []
    for number, size in reversed(tuple(enumerate(dims))):
        rest: int | Dim = 0
        if size != 1:
            is_first = all(above == 1 for above in dims[:number])
            value, rest = (0, value) if is_first else divide(value, size, extents)
        found.append(rest)
    return tuple(reversed(found))


def reshape_index(
    indices: Sequence[int | Dim],
    dims: Sequence[int | Dim],
    to: Sequence[int | Dim],
    extents: Extents,
) -> Index:
    """Return where element `indices` of an array of `dims` lies when it is reshaped to `to`.

    Runs of dimensions whose products agree are treated apart, so that what a reshape leaves alone
    keeps its index.
    """
    result: list[int | Dim] = []
    for (from_start, from_end), (to_start, to_end) in common_factors(dims, to):
        part, sizes = indices[from_start:from_end], dims[from_start:from_end]
        target = to[to_start:to_end]
        if list(sizes) == list(target):
            result.extend(part)
        else:
            result.extend(delinearize(linearize(part, sizes), target, extents))
    return tuple(result)
