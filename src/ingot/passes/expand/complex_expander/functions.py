# SPDX-License-Identifier: Apache-2.0
"""Complex functions as formulas over their real and imaginary parts, one per opcode.

`UNARY` and `BINARY` give a complex result, `TO_REAL` a real one, `COMPARISONS` a pred.

Special values are those of C99's Annex G, with the sign of zeros: `sqrt(-1-0i)` is `-i`. XLA:CPU
agrees but for some zeros' signs and some infinities that it loses (`exp(1-0i)`, `|inf+nan i|`), and
but for `exp`, `sine` and their kin at infinite angles, where C99 would have zeros here and there.

Source: C99 Annex G; W. Kahan, "Branch cuts for complex elementary functions" (1987) for `sqrt`,
`tanh` and the inverse functions; power and log1p as XLA's elemental_ir_emitter.cc.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ingot.hlo.dtype import F32, F64
from ingot.passes.expand.complex_expander.numbers import (
    INFINITY,
    NAN,
    Complex,
    Real,
    absolute,
    angle,
    choose,
    divide,
    scaled,
)

SATURATED = 20.0
"""tanh is 1 in f64 beyond this."""

LARGE = 1e18
"""1 is nothing beside the square of this (in f32; of its square in f64)."""


def _zero_times(part: Real, product: Real) -> Real:
    """Return a product with (a function of) `part`: a zero beats infinities and NaN."""
    return (part.is_zero & product.is_nan).choose(part, product)


# ---- sign, roots


def sign(z: Complex) -> Complex:
    """Return z / |z|, and zeros unchanged."""
    size = absolute(z)
    return choose(size.is_zero, z, Complex(z.re / size, z.im / size))


def sqrt(z: Complex) -> Complex:
    """The root with a real part that is not negative (Kahan's CSQRT, scaled by the larger part)."""
    larger, root, other, _ = _scaled_root(z)
    size, positive = larger.apply("sqrt"), z.re.compare("GE", 0.0)
    re = size * positive.choose(root, other)
    im = size * positive.choose(other, root)
    # Beside an infinite real part, a finite imaginary part is nothing and NaN stays NaN.
    flat = z.re.is_infinite & z.im.magnitude.compare("NE", INFINITY)
    level, infinity = z.im.magnitude * 0.0, z.re.constant(INFINITY)
    re = flat.choose(positive.choose(infinity, level), re)
    im = flat.choose(positive.choose(level, infinity), im)
    return Complex(re, z.im.signed(im))


def _scaled_root(z: Complex) -> tuple[Real, Real, Real, Real]:
    """Return (larger part, r, s, |z| / larger): the root is sqrt(larger) times r, s or s, r."""
    larger, ratio = scaled(z.re, z.im)
    wide = z.re.magnitude.compare("GE", z.im.magnitude)
    one = ratio.constant(1.0)
    hypot = (ratio * ratio + 1.0).apply("sqrt")
    root = ((wide.choose(one, ratio) + hypot) * 0.5).apply("sqrt")
    return larger, root, wide.choose(ratio, one) * 0.5 / root, hypot


def rsqrt(z: Complex) -> Complex:
    """1 / sqrt(z): the root's conjugate over |z|."""
    larger, root, other, hypot = _scaled_root(z)
    inverse = larger.constant(1.0) / (larger.apply("sqrt") * hypot)
    positive, zero = z.re.compare("GE", 0.0), larger.constant(0.0)
    re, im = positive.choose(root, other) * inverse, positive.choose(other, root) * inverse
    im = larger.is_zero.choose(larger.constant(NAN), im)
    # Zeros have the signs that 1 / sqrt(z) has.
    flat = z.im.magnitude.compare("NE", INFINITY)
    swapped = flat & positive.apply("not") & re.is_zero
    return Complex(
        swapped.choose(z.im.signed(zero), re),
        (flat & positive).choose(zero, -zero) - z.im.signed(im),
    )


# ---- exponentials and logarithms


NEAR_OVERFLOW = {F32: (88.0, 32.0), F64: (704.0, 64.0)}
"""From where on e^x is computed of a lower x, and by how much: x less that is exact."""


def _lowered(x: Real, size: Real) -> tuple[Real, Real]:
    """Return (y, factor) where `size` (x or |x|) is great: e^x is factor e^y.

    There e^x overflows, and its product with a small sine or cosine need not.
    """
    limit, less = NEAR_OVERFLOW[x.value.shape.dtype]
    great = size.compare("GT", limit)
    lower = great.choose(x - x.signed(less), x)
    return lower, great.choose(x.constant(math.exp(less)), x.constant(1.0))


def exponential(z: Complex) -> Complex:
    """e^x (cos y + i sin y); of c64 with e^x and the products in f64, where neither overflows."""
    element = z.re.value.shape.dtype
    if element is F64:
        lower, factor = _lowered(z.re, z.re)
    else:
        lower, factor = z.re.convert(F64), None
    size = lower.apply("exponential")
    re, im = (size * z.im.apply(function).convert(F64) for function in ("cosine", "sine"))
    if factor is not None:
        re, im = re * factor, im * factor
    re, im = re.convert(element), im.convert(element)
    gone, zero = z.re.compare("EQ", -INFINITY) & re.is_nan, z.re.constant(0.0)
    return Complex(gone.choose(zero, re), gone.choose(zero, _zero_times(z.im, im)))


def exponential_minus_one(z: Complex) -> Complex:
    """(e^x - 1) cos y + (cos y - 1) + i e^x sin y, with cos y - 1 as -2 sin(y/2)^2."""
    lower, factor = _lowered(z.re, z.re)
    less = lower.apply("exponential-minus-one")
    half = (z.im * 0.5).apply("sine")
    cosine_less = half * half * -2.0
    re = less * z.im.apply("cosine") * factor + cosine_less
    im = lower.apply("exponential") * z.im.apply("sine") * factor
    return Complex(z.im.is_zero.choose(less * factor, re), _zero_times(z.im, im))


def log(z: Complex) -> Complex:
    """Return log |z| + i arg z."""
    larger, ratio = scaled(z.re, z.im)
    size = larger.apply("log") + (ratio * ratio).apply("log-plus-one") * 0.5
    return Complex(size, angle(z))


def log_plus_one(z: Complex) -> Complex:
    """log(1 + z), accurate near 0."""
    more = z.plus(1.0)
    larger, ratio = scaled(more.re, more.im)
    near = more.re.compare("GT", z.im.magnitude)
    # Elsewhere the larger part is exact: the sum with 1 is rounded only where 1 + x is positive.
    size = near.choose(z.re.apply("log-plus-one"), larger.apply("log"))
    return Complex(size + (ratio * ratio).apply("log-plus-one") * 0.5, angle(more))


def logistic(z: Complex) -> Complex:
    """1 / (1 + e^-z), by e^-|x|, which does not overflow.

    Near the poles 1 + e^-|x| cos y is (1 - e^-|x|) + 2 e^-|x| cos(y/2)^2, without cancellation.
    """
    falling, half = -z.re.magnitude, z.im * 0.5
    size, cosine, sine = falling.apply("exponential"), half.apply("cosine"), half.apply("sine")
    below = size * cosine * cosine * 2.0 - falling.apply("exponential-minus-one")
    left, turn = z.re.compare("LT", 0.0), size * sine * cosine * 2.0
    turn = left.choose(turn, -turn)
    e = Complex(size * (cosine - sine) * (cosine + sine), turn)
    return divide(choose(left, e, z.constant(1.0)), Complex(below, turn))


def power(z: Complex, w: Complex) -> Complex:
    """e^(w log z), with z^0 = 1, 1^w = 1 and 0^w = 0 for a positive real w."""
    size, turn = absolute(z), angle(z)
    scale = size.apply("power", w.re) * (-w.im * turn).apply("exponential")
    phase = w.re * turn + w.im * size.apply("log")
    found = Complex(scale * phase.apply("cosine"), scale * phase.apply("sine"))
    one, zero = z.constant(1.0), z.constant(0.0)
    real = w.im.is_zero
    rises, falls = w.re.compare("GT", 0.0), w.re.compare("LT", 0.0)
    found = choose(size.is_zero & real & rises, zero, found)
    flat = z.re.compare("EQ", INFINITY) & z.im.is_zero & real
    found = choose(flat & rises, z.constant(INFINITY), found)
    found = choose(flat & falls, zero, found)
    is_one = z.re.compare("EQ", 1.0) & z.im.is_zero
    return choose(is_one | (w.re.is_zero & real), one, found)


# ---- circular and hyperbolic functions


def sinh(z: Complex) -> Complex:
    """Return sinh x cos y + i cosh x sin y."""
    lower, factor = _lowered(z.re, z.re.magnitude)
    re = lower.apply("sinh") * z.im.apply("cosine") * factor
    im = lower.apply("cosh") * z.im.apply("sine") * factor
    return Complex(_zero_times(z.re, re), _zero_times(z.im, im))


def cosh(z: Complex) -> Complex:
    """Return cosh x cos y + i sinh x sin y."""
    lower, factor = _lowered(z.re, z.re.magnitude)
    re = lower.apply("cosh") * z.im.apply("cosine") * factor
    im = lower.apply("sinh") * z.im.apply("sine") * factor
    # On an axis the product of the signs is the zero that is meant.
    axis = z.re.is_zero | z.im.is_zero
    return Complex(re, axis.choose(z.re.apply("sign") * z.im.apply("sign"), im))


def sine(z: Complex) -> Complex:
    """-i sinh(i z)."""
    return sinh(z.times_i()).times_minus_i()


def cosine(z: Complex) -> Complex:
    """cosh(i z)."""
    return cosh(z.times_i())


def tanh(z: Complex) -> Complex:
    """Kahan's CTANH: with t = tan y, b = 1 + t^2, s = sinh x: (b s sqrt(1+s^2) + i t)/(1+b s^2)."""
    t, s = z.im.apply("tan"), z.re.apply("sinh")
    b = t * t + 1.0
    below = b * s * s + 1.0
    re = b * (s * s + 1.0).apply("sqrt") * s / below
    flat = z.re.magnitude.compare("GT", SATURATED) & (z.re.is_infinite | t.is_nan.apply("not"))
    re = flat.choose(z.re.signed(1.0), re)
    im = z.re.is_infinite.choose(t.signed(0.0), t / below)
    return Complex(re, _zero_times(z.im, im))


def tan(z: Complex) -> Complex:
    """-i tanh(i z)."""
    return tanh(z.times_i()).times_minus_i()


# ---- their inverses


def _is_large(z: Complex, bound: float) -> Real:
    """Whether z is so large that z^2 + 1 is z^2; `bound` in f32, its square in f64."""
    limit = bound if z.re.value.shape.dtype is F32 else bound * bound
    return z.re.magnitude.apply("maximum", z.im.magnitude).compare("GT", limit) | (
        z.re.is_infinite | z.im.is_infinite
    )


def _log_twice(z: Complex) -> Real:
    return log(z).re + math.log(2.0)


def asin(z: Complex) -> Complex:
    """Kahan's CASIN; i log(2z) rotated by a quarter where z is large."""
    less, more = sqrt((-z).plus(1.0)), sqrt(z.plus(1.0))
    re = z.re.apply("atan2", less.re * more.re - less.im * more.im)
    exact = Complex(re, (less.re * more.im - less.im * more.re).apply("asinh"))
    asymptotic = Complex(z.re.apply("atan2", z.im.magnitude), z.im.signed(_log_twice(z)))
    return choose(_is_large(z, LARGE), asymptotic, exact)


def acos(z: Complex) -> Complex:
    """Kahan's CACOS; i log(2z) where z is large."""
    less, more = sqrt((-z).plus(1.0)), sqrt(z.plus(1.0))
    re = less.re.apply("atan2", more.re) * 2.0
    exact = Complex(re, (more.re * less.im - more.im * less.re).apply("asinh"))
    asymptotic = Complex(z.im.magnitude.apply("atan2", z.re), (-z.im).signed(_log_twice(z)))
    return choose(_is_large(z, LARGE), asymptotic, exact)


def acosh(z: Complex) -> Complex:
    """Kahan's CACOSH; log(2z) where z is large."""
    less, more = sqrt(z.plus(-1.0)), sqrt(z.plus(1.0))
    re = (less.re * more.re + less.im * more.im).apply("asinh")
    exact = Complex(re, less.im.apply("atan2", more.re) * 2.0)
    return choose(_is_large(z, LARGE), Complex(_log_twice(z), angle(z)), exact)


def asinh(z: Complex) -> Complex:
    """Return i asin(-i z)."""
    return asin(z.times_minus_i()).times_i()


def atanh(z: Complex) -> Complex:
    """log1p(4x / ((1-x)^2 + y^2)) / 4 + i atan2(2y, (1-x)(1+x) - y^2) / 2."""
    size = z.re.magnitude
    less, square = -size + 1.0, z.im * z.im
    re = (size * 4.0 / (less * less + square)).apply("log-plus-one") * 0.25
    im = (z.im * 2.0).apply("atan2", less * (size + 1.0) - square) * 0.5
    is_large = _is_large(z, LARGE)
    re = is_large.choose(z.re.constant(0.0), re)
    return Complex(z.re.signed(re), is_large.choose(z.im.signed(math.pi / 2), im))


def atan2(y: Complex, x: Complex) -> Complex:
    """-i log((x + i y) / sqrt(x^2 + y^2))."""
    return log(divide(x + y.times_i(), sqrt(x * x + y * y))).times_minus_i()


# ---- order: by real part, then by imaginary part


def equal(a: Complex, b: Complex) -> Real:
    """Whether both parts are equal."""
    return a.re.compare("EQ", b.re) & a.im.compare("EQ", b.im)


def not_equal(a: Complex, b: Complex) -> Real:
    """Whether a part differs."""
    return a.re.compare("NE", b.re) | a.im.compare("NE", b.im)


def _ordered(direction: str) -> Callable[[Complex, Complex], Real]:
    def compare(a: Complex, b: Complex) -> Real:
        before = a.re.compare(direction[0] + "T", b.re)
        return before | (a.re.compare("EQ", b.re) & a.im.compare(direction, b.im))

    return compare


def _extremum(direction: str) -> Callable[[Complex, Complex], Complex]:
    compare = _ordered(direction)

    def function(a: Complex, b: Complex) -> Complex:
        a_nan, b_nan = a.re.is_nan | a.im.is_nan, b.re.is_nan | b.im.is_nan
        return choose(a_nan | (b_nan.apply("not") & compare(a, b)), a, b)

    return function


maximum, minimum = _extremum("GE"), _extremum("LE")


def clamp(low: Complex, z: Complex, high: Complex) -> Complex:
    """The value of `z` held between `low` and `high`, ordered by real, then imaginary parts."""
    return minimum(maximum(z, low), high)


_FUNCTIONS = (
    *(acos, acosh, asin, asinh, atanh, cosh, cosine, exponential, exponential_minus_one, log),
    *(log_plus_one, logistic, rsqrt, sign, sine, sinh, sqrt, tan, tanh),
)
UNARY: Mapping[str, Callable[[Complex], Complex]] = {
    function.__name__.replace("_", "-"): function for function in _FUNCTIONS
}
BINARY: Mapping[str, Callable[[Complex, Complex], Complex]] = {
    "atan2": atan2,
    "divide": divide,
    "maximum": maximum,
    "minimum": minimum,
    "multiply": lambda a, b: a * b,
    "power": power,
}
TO_REAL: Mapping[str, Callable[[Complex], Real]] = {
    "abs": absolute,
    "imag": lambda z: z.im,
    "real": lambda z: z.re,
}
COMPARISONS: Mapping[str, Callable[[Complex, Complex], Real]] = {
    "EQ": equal,
    "GE": _ordered("GE"),
    "GT": _ordered("GT"),
    "LE": _ordered("LE"),
    "LT": _ordered("LT"),
    "NE": not_equal,
}
