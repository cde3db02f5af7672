# SPDX-License-Identifier: Apache-2.0
"""Where lanes read: the offset of each lane's element from lane 0's, if it is known.

An index is a polynomial over axes, with divisions where a reshape cuts an axis: heads of attention
lie at `4096*floordiv(@2,32) + mod(@2,32)`. The first index of a vector is known up to a multiple,
so the offsets of its lanes often are constants: a few runs of neighbours, a fixed pattern among
neighbours (backwards, every second one), or a pattern of distant runs.

Invariant: with the axis at a multiple of `aligned`, index(lane) = index(lane 0) + offset(lane).

Example:
    >>> from ingot.hlo.dim import floordiv, mod
    >>> lane = Dim.symbol("@i")
    >>> lane_offsets(100 * floordiv(lane, 2) + mod(lane, 2), "@i", 4, 4)
    (0, 1, 100, 101)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import gcd

from ingot.hlo.dim import Atom, Dim, ceil_div, never_negative, symbols_of
from ingot.support.records import record

MOST_STRETCHES = 8
"""Distant runs of neighbours, each read as a vector, from which lanes are picked."""


@lru_cache(maxsize=4096)
def lane_offsets(where: int | Dim, axis: str, lanes: int, aligned: int) -> tuple[int, ...] | None:
    """Return the offset of each lane along `axis`, None where it is not known."""
    total = [0] * lanes
    for key, factor in () if isinstance(where, int) else where.terms:
        if not any(_varies(atom, axis) for atom in key):
            continue
        steps = _of_atom(key[0], axis, lanes, aligned) if len(key) == 1 else None
        if steps is None:
            return None
        total = [old + factor * step for old, step in zip(total, steps, strict=True)]
    return tuple(total)


def holds_anywhere(where: int | Dim, axis: str) -> bool:
    """Whether offsets hold even where lane 0 is masked off: nothing negative is divided."""
    return isinstance(where, int) or all(
        never_negative(atom.left) and holds_anywhere(atom.left, axis)
        for key, _ in where.terms
        for atom in key
        if atom.function and _varies(atom, axis)
    )


def first_lane(where: int | Dim, axis: str, aligned: int) -> int | None:
    """Return the index of lane 0 if it is the same wherever the lanes begin, else None.

    A pattern is such: `mod(@i,2)` for blocks of an even number of lanes.
    """
    total = 0
    for key, factor in (((), where),) if isinstance(where, int) else where.terms:
        if len(key) > 1:
            return None
        residue = _rest(key[0], axis, aligned) if key else 1
        if residue is None:
            return None
        total += factor * residue
    return total


def _rest(atom: Atom, axis: str, aligned: int) -> int | None:
    if atom.function != "mod" or not isinstance(atom.right, int) or isinstance(atom.left, int):
        return None
    residue, modulus = _residue(atom.left, atom.right, axis, aligned)
    return residue if modulus == atom.right else None


def _varies(atom: Atom, axis: str) -> bool:
    if not atom.function:
        return atom.text == axis
    return axis in symbols_of((atom.left, atom.right))


def _of_atom(atom: Atom, axis: str, lanes: int, aligned: int) -> tuple[int, ...] | None:
    if not atom.function:
        return tuple(range(lanes))
    divisor = atom.right
    inner = lane_offsets(atom.left, axis, lanes, aligned)
    if inner is None or atom.function not in ("floordiv", "mod") or not isinstance(divisor, int):
        return None
    residue, modulus = _residue(atom.left, divisor, axis, aligned)
    ends = [residue + step for step in inner]
    if modulus == divisor:
        quotients = (end // divisor for end in ends)
        rests = (end % divisor - residue for end in ends)
        return tuple(quotients if atom.function == "floordiv" else rests)
    if all(0 <= end < modulus for end in ends):
        return (0,) * lanes if atom.function == "floordiv" else inner
    return None


def _residue(value: int | Dim, divisor: int, axis: str, aligned: int) -> tuple[int, int]:
    """Return r and m, a divisor of `divisor`: lane 0's value is r modulo m."""
    residue, modulus = 0, divisor
    for key, factor in () if isinstance(value, int) else value.terms:
        if not key:
            residue += factor
        elif len(key) == 1 and not key[0].function and key[0].text == axis:
            modulus = gcd(modulus, factor * aligned)
        else:
            modulus = gcd(modulus, factor)
    return residue % modulus, modulus


