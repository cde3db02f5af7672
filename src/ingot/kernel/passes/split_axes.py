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

from collections.abc import Callable, Iterator, Mapping

from ingot.hlo import dim
from ingot.hlo.dim import Atom, Dim
from ingot.kernel.expr import walk
from ingot.kernel.index_math import Extents, coefficient, dim_of, divide
from ingot.kernel.ir import Axis, LoopKernel
from ingot.kernel.passes.collapse import collapse, indices_of
from ingot.kernel.rewrite import AxisSubstitution

MOST_AXES = 8
"""Axes of a grid up to which it is split further."""

LEAST_ROW, LONG_ROW = 16, 32
"""Positions of a row that fill the lanes of every target, and those that do so twice.

One multiplication by elements in another order took 0.1 of the time for patches of 16x16x3, 0.1 to
0.15 for pairs in 8, 12 or 3 heads of 32 to 128, 0.1 to 0.4 for rows padded or put end to end, and
for flat stacks of 3, 5, 7 and 12; repeated pixels of 16 channels, cut into rows of 16, took 1.2
(AMD EPYC with AVX2, one thread, 2026-11-29)."""


def split_axes(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with axes of its grid split where lanes along them would be gathered.

    The offsets of lanes are known where an index has the quotient and the remainder of a row
    (`lane_offsets`), but not for nested ones, such as `mod(floordiv(@0,2),32)`: axes are split into
    rows of LEAST_ROW or more. If elements are chosen by their position in rows, and a vector does
    not hold a whole number of rows (stacks of three), all divisions are split.
    """
    if kernel.serial or any(item.axes or item.reductions for item in kernel.passes):
        return kernel
    least = 2 if _chooses_in_odd_rows(kernel) else LONG_ROW if _is_nested(kernel) else 0
    if not least:
        return kernel
    made = _split(kernel, least, min)
    if next(_divisions(made), None) is None:
        return collapse(made)
    made = _split(kernel, LEAST_ROW, max)
    lengths = {atom.right for atom in _divisions(made)}
    is_known = len(lengths) == 1 or all(map(_is_power_of_two, lengths))
    return collapse(made) if is_known and not _is_nested(made) else kernel


def split_into_rows(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with its grid split wherever indices take it apart; itself if they don't.

    Nothing is divided then, or the kernel is left as it is.
    """
    made = _split(kernel, 2, min)
    return kernel if made is kernel else collapse(made)


def _chooses_in_odd_rows(kernel: LoopKernel) -> bool:
    """Whether positions are compared in rows whose length is not a power of two."""
    compared = [
        side.payload
        for node in walk(kernel.exprs)
        if node.op == "compare"
        for side in node.args
        if side.op == "index" and isinstance(side.payload, Dim)
    ]
    lengths = [atom.right for index in compared for key, _ in index.terms for atom in key]
    return not all(map(_is_power_of_two, lengths))


def _is_power_of_two(length: int | Dim) -> bool:
    return isinstance(length, int) and length.bit_count() == 1


def _is_nested(kernel: LoopKernel) -> bool:
    """Whether a quotient or remainder is one of another."""
    lefts = [atom.left for atom in _divisions(kernel) if isinstance(atom.left, Dim)]
    return any(part.function for left in lefts for key, _ in left.terms for part in key)


def _split(kernel: LoopKernel, least: int, choose: Callable[[list[int]], int]) -> LoopKernel:
    """Return the kernel with axes split into parts of `least` positions or more.

    `choose` is `min`, so that the shortest are next to each other and nothing is divided, or `max`,
    for the longest rows without nested divisions.
    """
    while len(kernel.grid) < MOST_AXES and (choose is min or _is_nested(kernel)):
        cuts = {part: axis for axis in kernel.grid for part in _parts(kernel, axis, least)}
        if not cuts:
            break
        part = choose(list(cuts))
        kernel = _Splitter(kernel, cuts[part], part).kernel(kernel)
    return kernel


def _parts(kernel: LoopKernel, axis: Axis, least: int) -> list[int]:
    """Return the lengths of the parts that indices cut an axis into."""
    extent = axis.extent
    if not isinstance(extent, int):
        return []
    found = {_part(atom, axis.name) for atom in _divisions(kernel)}
    return [part for part in found if least <= part < extent and extent % part == 0]


def _part(atom: Atom, name: str) -> int:
    """Return the steps of an axis after which a quotient grows by 1; 0: that is not known."""
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
        inner = f"@{len(kernel.axes)}"
        values = {axis.name: Dim.symbol(axis.name) * part + Dim.symbol(inner)}
        super().__init__(values)
        self.axis = axis
        self.two = (Axis(axis.name, axis.known_extent // part), Axis(inner, part))
        self.extents = {each.name: each.extent for each in (*kernel.axes, *self.two)}

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
    return _joined(total)


def _joined(index: int | Dim) -> int | Dim:
    """Return an index with `d*floordiv(x,d) + mod(x,d)` as x."""
    while (change := _joint(index)) is not None:
        index = index + change
    return index


def _joint(index: int | Dim) -> int | Dim | None:
    """Return a term that makes the first `d*floordiv(x,d) + mod(x,d)` x; None if there is none."""
    if isinstance(index, int):
        return None
    single = {dim_of(key[0]): factor for key, factor in index.terms if len(key) == 1}
    for key, factor in index.terms:
        rest = key[0] if len(key) == 1 and key[0].function == "mod" else None
        if rest is None or not isinstance(rest.right, int):
            continue
        quotient = dim.floordiv(rest.left, rest.right)
        if single.get(quotient) == factor * rest.right:
            return (rest.left - (quotient * rest.right + dim_of(rest))) * factor
    return None


def _resolved_atom(atom: Atom, values: Mapping[str, int | Dim], extents: Extents) -> int | Dim:
    if not atom.function:
        return values.get(atom.text, Dim.symbol(atom.text))
    left = resolved(atom.left, values, extents)
    whole, part = _apart(left, atom.right)
    is_known = isinstance(part, int) or dim.never_negative(left)
    if atom.function not in ("floordiv", "mod") or not is_known:
        return dim.substitute(dim_of(atom), values)
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
