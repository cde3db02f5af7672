# SPDX-License-Identifier: Apache-2.0
"""atan2, atan, asin, acos.

atan2 divides the smaller magnitude by the larger, takes one polynomial on [0, 1] and adds the
multiple of pi/2 in two parts; atan is atan2 of one. asin and acos use a polynomial on [0, 1/2] and
the half-angle identity beyond.
"""

from __future__ import annotations

from ingot.llvm.math import coefficients as rows
from ingot.llvm.math.emitter import NAN, MathEmitter
from ingot.llvm.math.trigonometric import PI_HALF, PI_HALF_LOW
from ingot.llvm.values import Value

_PI_HALF_F32, _PI_HALF_LOW_F32 = 1.5707963705062866, -4.371138828673793e-08


def atan2(m: MathEmitter, y: Value, x: Value) -> Value:
    """Return the angle of the point (x, y), with the signs of zeros and the infinities of C."""
    size_y, size_x = m.abs(y), m.abs(x)
    swapped = m.compare("ogt", size_y, size_x)
    smaller = m.select(swapped, size_x, size_y)
    larger = m.select(swapped, size_y, size_x)
    # 0/0 is 0 and inf/inf is 1 here: both are the case of equal magnitudes.
    ratio = m.div(smaller, m.select(m.compare("oeq", larger, 0.0), 1.0, larger))
    ratio = m.select(m.compare("oeq", smaller, float("inf")), 1.0, ratio)
    negative_x = m.builder.icmp("slt", m.bits(x), m.i(0))
    high = m.pick(_PI_HALF_F32, PI_HALF)
    low = m.pick(_PI_HALF_LOW_F32, PI_HALF_LOW)
    base = m.select(swapped, high, m.select(negative_x, m.add(high, high), m.c(0.0)))
    base_low = m.select(swapped, low, m.select(negative_x, m.add(low, low), m.c(0.0)))
    subtract = m.builder.xor(swapped, negative_x)
    z = m.mul(ratio, ratio)
    row = rows.ATAN_F32 if m.is_f32 else rows.ATAN_F64
    tail = m.mul(m.mul(m.polynomial(z, row), z), ratio)
    ratio = m.select(subtract, m.neg(ratio), ratio)
    tail = m.select(subtract, m.neg(tail), tail)
    main, error = m.two_sum(base, ratio)
    angle = m.add(main, m.add(tail, m.add(error, base_low)))
    return m.select(m.compare("uno", x, y), NAN, m.copysign(angle, y))


def atan(m: MathEmitter, x: Value) -> Value:
    """Return the inverse tangent."""
    return atan2(m, x, m.c(1.0))


def _half_angle(m: MathEmitter, x: Value) -> tuple[Value, Value, Value]:
    """Return (is |x| at most 1/2, s, tail): asin of s is s + tail."""
    a = m.abs(x)
    inside = m.compare("ole", a, 0.5)
    z = m.select(inside, m.mul(x, x), m.mul(m.sub(m.c(1.0), a), m.c(0.5)))
    s = m.select(inside, a, m.sqrt(z))
    return inside, s, m.mul(m.mul(m.polynomial(z, rows.ASIN_F64), z), s)


def asin(m: MathEmitter, x: Value) -> Value:
    """Return the inverse sine, NaN outside [-1, 1] (f64)."""
    inside, s, tail = _half_angle(m, x)
    doubled = m.add(s, s)
    rest = m.sub(m.add(tail, tail), m.c(PI_HALF_LOW))
    main, error = m.two_sum(m.c(PI_HALF), m.neg(doubled))
    outside = m.add(main, m.sub(error, rest))
    return m.copysign(m.select(inside, m.add(s, tail), outside), x)


def acos(m: MathEmitter, x: Value) -> Value:
    """Return the inverse cosine, NaN outside [-1, 1] (f64)."""
    inside, s, tail = _half_angle(m, x)
    negative = m.compare("olt", x, 0.0)
    # Inside: pi/2 - asin x. Outside: 2 asin(s), taken from pi for negative x.
    flip = m.builder.xor(inside, negative)
    factor = m.select(inside, 1.0, 2.0)
    s, tail = m.mul(s, factor), m.mul(tail, factor)
    base = m.select(inside, PI_HALF, m.select(negative, 2 * PI_HALF, 0.0))
    low = m.select(inside, PI_HALF_LOW, m.select(negative, 2 * PI_HALF_LOW, 0.0))
    s, tail = m.select(flip, m.neg(s), s), m.select(flip, m.neg(tail), tail)
    main, error = m.two_sum(base, s)
    return m.add(main, m.add(tail, m.add(error, low)))
