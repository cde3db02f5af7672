# SPDX-License-Identifier: Apache-2.0
"""Real transforms of even length: taking a half-length complex transform apart, and packing one.

The formulas are those of `emit.fft.fold`.
"""

from __future__ import annotations

from ingot.cpu.emit.fft.sides import Tile
from ingot.emit.fft.butterflies import Complex, ComplexMath
from ingot.emit.fft.fold import packed, unpacked
from ingot.emit.values.indices import IndexValue
from ingot.llvm.values import Value


def unpack_tile(m: ComplexMath, half: Value, table: Value, source: Tile, target: Tile) -> None:
    """Write the `half` + 1 elements of the spectrum of a real signal to `target`.

    Args:
        m: emits complex arithmetic.
        half: elements of `source`, the transform of half the length.
        table: address of the twiddles, as `fold_twiddles` makes them.
        source: the transform Z.
        target: where the spectrum X is written; it does not overlap `source`.
    """
    f = m.f

    def at(k: IndexValue, index: IndexValue, mirror: IndexValue) -> None:
        twiddle = m.constant(table, k)
        target.store(k, unpacked(m, source.load(index), source.load(mirror), twiddle))

    at(0, 0, 0)
    at(half, 0, 0)
    f.for_range(half, lambda k: at(k, k, f.isub(half, k)), start=1)


def pack_tile(m: ComplexMath, half: Value, table: Value, source: Tile, target: Tile) -> None:
    """Write the `half` elements to be transformed to `target`, real and imaginary parts swapped.

    Args:
        m: emits complex arithmetic.
        half: elements of `target`.
        table: address of the twiddles, as `fold_twiddles` makes them for an inverse.
        source: the `half` + 1 elements of the spectrum X.
        target: where Z is written; it does not overlap `source`.
    """
    f = m.f

    def real(value: Complex) -> Complex:
        # The first and last elements of a real signal's spectrum are real: their imaginary
        # parts are ignored.
        return Complex(value.re, f.zero(m.type))

    first = packed(m, real(source.load(0)), real(source.load(half)), m.constant(table, 0))
    target.store(0, _swapped(first))

    def at(k: Value) -> None:
        mirrored = source.load(f.isub(half, k))
        value = packed(m, source.load(k), mirrored, m.constant(table, k))
        target.store(k, _swapped(value))

    f.for_range(half, at, start=1)


def extend_tile(m: ComplexMath, length: Value, tile: Tile) -> None:
    """Fill the second half of a real signal's spectrum, in place; swap the parts of all of it.

    `m` emits complex arithmetic; `tile` has `length` elements, of which length/2 + 1 are given.
    """
    f = m.f
    tile.store(0, _swapped(Complex(tile.load(0).re, f.zero(m.type))))

    def mirror(k: Value) -> None:
        value = tile.load(k)
        tile.store(k, _swapped(value))
        tile.store(f.isub(length, k), _swapped(m.conj(value)))

    f.for_range(f.iadd(f.idiv(length, 2), 1), mirror, start=1)


def _swapped(value: Complex) -> Complex:
    return Complex(value.im, value.re)
