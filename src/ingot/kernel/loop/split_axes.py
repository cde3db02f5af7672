# SPDX-License-Identifier: Apache-2.0
"""Axes of the grid that indices take apart become several: the inverse of `collapse`.

A reshape that makes one dimension of several, or cuts it elsewhere, leaves quotients and remainders
of its axis in the kernel: `x.reshape(n, 3)` is read at `3*floordiv(@0,3) + mod(@0,3)`. With an axis
for the quotient and one for the remainder each index walks its axes with constant steps.

Example:
    >>> i = Dim.symbol("@0")
    >>> resolved(dim.floordiv(i, 3), {"@0": 3 * i + Dim.symbol("@1")}, {"@0": 64, "@1": 3})
    Dim(@0)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ingot.hlo import dim
from ingot.hlo.dim import Atom, Dim
from ingot.kernel.index_math import Extents, coefficient, dim_of, divide
from ingot.kernel.ir import Axis, LoopKernel
from ingot.kernel.loop.collapse import indices_of
from ingot.kernel.rewrite import AxisSubstitution
from ingot.support.records import replace

MOST_AXES = 8
"""Axes of a grid up to which it is split further."""

LEAST_ROW = 16
"""Positions of a row that fill the lanes of every target."""


def split_axes(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with axes of its grid split, so that no index takes one apart.

    It stays as it is where some index would still do so.
    """
    made = _split(kernel, 1)
    return kernel if any(True for _ in _divisions(made)) else made


def split_nested(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with axes split into rows of LEAST_ROW or more, where divisions are nested.

    Of what is left, the quotients and remainders of a short part of a row, lanes know their places;
    of nested ones, as `mod(floordiv(@0,2),32)`, they do not.
    """
    if kernel.serial or any(item.axes or item.reductions for item in kernel.passes):
        return kernel
    if not any(_is_nested(atom) for atom in _divisions(kernel)):
        return kernel
    made = _split(kernel, LEAST_ROW)
    return kernel if any(_is_nested(atom) for atom in _divisions(made)) else made


def _split(kernel: LoopKernel, least: int) -> LoopKernel:
    """Return the kernel with axes split into parts of `least` positions or more."""
    while len(kernel.grid) < MOST_AXES:
        cut = next(filter(None, (_cut(kernel, axis, least) for axis in kernel.grid)), None)
        if cut is None:
            break
        kernel = _Splitter(kernel, *cut).kernel(kernel)
    return kernel


def _is_nested(atom: Atom) -> bool:
    """Whether what a quotient or remainder is of has some itself."""
    left = atom.left
    return isinstance(left, Dim) and any(part.function for key, _ in left.terms for part in key)


def _cut(kernel: LoopKernel, axis: Axis, least: int) -> tuple[Axis, int] | None:
    """Return an axis with the extent of its inner part: the shortest that an index asks for."""
    if not isinstance(axis.extent, int):
        return None
    parts = [
        part
        for atom in _divisions(kernel)
        if (part := _part(atom, axis.name)) >= least
        and part > 1
        and axis.extent % part == 0
        and part < axis.extent
    ]
    return (axis, min(parts)) if parts else None


def _part(atom: Atom, name: str) -> int:
    """Return after how many steps of an axis a quotient grows by 1; 0: that is not known."""
    step, divisor = coefficient(atom.left, name), atom.right
    left = atom.left if isinstance(atom.left, Dim) else None
    inner = left.terms[0][0][0] if left is not None and len(left.terms) == 1 else None
    if inner is not None and inner.function == "floordiv" and left == dim_of(inner):
        # A position of a quotient is as many of the axis.
        step, divisor = coefficient(inner.left, name), dim.product([divisor, inner.right])
    if not isinstance(step, int) or step <= 0 or not isinstance(divisor, int):
        return 0
    parts, rest = divmod(divisor, step)
    return parts if rest == 0 and parts > 1 else 0


def _divisions(kernel: LoopKernel) -> Iterator[Atom]:
    """Return the quotients and remainders in indices of a kernel that axes of its grid are in."""
    names = {axis.name for axis in kernel.grid}
    pending = indices_of(kernel)
    while pending:
        index = pending.pop()
        if isinstance(index, int):
            continue
        for atom in (atom for key, _ in index.terms for atom in key if atom.function):
            if not names.isdisjoint(dim.symbols_of((atom.left, atom.right))):
                yield atom
                pending.append(atom.left)


class _Splitter(AxisSubstitution):
    """Puts two axes in place of one of the grid, the inner one of a known extent."""

    def __init__(self, kernel: LoopKernel, axis: Axis, part: int) -> None:
        assert isinstance(axis.extent, int), "axes of known extents are split"
        every = [*kernel.grid, *(each for item in kernel.passes for each in item.axes)]
        inner = f"@{len(every)}"
        values = {axis.name: Dim.symbol(axis.name) * part + Dim.symbol(inner)}
        super().__init__(values)
        self.axis = axis
        self.two = (Axis(axis.name, axis.extent // part), Axis(inner, part))
        self.extents = {each.name: each.extent for each in (*every, *self.two)}

    def index(self, where: int | Dim) -> int | Dim:
        """Return an index with both axes in place of the one."""
        return resolved(where, self.values, self.extents)

    def position(self, value: int | Dim) -> int | Dim:
        """Return an index that is used as a value, likewise."""
        return resolved(value, self.values, self.extents)

    def axes(self, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        """Return the axes with both in place of the one."""
        return tuple(each for one in axes for each in (self.two if one == self.axis else (one,)))


def resolved(where: int | Dim, values: Mapping[str, int | Dim], extents: Extents) -> int | Dim:
    """Return an index with axes substituted, divided as far as their extents are known to allow."""
    if isinstance(where, int):
        return where
    total: int | Dim = 0
    for key, factor in where.terms:
        term: int | Dim = factor
        for atom in key:
            term = term * _resolved_atom(atom, values, extents)
        total = total + term
    return total


def _resolved_atom(atom: Atom, values: Mapping[str, int | Dim], extents: Extents) -> int | Dim:
    if not atom.function:
        return values.get(atom.text, Dim.symbol(atom.text))
    left = resolved(atom.left, values, extents)
    if atom.function not in ("floordiv", "mod") or not dim.never_negative(left):
        return dim.substitute(dim_of(atom), values)
    whole, part = _apart(left, atom.right)
    quotient, rest = divide(part, atom.right, extents)
    return whole + quotient if atom.function == "floordiv" else rest


def _apart(left: int | Dim, divisor: int | Dim) -> tuple[int | Dim, int | Dim]:
    """Return the quotient of the terms that a divisor divides, and the other terms."""
    if isinstance(left, int):
        return 0, left
    whole: int | Dim = 0
    for key, factor in left.terms:
        term = dim.product([factor, *map(dim_of, key)])
        whole = whole + (dim.exact_quotient(term, divisor) or 0)
    return whole, left - whole * divisor
