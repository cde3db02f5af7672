"""Butterflies: discrete Fourier transforms of a few complex vectors in registers.

The bottom of the FFT emitters. `butterfly(math, values, inverse)` returns the transform of 1 to
`LARGEST_PRIME` vectors: 2, 4 and 8 by the usual factorization, odd primes by the symmetry of the
matrix of cosines and sines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import Type
from ingot.llvm.values import Value

LARGEST_PRIME = 31
"""A longer prime length is a convolution (Bluestein's algorithm)."""


class Complex(NamedTuple):
    """Real and imaginary vectors."""

    re: Value
    im: Value


@dataclass(frozen=True, slots=True)
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
        if factor == 1.0:
            return a
        constant = self.f.const(self.type, factor)
        return Complex(self.f.mul(a.re, constant), self.f.mul(a.im, constant))

    def times_i(self, a: Complex, *, negative: bool) -> Complex:
        """Return i * a, or -i * a."""
        if negative:
            return Complex(a.im, self.f.neg(a.re))
        return Complex(self.f.neg(a.im), a.re)

    def zero(self) -> Complex:
        """Return 0."""
        return Complex(self.f.zero(self.type), self.f.zero(self.type))

    def madd(self, a: Value, b: Value, c: Value) -> Value:
        """Return a * b + c."""
        return self.f.fma(a, b, c) if self.fma else self.f.add(self.f.mul(a, b), c)


def butterfly(m: ComplexMath, values: Sequence[Complex], inverse: bool) -> list[Complex]:
    """Return the transform of `values`, whose number is 1, 2, 4, 8 or an odd prime."""
    count = len(values)
    if count == 1:
        return list(values)
    if count == 2:
        return [m.add(*values), m.sub(*values)]
    if count == 4:
        return _four(m, values, inverse)
    return _eight(m, values, inverse) if count == 8 else _odd(m, values, inverse)


def _four(m: ComplexMath, values: Sequence[Complex], inverse: bool) -> list[Complex]:
    a, b, c, d = values
    even, odd = [m.add(a, c), m.sub(a, c)], [m.add(b, d), m.sub(b, d)]
    turned = m.times_i(odd[1], negative=not inverse)
    first = m.add(even[0], odd[0]), m.add(even[1], turned)
    return [*first, m.sub(even[0], odd[0]), m.sub(even[1], turned)]


def _eight(m: ComplexMath, values: Sequence[Complex], inverse: bool) -> list[Complex]:
    f = m.f
    even = _four(m, values[0::2], inverse)
    odd = _four(m, values[1::2], inverse)
    root = f.const(m.type, math.sqrt(0.5))

    def eighth(a: Complex) -> Complex:
        """Return a times the first eighth root of unity in the transform's direction."""
        total, difference = f.add(a.re, a.im), f.sub(a.re, a.im)
        if inverse:
            return Complex(f.mul(difference, root), f.mul(total, root))
        return Complex(f.mul(total, root), f.mul(f.neg(difference), root))

    turned = m.times_i(odd[3], negative=not inverse)
    odd = [
        odd[0],
        eighth(odd[1]),
        m.times_i(odd[2], negative=not inverse),
        eighth(turned),
    ]
    pairs = list(zip(even, odd, strict=True))
    return [*(m.add(a, b) for a, b in pairs), *(m.sub(a, b) for a, b in pairs)]


def _odd(m: ComplexMath, values: Sequence[Complex], inverse: bool) -> list[Complex]:
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
        turned = m.times_i(odd, negative=not inverse)
        results[j], results[count - j] = m.add(even, turned), m.sub(even, turned)
    return results


def _constants(m: ComplexMath, *values: float) -> list[Value]:
    return [m.f.const(m.type, value) for value in values]
