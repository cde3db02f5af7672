"""Transforms of several sequences at once: Stockham passes between two tiles.

A tile is an array of (real vector, imaginary vector), one pair per element; lane i of all vectors
is sequence i. Each pass takes one factor off the length, reads one tile and writes the other in
an order that needs no bit reversal. The first pass may read, and the last may write, anywhere:
`load` and `store` say how. Lengths with a prime factor above `LARGEST_PRIME` are convolved
(Bluestein).

Source: T. G. Stockham 1966; L. I. Bluestein 1970; C. Van Loan, Computational Frameworks for the
FFT, 1992, sections 1.7 and 4.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ingot.cpu.emit.fft import tables as tb
from ingot.cpu.emit.fft.butterflies import LARGEST_PRIME, Complex, ComplexMath, butterfly
from ingot.cpu.emit.fft.tables import Tables
from ingot.cpu.emit.values import IndexValue
from ingot.llvm.values import Value

Loader = Callable[[IndexValue], Complex]
Storer = Callable[[IndexValue, Complex], None]


def factors(length: int) -> list[int] | None:
    """Return the radices of the passes, or None if a prime factor is too large."""
    found: list[int] = []
    rest = length
    for radix in (8, 4, 2, *(p for p in range(3, LARGEST_PRIME + 1, 2) if _is_prime(p))):
        while rest % radix == 0:
            found.append(radix)
            rest //= radix
    return found if rest == 1 else None


def _is_prime(number: int) -> bool:
    return all(number % divisor for divisor in range(2, number))


def padded_length(length: int) -> int:
    """Return the length of the convolution that stands for a transform of `length`."""
    least = 2 * length - 1
    return min(
        two * three
        for three in (1, 3, 9)
        for two in (1 << k for k in range(1, least.bit_length() + 1))
        if two * three >= least
    )


def tile_length(length: int) -> int:
    """Return the elements that both tiles must have."""
    return length if factors(length) is not None else padded_length(length)


@dataclass(frozen=True, slots=True)
class Tile:
    """Memory for `tile_length` pairs of vectors."""

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


@dataclass(frozen=True, slots=True)
class TileTransform:
    """Emits transforms of one length in one direction."""

    math: ComplexMath
    tables: Tables
    length: int
    inverse: bool

    def run(self, load: Loader, store: Storer, free: tuple[Tile, Tile]) -> None:
        """Emit one transform.

        Args:
            load: reads an element; may read `free[1]`, but not `free[0]`.
            store: takes a result; may write `target(free)`, which nothing reads then.
            free: the two tiles.
        """
        radices = factors(self.length)
        if radices is None:
            self._convolve(load, store, free)
        else:
            self._passes(radices, load, store, free)

    def target(self, free: tuple[Tile, Tile]) -> Tile:
        """Return the tile that `store` may write."""
        radices = factors(self.length)
        if radices is None:
            return free[0]
        return free[(max(len(radices), 1) - 1) % 2]

    def _passes(
        self, radices: list[int], load: Loader, store: Storer, free: tuple[Tile, Tile]
    ) -> None:
        if not radices:
            store(0, load(0))
            return
        order, stride = self.length, 1
        for number, radix in enumerate(radices):
            is_last = number == len(radices) - 1
            to = store if is_last else free[number % 2].store
            self._pass(order, radix, stride, load, to)
            load = free[number % 2].load
            order //= radix
            stride *= radix

    def _pass(self, order: int, radix: int, stride: int, load: Loader, store: Storer) -> None:
        """Take `radix` off sequences of `order`, of which there are `stride`, interleaved."""
        m, f = self.math, self.math.f
        count = order // radix
        table = (
            self.tables.add(tb.pass_twiddles, order, radix, int(self.inverse))
            if count > 1
            else None
        )

        def group(p: Value, _: list[Value]) -> None:
            twiddles = [] if table is None else self._twiddles(table, p, radix)
            inside, outside = f.imul(p, stride), f.imul(p, stride * radix)

            def one(q: Value, _: list[Value]) -> None:
                start, end = f.iadd(inside, q), f.iadd(outside, q)
                step = stride * count
                values = [load(f.iadd(start, step * k)) for k in range(radix)]
                results = butterfly(m, values, self.inverse)
                for j, result in enumerate(results):
                    turned = m.mul(result, twiddles[j - 1]) if j and twiddles else result
                    store(f.iadd(end, stride * j), turned)

            f.loop(0, stride, 1, [], one)

        f.loop(0, count, 1, [], group)

    def _twiddles(self, table: Value, group: Value, radix: int) -> list[Complex]:
        start = self.math.f.imul(group, radix - 1)
        return [
            self.constant(table, self.math.f.iadd(start, number)) for number in range(radix - 1)
        ]

    def constant(self, table: Value, index: IndexValue) -> Complex:
        """Return a complex number of a table, in every lane."""
        m, f = self.math, self.math.f
        scalar = m.type.element
        at = f.gep(table, f.imul(index, 2 * scalar.bytes))
        parts = (f.load(scalar, f.gep(at, n * scalar.bytes), invariant=True) for n in (0, 1))
        return Complex(*(f.splat(part, m.type.lanes) for part in parts))

    def _convolve(self, load: Loader, store: Storer, free: tuple[Tile, Tile]) -> None:
        """Bluestein: w^(jk) = c_j c_k / c_(j-k), so that the transform is a convolution."""
        m, f = self.math, self.math.f
        length, padded, direction = self.length, padded_length(self.length), int(self.inverse)
        chirp = self.tables.add(tb.chirp, length, direction)
        spectrum = self.tables.add(tb.chirp_spectrum, length, padded, direction)
        # `load` may read free[1]: the chirped sequence goes to free[0].
        there, here = free

        def spread(k: Value, _: list[Value]) -> None:
            there.store(k, m.mul(load(k), self.constant(chirp, k)))

        f.loop(0, length, 1, [], spread)
        f.loop(length, padded, 1, [], lambda k, _: there.store(k, m.zero()))
        forward = TileTransform(m, self.tables, padded, False)
        tiles = (here, there)
        middle = forward.target(tiles)
        forward.run(
            there.load,
            lambda k, value: middle.store(k, m.mul(value, self.constant(spectrum, k))),
            tiles,
        )
        back = TileTransform(m, self.tables, padded, True)
        tiles = (there, here) if middle is here else (here, there)
        last = back.target(tiles)
        back.run(middle.load, last.store, tiles)

        def finish(k: Value, _: list[Value]) -> None:
            store(k, m.mul(last.load(k), self.constant(chirp, k)))

        f.loop(0, length, 1, [], finish)
