# SPDX-License-Identifier: Apache-2.0
"""Runs: where the elements of a value come from that ops only move.

Slices, concatenates, pads and reversals compute nothing. A value that they make of other values is
a sequence of runs along a dimension: indices of one value with a constant step, or a fill value.

Invariant: the sizes of the runs of a value add up to its size along the dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from ingot.hlo.dim import ceil_div, round_up
from ingot.hlo.instruction import Instruction
from ingot.support.records import record, replace

MAX_NESTING = 16
"""Ops between a value and its sources."""
MAX_RUNS = 64
"""Of one value: one that has more is a source itself."""


@record
class Run:
    """Neighbouring slices of a result, along a dimension, that come from one source.

    Attributes:
        source: the value that they are of; a scalar is the value of all elements.
        begin: the index in the source of the first one.
        step: from one index in the source to the next; it may be negative.
        size: their number.
    """

    source: Instruction
    begin: int
    step: int
    size: int

    @property
    def bounds(self) -> tuple[int, int, int]:
        """`begin`, `step` and `size`."""
        return self.begin, self.step, self.size

    @property
    def is_fill(self) -> bool:
        """Whether all elements have one value."""
        return self.source.shape.rank == 0

    def part(self, first: int, step: int, size: int) -> Run:
        """Return every `step`-th slice from number `first` on, `size` in all."""
        return Run(self.source, self.begin + self.step * first, self.step * step, size)


Runs = tuple[Run, ...]


def runs_of(value: Instruction, axis: int, sources: Container[Instruction]) -> Runs:
    """Return the runs of `value` along dimension `axis`.

    Args:
        value: an array of static dimensions.
        axis: the dimension.
        sources: values that are not looked into.
    """
    return _Reader(axis, sources).read(value, MAX_NESTING)


def is_movement(value: Instruction) -> bool:
    """Whether an op only moves elements of its operands, all of static shapes."""
    return value.opcode in _MOVEMENTS and value.is_static


def moved_axes(value: Instruction) -> tuple[int, ...]:
    """Return the dimensions along which an op moves elements, if it is such an op."""
    if not is_movement(value):
        return ()
    changes = _CHANGES[value.opcode]
    return tuple(axis for axis in range(value.shape.rank) if changes(value, axis))


def is_box(value: Instruction) -> bool:
    """Whether an op takes a box out of its operand, or puts one around it."""
    is_box = value.opcode == "slice" or value.opcode == "pad"
    return is_box and is_movement(value)


def is_link(value: Instruction) -> bool:
    """Whether all users of a value only move elements along the one dimension that it does."""
    axes = moved_axes(value)
    return len(axes) == 1 and bool(value.users) and all(moved_axes(u) == axes for u in value.users)


class _Reader:
    """Finds the runs of values along one dimension, of each value once."""

    def __init__(self, axis: int, sources: Container[Instruction]) -> None:
        self.axis = axis
        self.sources = sources
        self._found: dict[Instruction, Runs] = {}

    def read(self, value: Instruction, depth: int) -> Runs:
        """Return the runs of a value, at most `depth` ops away from its sources."""
        if value not in self._found:
            self._found[value] = self._read(value, depth)
        return self._found[value]

    def _read(self, value: Instruction, depth: int) -> Runs:
        size = value.shape.static_dims[self.axis]
        if value.opcode == "broadcast" and value.operands[0].shape.rank == 0:
            return (Run(value.operands[0], 0, 0, size),)
        if value not in self.sources and is_movement(value) and depth:
            arrays = (operand for operand in value.operands if operand.shape.rank)
            inner = [self.read(array, depth - 1) for array in arrays]
            found = _MOVEMENTS[value.opcode](value, self.axis, inner)
            if found is not None and len(found) <= MAX_RUNS:
                return tuple(run for run in found if run.size)
        return (Run(value, 0, 1, size),)


def cut(runs: Iterable[Run], begin: int, limit: int, step: int = 1) -> Runs:
    """Return every `step`-th slice of some runs from number `begin` to `limit`."""
    found: list[Run] = []
    at = 0
    for run in runs:
        first = max(begin, begin + round_up(at - begin, step))
        last = min(limit, at + run.size)
        if first < last:
            found.append(run.part(first - at, step, ceil_div(last - first, step)))
        at += run.size
    return tuple(found)


def _sliced(value: Instruction, axis: int, inner: list[Runs]) -> Runs | None:
    box = list(zip(value.attributes.slice, value.operands[0].shape.static_dims, strict=True))
    (begin, limit, step), _ = box.pop(axis)
    is_along = all(bounds == (0, size, 1) for bounds, size in box)
    return cut(inner[0], begin, limit, step) if is_along else None


def _concatenated(value: Instruction, axis: int, inner: list[Runs]) -> Runs | None:
    is_along = value.attributes.dimensions == (axis,)
    return tuple(run for runs in inner for run in runs) if is_along else None


def _padded(value: Instruction, axis: int, inner: list[Runs]) -> Runs | None:
    others = list(value.attributes.padding)
    low, high, interior = others.pop(axis)
    if interior or any(other != (0, 0, 0) for other in others):
        return None
    operand, fill = value.operands
    kept = cut(inner[0], max(-low, 0), operand.shape.static_dims[axis] - max(-high, 0))
    border = Run(fill, 0, 0, 0)
    return (replace(border, size=max(low, 0)), *kept, replace(border, size=max(high, 0)))


def _reversed(value: Instruction, axis: int, inner: list[Runs]) -> Runs | None:
    if value.attributes.dimensions != (axis,):
        return None
    return tuple(run.part(run.size - 1, -1, run.size) for run in reversed(inner[0]))


_MOVEMENTS: dict[str, Callable[[Instruction, int, list[Runs]], Runs | None]] = {
    "concatenate": _concatenated,
    "pad": _padded,
    "reverse": _reversed,
    "slice": _sliced,
}


def _is_cut(value: Instruction, axis: int) -> bool:
    size = value.operands[0].shape.static_dims[axis]
    return value.attributes.slice[axis] != (0, size, 1)


_CHANGES: dict[str, Callable[[Instruction, int], bool]] = {
    "concatenate": lambda value, axis: axis in value.attributes.dimensions,
    "pad": lambda value, axis: value.attributes.padding[axis] != (0, 0, 0),
    "reverse": lambda value, axis: axis in value.attributes.dimensions,
    "slice": _is_cut,
}
