# SPDX-License-Identifier: Apache-2.0
"""Butterflies: discrete Fourier transforms of a few complex vectors in registers.

The bottom of the FFT emitters. `butterfly(math, values)` returns the transform of a few vectors: 2,
4 and 8 by the usual factorization, odd primes by the symmetry of the matrix of cosines and sines,
products of those along two dimensions.

Real transforms of even length take a half-length complex transform apart, or pack one. A real
sequence x of length 2h is read as z = x[0::2] + i x[1::2]. With Z its transform, E and O those of
the even and odd elements: Z = E + iO, X[k] = E[k] + w^k O[k], where E[k] = (Z[k] + conj Z[h-k]) /
2, O[k] = (Z[k] - conj Z[h-k]) / 2i, w = exp(-2 pi i / 2h).

Source: W. H. Press et al., Numerical Recipes, section 12.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ingot.emit.values.indices import IndexValue
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import Type
from ingot.llvm.values import Value
from ingot.support.records import record


class Complex(NamedTuple):
    """Real and imaginary vectors."""

    re: Value
    im: Value


@record
class ComplexMath:
    """Arithmetic on complex vectors in one function.

    Attributes:
        f: the function.
        type: LLVM type of the real and of the imaginary vectors.
        fma: whether the target fuses multiplication and addition.
    """

    f: FunctionBuilder
    type: Type
    fma: bool

    def add(self, a: Complex, b: Complex) -> Complex:
        """Return a + b."""
        return Complex(self.f.add(a.re, b.re), self.f.add(a.im, b.im))

    def sub(self, a: Complex, b: Complex) -> Complex:
        """Return a - b."""
        return Complex(self.f.sub(a.re, b.re), self.f.sub(a.im, b.im))

    def mul(self, a: Complex, b: Complex) -> Complex:
        """Return a * b."""
        f = self.f
        re = self.madd(a.re, b.re, f.neg(f.mul(a.im, b.im)))
        return Complex(re, self.madd(a.re, b.im, f.mul(a.im, b.re)))

    def conj(self, a: Complex) -> Complex:
        """Return the conjugate."""
        return Complex(a.re, self.f.neg(a.im))

    def scale(self, a: Complex, factor: float) -> Complex:
        """Return a times a real constant."""
        constant = self.f.const(self.type, factor)
        return Complex(self.f.mul(a.re, constant), self.f.mul(a.im, constant))

    def times_i(self, a: Complex, *, negative: bool) -> Complex:
        """Return i * a, or -i * a."""
        if negative:
            return Complex(a.im, self.f.neg(a.re))
        return Complex(self.f.neg(a.im), a.re)

    def scaled(self, a: Complex, factor: Value) -> Complex:
        """Return a times a real vector."""
        return Complex(self.f.mul(a.re, factor), self.f.mul(a.im, factor))

    def swapped(self, a: Complex, swaps: Value) -> Complex:
        """Return a with its parts exchanged where `swaps` holds."""
        return Complex(self.f.select(swaps, a.im, a.re), self.f.select(swaps, a.re, a.im))

    def constant(self, table: Value, index: IndexValue) -> Complex:
        """Return a complex number of a table, in every lane."""
        f, scalar = self.f, self.type.element
        at = f.gep(table, f.imul(index, 2 * scalar.bytes))
        parts = (f.load(scalar, f.gep(at, n * scalar.bytes), invariant=True) for n in (0, 1))
        return Complex(*(f.splat(part, self.type.lanes) for part in parts))

    def zero(self) -> Complex:
        """Return 0."""
        return Complex(self.f.zero(self.type), self.f.zero(self.type))

    def madd(self, a: Value, b: Value, c: Value) -> Value:
        """Return a * b + c."""
        return self.f.fma(a, b, c) if self.fma else self.f.add(self.f.mul(a, b), c)


def butterfly(m: ComplexMath, values: Sequence[Complex]) -> list[Complex]:
    """Return the transform of `values`, whose number is small."""
    count = len(values)
    if count == 1:
        return list(values)
    if count == 2:
        return [m.add(*values), m.sub(*values)]
    if count == 4:
        return _four(m, values)
    if count == 8:
        return _eight(m, values)
    first = next((part for part in (4, 2, 3, 5, 7) if count % part == 0 and part < count), 0)
    return _of_two_factors(m, values, first) if first else _odd(m, values)


def _of_two_factors(m: ComplexMath, values: Sequence[Complex], rows: int) -> list[Complex]:
    """Return the transform of `rows * columns` values: one along each of two dimensions.

    If the factors have no common divisor, the indices x = columns i + rows j (mod count) leave no
    roots between them (Good and Thomas); else those of x = columns i + j are constants.
    """
    count = len(values)
    columns = count // rows
    is_coprime = math.gcd(rows, columns) == 1
    step = rows if is_coprime else 1
    table = [
        butterfly(m, [values[(columns * i + step * j) % count] for i in range(rows)])
        for j in range(columns)
    ]
    results = list(values)
    for i in range(rows):
        line = [table[j][i] for j in range(columns)]
        if not is_coprime:
            line = [_rotated(m, value, i * j, count) for j, value in enumerate(line)]
        for j, value in enumerate(butterfly(m, line)):
            results[_index_of(i, j, rows, columns) if is_coprime else i + rows * j] = value
    return results


def _index_of(i: int, j: int, rows: int, columns: int) -> int:
    """Return the number below rows * columns that is i modulo rows and j modulo columns."""
    return next(k for k in range(i, rows * columns, rows) if k % columns == j)


def _rotated(m: ComplexMath, value: Complex, turns: int, count: int) -> Complex:
    """Return a value times a root of unity: `turns` of `count`."""
    if turns % count == 0:
        return value
    if 4 * turns == count:
        return m.times_i(value, negative=True)
    angle = -2 * math.pi * turns / count
    return m.mul(value, Complex(*_constants(m, math.cos(angle), math.sin(angle))))


def _four(m: ComplexMath, values: Sequence[Complex]) -> list[Complex]:
    a, b, c, d = values
    even, odd = [m.add(a, c), m.sub(a, c)], [m.add(b, d), m.sub(b, d)]
    rotated = m.times_i(odd[1], negative=True)
    first = m.add(even[0], odd[0]), m.add(even[1], rotated)
    return [*first, m.sub(even[0], odd[0]), m.sub(even[1], rotated)]


def _eight(m: ComplexMath, values: Sequence[Complex]) -> list[Complex]:
    f = m.f
    even = _four(m, values[0::2])
    odd = _four(m, values[1::2])
    root = f.const(m.type, math.sqrt(0.5))

    def eighth(a: Complex) -> Complex:
        """Return a times the first eighth root of unity."""
        total, difference = f.add(a.re, a.im), f.sub(a.re, a.im)
        return Complex(f.mul(total, root), f.mul(f.neg(difference), root))

    rotated = m.times_i(odd[3], negative=True)
    odd = [
        odd[0],
        eighth(odd[1]),
        m.times_i(odd[2], negative=True),
        eighth(rotated),
    ]
    pairs = list(zip(even, odd, strict=True))
    return [*(m.add(a, b) for a, b in pairs), *(m.sub(a, b) for a, b in pairs)]


def _odd(m: ComplexMath, values: Sequence[Complex]) -> list[Complex]:
    """Pairs k and n-k share their cosines and have opposite sines."""
    count = len(values)
    half = count // 2
    sums = [m.add(values[k], values[count - k]) for k in range(1, half + 1)]
    differences = [m.sub(values[k], values[count - k]) for k in range(1, half + 1)]
    total = values[0]
    for item in sums:
        total = m.add(total, item)
    results = [total] * count
    for j in range(1, half + 1):
        even, odd = values[0], m.zero()
        for k in range(1, half + 1):
            angle = 2 * math.pi * (j * k % count) / count
            cosine, sine = _constants(m, math.cos(angle), math.sin(angle))
            a, b = sums[k - 1], differences[k - 1]
            even = Complex(m.madd(a.re, cosine, even.re), m.madd(a.im, cosine, even.im))
            odd = Complex(m.madd(b.re, sine, odd.re), m.madd(b.im, sine, odd.im))
        rotated = m.times_i(odd, negative=True)
        results[j], results[count - j] = m.add(even, rotated), m.sub(even, rotated)
    return results


def _constants(m: ComplexMath, *values: float) -> list[Value]:
    return [m.f.const(m.type, value) for value in values]


def unpacked(m: ComplexMath, element: Complex, mirrored: Complex, twiddle: Complex) -> Complex:
    """Return X[k] of `element` Z[k], `mirrored` Z[h-k] (Z[0] for both ends) and `twiddle` w^k."""
    return m.add(*halves(m, element, mirrored, twiddle))


def halves(
    m: ComplexMath, element: Complex, mirrored: Complex, twiddle: Complex
) -> tuple[Complex, Complex]:
    """Return E[k] and w^k O[k]: their sum is X[k], the conjugate of their difference X[h-k].

    `element`, `mirrored` and `twiddle` are those of `unpacked`.
    """
    even = m.scale(m.add(element, m.conj(mirrored)), 0.5)
    odd = m.scale(m.times_i(m.sub(element, m.conj(mirrored)), negative=True), 0.5)
    return even, m.mul(odd, twiddle)


def packed(m: ComplexMath, element: Complex, mirrored: Complex, twiddle: Complex) -> Complex:
    """Return Z[k] of `element` X[k], `mirrored` X[h-k] and `twiddle` w^-k."""
    even = m.scale(m.add(element, m.conj(mirrored)), 0.5)
    odd = m.scale(m.mul(m.sub(element, m.conj(mirrored)), twiddle), 0.5)
    return m.add(even, m.times_i(odd, negative=False))
