# SPDX-License-Identifier: Apache-2.0
"""Compares the results of two platforms as XLA's run_hlo_module does, and shows the differences.

An element mismatches when its absolute error is over `--abs-error-bound` and its relative error is
over `--rel-error-bound`; NaN equals NaN; integers and preds must be equal.

Source: xla/literal_comparison.cc (NearComparator).
"""

from __future__ import annotations

import numpy as np
from rich.table import Table

from ingot.hlo.dtype import from_numpy
from ingot.hlo.literal import Array
from ingot.support.records import record

SHOWN = 5
"""Elements of an output that are shown when they differ."""


@record
class Bounds:
    """The allowed errors."""

    absolute: float
    relative: float


@record
class Element:
    """One element that differs."""

    index: tuple[int, ...]
    got: str
    want: str
    absolute: float
    relative: float


@record
class Comparison:
    """The comparison of one output with the reference's.

    Attributes:
        output: number of the output's leaf.
        shape: its shape, as text.
        mismatches: elements over the bounds.
        size: all elements.
        worst: greatest absolute and relative error of all elements.
        first: the first elements that mismatch.
        problem: why elements cannot be compared; "" if they can.
    """

    output: int
    shape: str
    mismatches: int = 0
    size: int = 0
    worst: tuple[float, float] = (0.0, 0.0)
    first: tuple[Element, ...] = ()
    problem: str = ""

    @property
    def agrees(self) -> bool:
        """Whether nothing mismatches."""
        return not self.mismatches and not self.problem

    def __str__(self) -> str:
        if self.problem:
            return self.problem
        first = self.first[0] if self.first else None
        where = f": {list(first.index)} is {first.got}, not {first.want}" if first else ""
        return f"{self.mismatches} of {self.size} elements{where}"


def compare(output: int, got: Array, want: Array, bounds: Bounds) -> Comparison:
    """Return the comparison of one output."""
    shape = _shape_text(got)
    if got.dtype != want.dtype or got.shape != want.shape:
        return Comparison(output, shape, problem=f"the reference gives {_shape_text(want)}")
    kind = from_numpy(want.dtype)
    wide = np.complex128 if kind.is_complex else np.float64 if kind.is_float else want.dtype
    mine, other = got.astype(wide), want.astype(wide)
    with np.errstate(all="ignore"):
        if kind.is_float or kind.is_complex:
            same = (mine == other) | (np.isnan(mine) & np.isnan(other))
            absolute = np.where(same, 0.0, np.abs(mine - other))
            relative = np.where(same, 0.0, absolute / np.abs(other))
            bad = ~same & ~((absolute <= bounds.absolute) | (relative <= bounds.relative))
        else:
            bad = np.asarray(mine != other)
            absolute = np.abs(mine.astype(np.float64) - other.astype(np.float64))
            relative = absolute / np.abs(other.astype(np.float64))
            relative = np.where(bad, relative, 0.0)
    indices = [tuple(int(n) for n in index) for index in np.argwhere(bad)[:SHOWN]]
    first = tuple(
        Element(i, str(got[i]), str(want[i]), float(absolute[i]), float(relative[i]))
        for i in indices
    )
    worst = (_greatest(absolute), _greatest(relative))
    return Comparison(output, shape, int(bad.sum()), int(bad.size), worst, first)


def difference_table(title: str, comparisons: list[Comparison]) -> Table:
    """Return the table of the outputs that differ, with their first elements."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in ("output", "shape", "mismatches", "index", "got", "want", "abs error",
                   "rel error"):  # fmt: skip
        table.add_column(column, no_wrap=True)
    for found in comparisons:
        if found.agrees:
            continue
        head = (str(found.output), found.shape, f"{found.mismatches} of {found.size}")
        if found.problem:
            table.add_row(*head[:2], found.problem)
        for number, element in enumerate(found.first):
            table.add_row(
                *(head if number == 0 else ("", "", "")),
                ",".join(map(str, element.index)) or "-",
                element.got,
                element.want,
                f"{element.absolute:.3g}",
                f"{element.relative:.3g}",
            )
    return table


def _greatest(errors: Array) -> float:
    return float(np.nanmax(errors)) if errors.size and not np.isnan(errors).all() else 0.0


def _shape_text(value: Array) -> str:
    return f"{from_numpy(value.dtype).name}[{','.join(map(str, value.shape))}]"
