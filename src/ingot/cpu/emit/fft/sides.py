# SPDX-License-Identifier: Apache-2.0
"""Where a block of sequences lies while it is worked on, and how it comes there and goes back.

A `Tile` is an array of (real vector, imaginary vector), one pair per element; lane i of all vectors
is sequence i. `Columns`: the lanes of an element lie side by side in memory, so an element is one
vector of (real, imaginary) pairs, taken apart or put together by a shuffle. `Rows`: the elements of
a lane lie side by side, so blocks of them are transposed in registers on the way to or from a tile.

Invariant: lanes beyond the last sequence repeat it (rows; they write the same numbers) or are
masked (columns), so nothing outside of the arrays is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.emit.fft.butterflies import Complex, ComplexMath
from ingot.emit.values.indices import IndexValue
from ingot.llvm import types as lt
from ingot.llvm.types import Type, vector
from ingot.llvm.values import Value
from ingot.support.records import record


def interleave(m: ComplexMath, value: Complex) -> Value:
    """Return (re, im) pairs of all lanes as one vector."""
    lanes = m.type.lanes
    if lanes == 1:
        pair = m.f.undef(vector(m.type, 2))
        return m.f.insert(m.f.insert(pair, value.re, 0), value.im, 1)
    order = [source for lane in range(lanes) for source in (lane, lanes + lane)]
    return m.f.shuffle(value.re, value.im, order)


def separate(m: ComplexMath, parts: Sequence[Value]) -> Complex:
    """Return the lanes of one or two vectors of (re, im) pairs."""
    f, lanes = m.f, m.type.lanes
    if lanes == 1:
        return Complex(f.extract(parts[0], 0), f.extract(parts[0], 1))
    first, second = parts[0], parts[-1]
    return Complex(
        f.shuffle(first, second, range(0, 2 * lanes, 2)),
        f.shuffle(first, second, range(1, 2 * lanes, 2)),
    )


@record
class Tile:
    """Memory for pairs of vectors."""

    math: ComplexMath
    base: Value

    def load(self, index: IndexValue) -> Complex:
        """Return element `index`."""
        m = self.math
        at = self._address(index)
        second = m.f.gep(at, m.type.bytes)
        return Complex(m.f.load(m.type, at), m.f.load(m.type, second))

    def store(self, index: IndexValue, value: Complex) -> None:
        """Set element `index`."""
        m = self.math
        at = self._address(index)
        m.f.store(value.re, at)
        m.f.store(value.im, m.f.gep(at, m.type.bytes))

    def _address(self, index: IndexValue) -> Value:
        f = self.math.f
        return f.gep(self.base, f.imul(index, 2 * self.math.type.bytes))


@record
class Columns:
    """Lanes side by side: element e is at `base + e * step`.

    Attributes:
        base: address of element 0 of the first lane.
        step: distance of elements in bytes.
        swaps: whether real and imaginary parts are exchanged (a vector of all lanes).
        factor: a vector that stored elements are multiplied by; None where nothing is stored.
        mask: which of the pairs' parts exist; None if all do.
    """

    math: ComplexMath
    base: Value
    step: Value
    swaps: Value
    factor: Value | None
    mask: Value | None

    def load(self, index: IndexValue) -> Complex:
        """Return element `index` of all lanes."""
        f, pairs, at = self.math.f, *self._pair(index)
        found = f.masked_load(pairs, at, self.mask)
        return self.math.swapped(separate(self.math, [found]), self.swaps)

    def store(self, index: IndexValue, value: Complex) -> None:
        """Set element `index` of all lanes."""
        f, (_, at) = self.math.f, self._pair(index)
        assert self.factor is not None, "a side to load from"
        m = self.math
        pairs = interleave(m, m.swapped(m.scaled(value, self.factor), self.swaps))
        f.masked_store(pairs, at, self.mask)

    def load_real(self, index: IndexValue) -> Complex:
        """Return element `index` of all lanes, of which memory holds the real parts."""
        m, at = self.math, self.address(index)
        value = m.f.masked_load(m.type, at, self._lane_mask())
        return m.swapped(Complex(value, m.f.zero(m.type)), self.swaps)

    def store_real(self, index: IndexValue, value: Complex) -> None:
        """Set element `index` of all lanes to real parts."""
        m, at, mask = self.math, self.address(index), self._lane_mask()
        assert self.factor is not None, "a side to load from"
        m.f.masked_store(m.swapped(m.scaled(value, self.factor), self.swaps).re, at, mask)

    def _lane_mask(self) -> Value | None:
        """Return which lanes exist; None if all do."""
        f, lanes = self.math.f, self.math.type.lanes
        mask = self.mask
        return None if mask is None else f.shuffle(mask, mask, range(0, 2 * lanes, 2))

    def address(self, index: IndexValue) -> Value:
        """Return where element `index` of the first lane lies."""
        return self.math.f.gep(self.base, self.math.f.imul(index, self.step))

    def _pair(self, index: IndexValue) -> tuple[Type, Value]:
        return vector(self.math.type.element, 2 * self.math.type.lanes), self.address(index)


@record
class HalfColumns:
    """Columns of the spectra of real sequences: the second half mirrors the first.

    Lane l of element e is element `e * width + lane + l` of a spectrum.

    Attributes:
        columns: where they would lie if all were in memory.
        lane, left: number of the first lane, and the number of lanes from there on.
        width: elements from one of a lane to the next.
        size: elements of a spectrum where it is read, of its half where it is written.
    """

    columns: Columns
    lane: Value
    left: Value
    width: Value
    size: Value

    def load(self, index: IndexValue) -> Complex:
        """Return element `index` of all lanes: beyond the half, conjugates of the mirrored ones."""
        columns, m, f = self.columns, self.columns.math, self.columns.math.f
        lanes = m.type.lanes
        pairs, at = vector(m.type.element, 2 * lanes), columns.address(index)
        first = self._first(index)
        stored = f.isub(f.iadd(f.idiv(self.size, 2), 1), first)
        direct = f.masked_load(pairs, at, self._below(f.imin(stored, self.left)))
        # The elements size - first - (lanes - 1) to size - first, and only those of mirrored lanes.
        distance = f.isub(f.isub(self.size, f.imul(first, 2)), lanes - 1)
        mirror = f.gep(at, f.imul(distance, 2 * m.type.element.bytes))
        numbers = [lanes - 1 - part // 2 for part in range(2 * lanes)]
        wanted = f.and_(self._from(stored, numbers), self._below(self.left, numbers))
        mirrored = separate(m, [f.masked_load(pairs, mirror, wanted)])
        backwards = range(lanes - 1, -1, -1)
        re, im = (f.shuffle(part, part, backwards) for part in (mirrored.re, mirrored.im))
        here = separate(m, [direct])
        is_mirrored = self._from(stored, range(lanes))
        value = Complex(
            f.select(is_mirrored, re, here.re), f.select(is_mirrored, f.neg(im), here.im)
        )
        return m.swapped(value, columns.swaps)

    def store(self, index: IndexValue, value: Complex) -> None:
        """Set element `index` of the lanes where it lies in the half that is stored."""
        columns, m = self.columns, self.columns.math
        assert columns.factor is not None, "a side to load from"
        f = m.f
        pairs = interleave(m, m.swapped(m.scaled(value, columns.factor), columns.swaps))
        stored = f.imin(f.isub(self.size, self._first(index)), self.left)
        f.masked_store(pairs, columns.address(index), self._below(stored))

    def _first(self, index: IndexValue) -> IndexValue:
        """Return which element of its spectrum the first lane's is."""
        f = self.columns.math.f
        return f.iadd(f.imul(index, self.width), self.lane)

    def _below(self, count: IndexValue, numbers: Sequence[int] | None = None) -> Value:
        """Return which parts of pairs are of one of the first lanes."""
        f, lanes = self.columns.math.f, self.columns.math.type.lanes
        given = [part // 2 for part in range(2 * lanes)] if numbers is None else numbers
        return f.icmp("slt", *self._compared(given, count))

    def _from(self, count: IndexValue, numbers: Sequence[int]) -> Value:
        """Return which numbers are of none of the first lanes."""
        return self.columns.math.f.icmp("sge", *self._compared(numbers, count))

    def _compared(self, numbers: Sequence[int], count: IndexValue) -> tuple[Value, Value]:
        f = self.columns.math.f
        return f.const(vector(lt.I64, len(numbers)), numbers), f.splat(
            f.as_value(count), len(numbers)
        )


@record
class Grid:
    """Columns whose element k of lane j is multiplied by w^(k*j) before it is stored.

    The factor is the product of row k >> shift of `high` and row k & (1 << shift) - 1 of `low`,
    which hold real and imaginary vectors of the lanes at hand.
    """

    columns: Columns
    shift: Value
    low: Tile
    high: Tile

    def store(self, index: IndexValue, value: Complex) -> None:
        """Set element `index` of all lanes."""
        m = self.columns.math
        f, number = m.f, m.f.as_value(index)
        one = f.const(number.type, 1)
        above = f.lshr(number, self.shift)
        below = f.and_(number, f.sub(f.shl(one, self.shift), one))
        rotated = m.mul(m.mul(value, self.high.load(above)), self.low.load(below))
        self.columns.store(index, rotated)


@record
class Rows:
    """Elements side by side: lane l starts at `starts[l]`; the rest is as in `Columns`."""

    math: ComplexMath
    starts: tuple[Value, ...]
    swaps: Value
    factor: Value | None

    def load(self, tile: Tile, count: Value) -> None:
        """Bring `count` elements of all lanes into a tile."""

        def block(index: IndexValue) -> None:
            for number, value in enumerate(self.load_block(index)):
                tile.store(self.math.f.iadd(index, number), value)

        def one(index: IndexValue) -> None:
            tile.store(index, self.math.swapped(self._gather(index), self.swaps))

        self._blocks(count, block, one)

    def store(self, tile: Tile, count: Value) -> None:
        """Take `count` elements of all lanes from a tile."""
        f = self.math.f

        def block(index: IndexValue) -> None:
            indices = [f.iadd(index, number) for number in range(self.block)]
            self.store_block(index, [tile.load(each) for each in indices])

        def one(index: IndexValue) -> None:
            self._scatter(index, self._scaled(tile.load(index)))

        self._blocks(count, block, one)

    def load_block(self, index: IndexValue) -> list[Complex]:
        """Return as many elements of all lanes as are transposed at once."""
        m, block = self.math, self.block
        halves = [
            transposed(m, [self._pairs(start, index, block) for start in part])
            for part in self._parts()
        ]
        elements = [separate(m, [half[number] for half in halves]) for number in range(block)]
        return [m.swapped(element, self.swaps) for element in elements]

    def store_block(self, index: IndexValue, values: Sequence[Complex]) -> None:
        """Set as many elements of all lanes as are transposed at once."""
        m, f, width = self.math, self.math.f, 2 * self.block
        vectors = [interleave(m, self._scaled(value)) for value in values]
        for number, part in enumerate(self._parts()):
            cut = [f.slice_lanes(v, number * width, width) for v in vectors]
            for start, row in zip(part, transposed(m, cut), strict=True):
                f.store(row, self._element(start, index))

    def load_real(self, tile: Tile, count: Value) -> None:
        """Bring `count` real elements of all lanes into a tile."""
        m, f = self.math, self.math.f
        scalar, zero = m.type.element, f.zero(m.type)

        def one(index: IndexValue) -> None:
            lanes = [f.load(scalar, f.gep(start, index, scalar)) for start in self.starts]
            tile.store(index, Complex(_gathered(m, lanes), zero))

        f.for_range(count, one)

    def store_real(self, tile: Tile, count: Value) -> None:
        """Take the real parts of `count` elements of all lanes from a tile."""
        m, f = self.math, self.math.f

        def one(index: IndexValue) -> None:
            value = self._scaled(tile.load(index)).re
            for lane, start in enumerate(self.starts):
                part = value if m.type.lanes == 1 else f.extract(value, lane)
                f.store(part, f.gep(start, index, m.type.element))

        f.for_range(count, one)

    def _scaled(self, value: Complex) -> Complex:
        assert self.factor is not None, "a side to load from"
        return self.math.swapped(self.math.scaled(value, self.factor), self.swaps)

    @property
    def block(self) -> int:
        """Elements that are transposed at once: a full vector of pairs."""
        return max(1, self.math.type.lanes // 2)

    def _parts(self) -> list[tuple[Value, ...]]:
        """The lanes in groups, each with the elements of a block."""
        block = self.block
        return [self.starts[at : at + block] for at in range(0, len(self.starts), block)]

    def _blocks(
        self,
        count: Value,
        block: Callable[[IndexValue], None],
        one: Callable[[IndexValue], None],
    ) -> None:
        f = self.math.f
        whole = f.isub(count, f.irem(count, self.block))
        f.for_range(whole, block, step=self.block)
        f.for_range(count, one, start=whole)

    def _element(self, start: Value, index: IndexValue) -> Value:
        f = self.math.f
        return f.gep(start, f.imul(index, 2 * self.math.type.element.bytes))

    def _pairs(self, start: Value, index: IndexValue, count: int) -> Value:
        pairs = vector(self.math.type.element, 2 * count)
        return self.math.f.load(pairs, self._element(start, index))

    def _gather(self, index: IndexValue) -> Complex:
        m, f = self.math, self.math.f
        pairs = [self._pairs(start, index, 1) for start in self.starts]
        re, im = ([f.extract(pair, part) for pair in pairs] for part in (0, 1))
        return Complex(_gathered(m, re), _gathered(m, im))

    def _scatter(self, index: IndexValue, value: Complex) -> None:
        f, scalar = self.math.f, self.math.type.element
        for lane, start in enumerate(self.starts):
            at = self._element(start, index)
            for part, address in ((value.re, at), (value.im, f.gep(at, scalar.bytes))):
                f.store(part if len(self.starts) == 1 else f.extract(part, lane), address)


def _gathered(m: ComplexMath, lanes: Sequence[Value]) -> Value:
    if len(lanes) == 1:
        return lanes[0]
    whole = m.f.undef(m.type)
    for number, lane in enumerate(lanes):
        whole = m.f.insert(whole, lane, number)
    return whole


def transposed(m: ComplexMath, rows: Sequence[Value]) -> list[Value]:
    """Return the transpose of a square of (re, im) pairs, one vector per row.

    At distance d, blocks of d pairs are exchanged between rows i and i + d.
    """
    count = len(rows)
    found = list(rows)
    distance = count // 2
    while distance:
        for i in range(count):
            if i & distance:
                continue
            low, high = found[i], found[i + distance]
            found[i] = m.f.shuffle(low, high, _exchange(count, distance, upper=False))
            found[i + distance] = m.f.shuffle(low, high, _exchange(count, distance, upper=True))
        distance //= 2
    return found


def _exchange(count: int, distance: int, *, upper: bool) -> list[int]:
    """Return the shuffle that keeps one half of each block pair and takes the other's."""
    sources: list[int] = []
    for column in range(count):
        if upper:
            source = count + column if column & distance else column + distance
        else:
            source = count + column - distance if column & distance else column
        sources.extend((2 * source, 2 * source + 1))
    return sources
