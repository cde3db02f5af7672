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


def split_axes(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with axes of its grid split, so that no index takes one apart.

    It stays as it is where some index would still do so.
    """
    made = kernel
    while len(made.grid) < MOST_AXES:
        cut = next(filter(None, (_cut(made, axis) for axis in made.grid)), None)
        if cut is None:
            break
        made = _Splitter(made, *cut).kernel(made)
    return kernel if any(True for _ in _divisions(made)) else made


def _cut(kernel: LoopKernel, axis: Axis) -> tuple[Axis, int] | None:
    """Return an axis with the extent of its inner part: the shortest that an index asks for."""
    if not isinstance(axis.extent, int):
        return None
    parts = [
        part
        for atom in _divisions(kernel)
        if (part := _part(atom, axis.name)) and axis.extent % part == 0 and part < axis.extent
    ]
    return (axis, min(parts)) if parts else None


def _part(atom: Atom, name: str) -> int:
    """Return after how many steps of an axis a quotient grows by 1; 0: that is not known."""
    step = coefficient(atom.left, name)
    if not isinstance(step, int) or step <= 0 or not isinstance(atom.right, int):
        return 0
    parts, rest = divmod(atom.right, step)
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
    quotient, rest = divide(left, atom.right, extents)
    return quotient if atom.function == "floordiv" else rest
