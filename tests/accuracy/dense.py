# SPDX-License-Identifier: Apache-2.0
"""All 2^32 numbers of f32: exact values by interpolation, so that a function takes a minute.

Neighbouring floats of one binade are evenly spaced, and over 4,096 of them nearly every function is
a polynomial of degree 7 to f64's precision: a row of 4,096 exact values is 8 values in long double
times one matrix. Each row is compared with long double at other numbers; a row that is not such a
polynomial (near poles, branch points, zeros) is computed whole. Sines of large numbers turn the
first number's sine and cosine by the angle of the distance from it.

Interpolated values only sort out: whatever could be the worst so far, or looks wrong at all, is
computed again in long double, and that distance is what counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from tests.accuracy.distance import ulps
from tests.accuracy.functions import Array, Function

ROW = 1 << 12
BLOCK = 1 << 14
SLAB = 1 << 16
SLABS = (1 << 32) // SLAB
_NODES = np.array([0, 156, 600, 1265, 2048, 2830, 3495, 3939])
_CHECKS = np.array([1, 310, 2400, 3300, 4095])
_CHOSEN = np.concatenate([_NODES, _CHECKS])
_TURNED = ("sine", "cosine", "tan")
_FAR = np.float32(64.0)
"""From here on sines are turned: rows get too wide for a polynomial."""
_MARGIN = 1e-4
"""Interpolated values are good to far less than this many ulp."""
_BEYOND = 2.0**128
"""What f32 has infinity for."""
_HALF = 0.499
_FIRST = np.arange(SLAB, dtype=np.uint32)

Source = Callable[[int], Array]
"""Gives the exact values of one block of a slab, as f64."""


@dataclass
class Worst:
    """The greatest distance so far, and where."""

    ulp: float = -1.0
    at: tuple[float, ...] = ()

    def take(self, distance: Array, *args: Array) -> None:
        """Take in measured distances."""
        if not distance.size:
            return
        place = int(np.argmax(distance))
        if distance[place] > self.ulp:
            self.ulp = float(distance[place])
            self.at = tuple(item[place].item() for item in args)


@dataclass
class DenseF32:
    """One unary function on slabs of all f32, on several engines at once."""

    function: Function
    engines: dict[str, Callable[[Array], Array]]
    flushing: tuple[str, ...] = ()
    """Engines that take denormals for zero: these do not count."""
    worst: dict[str, Worst] = field(init=False)
    _space: Array = field(init=False)

    def __post_init__(self) -> None:
        self.worst = {name: Worst() for name in self.engines}
        self._space = np.empty(BLOCK)

    def slab(self, number: int) -> None:
        """Measure 2^16 neighbouring numbers, given by their bits."""
        x = (_FIRST + np.uint32(number * SLAB)).view(np.float32)
        blocks = x.reshape(-1, BLOCK)
        with np.errstate(all="ignore"):
            source, constant = _source(self.function, x)
            if constant is not None and self._is_constant(blocks, constant):
                return
            for at in range(SLAB // BLOCK):
                self._block(blocks[at], source(at))

    def _is_constant(self, blocks: Array, value: np.float64) -> bool:
        """Whether all engines give the rounded value everywhere (any NaN for NaN)."""
        rounded = np.float32(value).view(np.uint32)
        for compiled in self.engines.values():
            for x in blocks:
                found = compiled(x)
                if not (
                    np.isnan(found) if np.isnan(value) else found.view(np.uint32) == rounded
                ).all():
                    return False
        # Rounded right: at most half a unit away, which nearly always is known already.
        one = np.full(1, np.float32(value))
        for worst in self.worst.values():
            if worst.ulp < _HALF:
                worst.take(ulps(one, np.full(1, np.longdouble(value))), blocks[0, :1])
        return True

    def _block(self, x: Array, wanted: Array) -> None:
        unit, is_tiny = _inverse_unit(wanted)
        first: tuple[Array, str] | None = None
        for name, compiled in self.engines.items():
            found = compiled(x)
            bits = found.view(np.uint32)
            first = first or (bits, name)
            # Mostly all levels give the same bits: measured once.
            is_known = first[1] != name and np.array_equal(bits, first[0])
            if not is_known or self.worst[first[1]].ulp > self.worst[name].ulp:
                self._compare(name, x, found, wanted, unit, is_tiny)

    def _compare(
        self, name: str, x: Array, found: Array, wanted: Array, unit: Array, is_tiny: bool
    ) -> None:
        worst = self.worst[name]
        allowed = worst.ulp - (0 if self.function.exact else _MARGIN)
        distance = self._space
        distance[:] = found
        np.subtract(distance, wanted, out=distance)
        np.multiply(distance.reshape(-1, ROW), unit, out=distance.reshape(-1, ROW))
        # False for NaN, which is sorted out below.
        if distance.max() <= allowed and -distance.min() <= allowed and not is_tiny:
            return
        suspect = ~(np.abs(distance) <= allowed)
        if is_tiny:
            suspect |= (found == 0) & (np.signbit(found) != np.signbit(wanted))
        places = np.flatnonzero(suspect)
        a, b = found[places], wanted[places]
        right = (np.isnan(a) & np.isnan(b)) | (np.isinf(a) & (a * b >= _BEYOND))
        places = places[~right]
        if name in self.flushing:
            places = places[~_is_denormal(x[places]) & ~_is_denormal(wanted[places])]
        if places.size:
            worst.take(ulps(found[places], self.function.exact_values(x[places])), x[places])


def _inverse_unit(wanted: Array) -> tuple[Array, bool]:
    """Return 1 over the unit in the last place of f32, and whether zeros may be among the results.

    That is one number for each row, where both its ends have the same unit.
    """
    rows = wanted.reshape(-1, ROW)
    ends = _inverse_units(np.ascontiguousarray(rows[:, :: ROW - 1]))
    is_tiny = bool((ends >= 2.0**149).any())
    if (ends[:, 0] == ends[:, 1]).all():
        return ends[:, :1], is_tiny
    return _inverse_units(rows), is_tiny


def _is_denormal(values: Array) -> Array:
    size = np.abs(values)
    return (size < 2.0**-126) & (size > 0)


def _inverse_units(wanted: Array) -> Array:
    exponent = (wanted.view(np.int64) >> 52) & 0x7FF
    exponent = np.minimum(np.maximum(exponent, 1023 - 126), 1023 + 127)
    return ((2046 + 23 - exponent) << 52).view(np.float64)


def _source(function: Function, x: Array) -> tuple[Source, np.float64 | None]:
    """Return the source of a slab, and the value that is the same everywhere, if there is one."""
    blocks = x.reshape(-1, BLOCK)
    if function.exact:
        return lambda at: function.reference(blocks[at].astype(np.float64)), None
    rows = x.reshape(-1, ROW)
    if function.name in _TURNED and abs(x[0]) >= _FAR and np.isfinite(x[0]):
        return _turned(function, rows), None
    return _interpolated(function, rows)


def _interpolated(function: Function, rows: Array) -> tuple[Source, np.float64 | None]:
    exact = function.exact_values(rows[:, _CHOSEN])
    with np.errstate(all="ignore"):
        values = exact.astype(np.float64)
        at_nodes = np.ascontiguousarray(values[:, : len(_NODES)])
        checked = values[:, len(_NODES) :]
        error = np.abs(at_nodes @ _basis()[:, _CHECKS] - checked)
        bound = np.maximum(np.abs(checked), 2.0**-150) * 2.0**-40
        sizes = np.abs(at_nodes)
        # Where values differ much in size, the small ones are too inexact.
        good = (error <= bound).all(axis=1) & (sizes.min(axis=1) * 256 >= sizes.max(axis=1))
        first = values[:, :1]
        constant = ((values == first) | (np.isnan(values) & np.isnan(first))).all(axis=1)
        one = values[0, 0]
        same = constant & ((first[:, 0] == one) | (np.isnan(first[:, 0]) & np.isnan(one)))
    per_block = BLOCK // ROW
    space = np.empty((per_block, ROW))

    def block(at: int) -> Array:
        chosen = slice(at * per_block, (at + 1) * per_block)
        np.matmul(at_nodes[chosen], _basis(), out=space)
        for row in np.flatnonzero(~good[chosen]):
            number = at * per_block + row
            space[row] = (
                values[number, 0] if constant[number] else function.exact_values(rows[number])
            )
        return space.reshape(-1)

    return block, one if same.all() else None


@cache
def _basis() -> Array:
    """Return the matrix from values at the nodes to values of the whole row."""
    nodes, places = _NODES.astype(np.longdouble), np.arange(ROW).astype(np.longdouble)
    columns: list[Array] = []
    for at, node in enumerate(nodes):
        others = np.delete(nodes, at)
        columns.append(np.prod((places[:, None] - others) / (node - others), axis=1))
    return np.array(columns).astype(np.float64)


def _turned(function: Function, rows: Array) -> Source:
    """Return the source of sines and the like of rows of large numbers: by the formulas of sums."""
    first = rows[:, 0].astype(np.longdouble)
    start = np.stack([np.sin(first), np.cos(first)]).astype(np.float64)
    step = float(rows[0, 1]) - float(rows[0, 0])
    by_sine, by_cosine = _angles(abs(step))
    pairs = np.stack([by_cosine, np.copysign(1.0, step) * by_sine])
    for_sine = np.ascontiguousarray(start.T)
    for_cosine = np.stack([start[1], -start[0]], axis=1)
    per_block = BLOCK // ROW

    def block(at: int) -> Array:
        chosen = slice(at * per_block, (at + 1) * per_block)
        parts = [side[chosen] @ pairs for side in (for_sine, for_cosine)]
        if function.name == "tan":
            result = parts[0] / parts[1]
            small = np.minimum(np.abs(parts[0]), np.abs(parts[1]))
        else:
            result = parts[function.name == "cosine"]
            small = np.abs(result)
        # The sum lost digits there.
        places = np.nonzero(small < 2.0**-12)
        result[places] = function.exact_values(rows[chosen][places])
        return result.reshape(-1)

    return block


@cache
def _angles(step: float) -> tuple[Array, Array]:
    """Return sine and cosine of 0, 1, 2, ... steps."""
    angle = np.arange(ROW).astype(np.longdouble) * np.longdouble(step)
    return np.sin(angle).astype(np.float64), np.cos(angle).astype(np.float64)