@lru_cache(maxsize=1024)
def runs(offsets: tuple[int, ...], most: int) -> int | None:
    """Return how many equal runs of neighbours the lanes are, None if more than `most`."""
    count = 1
    while count <= most and len(offsets) % count == 0:
        length = len(offsets) // count
        if length > 1 and all(
            offsets[lane] == offsets[lane - lane % length] + lane % length
            for lane in range(len(offsets))
        ):
            return count
        count *= 2
    return None


def is_near(offsets: tuple[int, ...], most: int) -> bool:
    """Whether lanes have one element, or lie in `most` runs or vectors of neighbours, or fewer."""
    return not any(offsets) or runs(offsets, most) is not None or cover(offsets, most) is not None


@record
class Cover:
    """Vectors of neighbours in which all lanes' elements lie, and nothing beyond the outermost.

    Attributes:
        starts: offset of each vector's first element, ascending; the last two may overlap.
        length: elements of each, a power of two, no more than the lanes.
        sources: of each lane, the vector and the element in it.
    """

    starts: tuple[int, ...]
    length: int
    sources: tuple[tuple[int, int], ...]

    @property
    def shared(self) -> int:
        """How many lanes have the same element, at most."""
        return max(Counter(self.sources).values())

    def reach(self, on: Sequence[bool]) -> range | None:
        """Return the offsets from the first lane that is on to the last: all may be read.

        None where a lane between those is off, whose element is not to be seen.
        """
        offsets = [self.starts[part] + at for part, at in self.sources]
        wanted = [offset for offset, is_on in zip(offsets, on, strict=True) if is_on]
        found = range(min(wanted), max(wanted) + 1) if wanted else range(0)
        off = (offset for offset, is_on in zip(offsets, on, strict=True) if not is_on)
        return None if any(offset in found for offset in off) else found

    def readers(self, number: int) -> list[tuple[int, ...]]:
        """Return which lanes have each element of a vector, in rounds of one lane for each.

        Where none has, the number of lanes stands.
        """
        return _readers(self, number)


@lru_cache(maxsize=1024)
def _readers(cover: Cover, number: int) -> list[tuple[int, ...]]:
    lanes: dict[tuple[int, int], list[int]] = defaultdict(list)
    for lane, source in enumerate(cover.sources):
        lanes[source].append(lane)
    found = [lanes.get((number, at), [len(cover.sources)]) for at in range(cover.length)]
    rounds = max(map(len, found))
    return [tuple(own[min(turn, len(own) - 1)] for own in found) for turn in range(rounds)]


@lru_cache(maxsize=1024)
def cover(offsets: tuple[int, ...], most: int) -> Cover | None:
    """Return the vectors that hold every lane's element.

    They are at most `most` neighbours, or a limited number of distant runs; else None.
    """
    least = min(offsets)
    reach = max(offsets) - least + 1
    length = min(1 << len(offsets).bit_length() - 1, 1 << reach.bit_length() - 1)
    count = ceil_div(reach, length)
    if length == 1 or count > most:
        return _cover_of_stretches(offsets)
    parts = tuple(divmod(offset - least, length) for offset in offsets)
    back = count * length - reach
    last = count - 1
    return Cover(
        (*(least + length * number for number in range(last)), least + reach - length),
        length,
        tuple((part, at + back if part == last else at) for part, at in parts),
    )


def _cover_of_stretches(offsets: tuple[int, ...]) -> Cover | None:
    """Return the vectors where elements lie in distant runs of equal length."""
    reached = sorted(set(offsets))
    starts = [at for before, at in pairwise((reached[0] - 2, *reached)) if at != before + 1]
    length = len(reached) // len(starts)
    is_even = len(reached) == length * len(starts) and all(
        at + step in offsets for at in starts for step in range(length)
    )
    if length < 2 or length.bit_count() > 1 or not is_even or len(starts) > MOST_STRETCHES:
        return None
    where = {at + step: (part, step) for part, at in enumerate(starts) for step in range(length)}
    return Cover(tuple(starts), length, tuple(where[offset] for offset in offsets))
