# SPDX-License-Identifier: Apache-2.0
"""Rows that registers hold, transformed without a tile: the code of a step of whole rows.

Called by `steps` where a stage has one pass and its sequences lie in rows. Registers hold rows of
side^2 or 2 side^2 elements, side half a vector. A row of side^2 elements x[side n1 + n2] lies in
`side` vectors of pairs. Transforms along n1, of whole registers, and along n2, after a
transposition in registers, are all: no tile is written, and the results lie in order. Two rows go
side by side, each in a half of the lanes. A row of twice as many elements is two such rows, the
sums and the differences of its halves (Gentleman and Sande), whose results alternate.

Source: the four-step algorithm of D. H. Bailey, in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ingot.cpu.emit.fft.sides import separate
from ingot.emit.fft.butterflies import Complex, ComplexMath, butterfly
from ingot.kernel.fft.tables import Numbers, roots
from ingot.llvm.values import Value
from ingot.support.records import record


@record
class RegisterRows:
    """Emits the transforms of the rows of one block.

    Attributes:
        math: over vectors of two rows' lanes.
        length: elements of a row.
        swaps: whether real and imaginary parts are exchanged on the way in and out.
        factor: what results are multiplied by (a vector), None for one.
    """

    math: ComplexMath
    length: int
    swaps: bool
    factor: Value | None

    @property
    def side(self) -> int:
        """Registers of a row, and its lanes in one."""
        return self.math.type.lanes // 2

    def emit(self, source: Value, target: Value, steps: tuple[Value, Value], left: Value) -> None:
        """Emit all rows: `left` of them from `source` to `target`, `steps` bytes apart there."""
        f = self.math.f
        if self.length == 2 * self.side**2:

            def one(number: Value) -> None:
                at, to = (
                    f.gep(base, f.mul(number, step))
                    for base, step in zip((source, target), steps, strict=True)
                )
                self._store_alternating(to, self._transformed(self._halves(at)))

            f.for_range(left, one)
            return
        final = f.isub(left, 1)

        def two(first: Value) -> None:
            # Behind an odd number of rows the last one is computed twice.
            numbers = [first, f.as_value(f.imin(f.iadd(first, 1), final))]
            starts, addresses = (
                [f.gep(base, f.mul(number, step)) for number in numbers]
                for base, step in zip((source, target), steps, strict=True)
            )
            rows = [self._separate(self._pairs(starts, number)) for number in range(self.side)]
            self._store(addresses, self._transformed(rows))

        f.for_range(left, two, step=2)

    # ---- memory

    def _pairs(self, starts: Sequence[Value], number: int) -> list[Value]:
        """Return register `number` of each start: pairs of real and imaginary parts."""
        f, at = self.math.f, number * self.math.type.bytes
        return [f.load(self.math.type, f.gep(start, at)) for start in starts]

    def _separate(self, pairs: Sequence[Value]) -> Complex:
        found = separate(self.math, pairs)
        return Complex(found.im, found.re) if self.swaps else found

    def _joined(self, value: Complex, order: Sequence[int]) -> Value:
        """Return the pairs of the lanes in `order`."""
        lanes = self.math.type.lanes
        sources = [source for lane in order for source in (lane, lanes + lane)]
        return self.math.f.shuffle(value.re, value.im, sources)

    def _finished(self, value: Complex) -> Complex:
        found = value if self.factor is None else self.math.scaled(value, self.factor)
        return Complex(found.im, found.re) if self.swaps else found

    def _store(self, addresses: Sequence[Value], values: Sequence[Complex]) -> None:
        f, side = self.math.f, self.side
        for number, value in enumerate(map(self._finished, values)):
            for half, address in enumerate(addresses):
                pairs = self._joined(value, range(half * side, (half + 1) * side))
                f.store(pairs, f.gep(address, number * self.math.type.bytes))

    def _store_alternating(self, address: Value, values: Sequence[Complex]) -> None:
        f, side = self.math.f, self.side
        order = [lane + half * side for lane in range(side) for half in (0, 1)]
        for number, value in enumerate(map(self._finished, values)):
            for half in (0, 1):
                pairs = self._joined(value, order[half * side : (half + 1) * side])
                f.store(pairs, f.gep(address, (2 * number + half) * self.math.type.bytes))

    def _halves(self, start: Value) -> list[Complex]:
        """Return the sums of both halves of a row, beside their differences times the roots."""
        f, side = self.math.f, self.side
        middle = f.gep(start, side * self.math.type.bytes)
        found: list[Complex] = []
        for number in range(side):
            first, second = self._pairs((start, middle), number)
            both = self._separate((f.add(first, second), f.sub(first, second)))
            turns = number * side + np.arange(side)
            factors = np.concatenate([np.ones(side), roots(self.length, turns)])
            found.append(self.math.mul(both, self._constant(factors)))
        return found

    # ---- arithmetic

    def _constant(self, numbers: Numbers) -> Complex:
        f, type = self.math.f, self.math.type
        return Complex(f.const(type, numbers.real.tolist()), f.const(type, numbers.imag.tolist()))

    def _transformed(self, rows: Sequence[Complex]) -> list[Complex]:
        """Return the transforms of the two sequences that `rows` hold."""
        m, side = self.math, self.side
        along = butterfly(m, rows)
        columns = np.tile(np.arange(side), 2)
        rotated = [
            m.mul(value, self._constant(roots(side * side, number * columns))) if number else value
            for number, value in enumerate(along)
        ]
        re = self._transposed([value.re for value in rotated])
        im = self._transposed([value.im for value in rotated])
        return butterfly(m, [Complex(*pair) for pair in zip(re, im, strict=True)])

    def _transposed(self, rows: Sequence[Value]) -> list[Value]:
        """Return the transposes of both squares that the halves of `rows` are.

        At distance d, blocks of d lanes are exchanged between rows i and i + d.
        """
        f, lanes = self.math.f, self.math.type.lanes
        found, distance = list(rows), self.side // 2
        while distance:
            kept = [c + (lanes - distance) * (c & distance > 0) for c in range(lanes)]
            taken = [c + (lanes if c & distance else distance) for c in range(lanes)]
            for i in range(self.side):
                if not i & distance:
                    low, high = found[i], found[i + distance]
                    found[i] = f.shuffle(low, high, kept)
                    found[i + distance] = f.shuffle(low, high, taken)
            distance //= 2
        return found
