# SPDX-License-Identifier: Apache-2.0
"""Real transforms of even length: taking a half-length complex transform apart, and packing one.

A real sequence x of length 2h is read as z = x[0::2] + i x[1::2]. With Z its transform, E and O
those of the even and odd elements: Z = E + iO, X[k] = E[k] + w^k O[k], where
E[k] = (Z[k] + conj Z[h-k]) / 2, O[k] = (Z[k] - conj Z[h-k]) / 2i, w = exp(-2 pi i / 2h).

Source: W. H. Press et al., Numerical Recipes, section 12.3.
"""

from __future__ import annotations

from ingot.cpu.emit.fft.butterflies import Complex, ComplexMath
from ingot.cpu.emit.fft.sides import Tile
from ingot.emit.values.indices import IndexValue
from ingot.llvm.values import Value


def unpacked(m: ComplexMath, element: Complex, mirrored: Complex, twiddle: Complex) -> Complex:
    """Return X[k] of Z[k], Z[h-k] (of Z[0] for both ends) and w^k."""
    even = m.scale(m.add(element, m.conj(mirrored)), 0.5)
    odd = m.scale(m.times_i(m.sub(element, m.conj(mirrored)), negative=True), 0.5)
    return m.add(even, m.mul(odd, twiddle))


def packed(m: ComplexMath, element: Complex, mirrored: Complex, twiddle: Complex) -> Complex:
    """Return Z[k] of X[k], X[h-k] and w^-k."""
    even = m.scale(m.add(element, m.conj(mirrored)), 0.5)
    odd = m.scale(m.mul(m.sub(element, m.conj(mirrored)), twiddle), 0.5)
    return m.add(even, m.times_i(odd, negative=False))


def unpack_tile(m: ComplexMath, half: Value, table: Value, source: Tile, target: Tile) -> None:
    """Write the h + 1 elements of the spectrum into another tile."""
    f = m.f

    def at(k: IndexValue, index: IndexValue, mirror: IndexValue) -> None:
        twiddle = m.constant(table, k)
        target.store(k, unpacked(m, source.load(index), source.load(mirror), twiddle))

    at(0, 0, 0)
    at(half, 0, 0)
    f.loop(1, half, 1, [], lambda k, _: at(k, k, f.isub(half, k)))


def pack_tile(m: ComplexMath, half: Value, table: Value, source: Tile, target: Tile) -> None:
    """Write the h elements to be transformed into another tile, their parts swapped."""
    f = m.f

    def real(value: Complex) -> Complex:
        # The first and last elements of a real signal's spectrum are real: what they say else
        # is not looked at.
        return Complex(value.re, f.zero(m.type))

    first = packed(m, real(source.load(0)), real(source.load(half)), m.constant(table, 0))
    target.store(0, _swapped(first))

    def at(k: Value, _: list[Value]) -> None:
        mirrored = source.load(f.isub(half, k))
        value = packed(m, source.load(k), mirrored, m.constant(table, k))
        target.store(k, _swapped(value))

    f.loop(1, half, 1, [], at)


def extend_tile(m: ComplexMath, length: Value, tile: Tile) -> None:
    """Fill the second half of a real signal's spectrum, in place; swap the parts of all of it."""
    f = m.f
    tile.store(0, _swapped(Complex(tile.load(0).re, f.zero(m.type))))

    def mirror(k: Value, _: list[Value]) -> None:
        value = tile.load(k)
        tile.store(k, _swapped(value))
        tile.store(f.isub(length, k), _swapped(m.conj(value)))

    f.loop(1, f.iadd(f.idiv(length, 2), 1), 1, [], mirror)


def _swapped(value: Complex) -> Complex:
    return Complex(value.im, value.re)
