# SPDX-License-Identifier: Apache-2.0
"""remainder: the exact float remainder with the dividend's sign (C's fmod, HLO's `remainder`).

Long division in base 2^b: while some lane's rest is not below its divisor, the divisor times a
power of two is subtracted as often as fits. Each step is exact, so the result is. Nearly always
one step suffices. f32 divides inside f64; f64 needs `llvm.fma` (libm's, where the CPU has none).
"""

from __future__ import annotations

from ingot.llvm.math.emitter import INFINITY, NAN, MathEmitter
from ingot.llvm.types import F64
from ingot.llvm.values import Value

# Bits of the quotient per step, so that quotient * divisor is exact with one correction.
_STEP_BITS = {True: 28, False: 52}


def remainder(m: MathEmitter, x: Value, y: Value) -> Value:
    """Return x - y * trunc(x / y), exactly; NaN for y = 0 or infinite x, x for infinite y."""
    if not m.is_f32:
        rest, undefined = _remainder(m, x, y, from_f32=False)
        return m.select(undefined, NAN, m.copysign(rest, x))
    wide = m.over(F64)
    operands = [m.builder.fpext(item, wide.type) for item in (x, y)]
    rest, undefined = _remainder(wide, *operands, from_f32=True)
    # The sign in f32: LLVM would round the sign's f64 to f16 by a library call.
    return m.select(undefined, NAN, m.copysign(m.builder.fptrunc(rest, m.type), x))


def _remainder(m: MathEmitter, x: Value, y: Value, from_f32: bool) -> tuple[Value, Value]:
    """Return the rest's size, and where it is not defined."""
    builder = m.builder
    dividend, divisor = m.abs(x), m.abs(y)
    undefined = builder.or_(m.compare("ueq", dividend, INFINITY), m.compare("ueq", divisor, 0.0))
    undefined = builder.or_(undefined, m.compare("uno", x, y))
    # Lanes without work get 0 mod 1, so that they do not keep the loop alive.
    dividend = m.select(undefined, 0.0, dividend)
    divisor = m.select(undefined, 1.0, divisor)
    steps = _STEP_BITS[from_f32]

    def unfinished(values: list[Value]) -> Value:
        return builder.reduce("or", m.compare("oge", values[0], divisor))

    def step(values: list[Value]) -> list[Value]:
        return [_step(m, values[0], divisor, steps)]

    (rest,) = builder.while_([dividend], unfinished, step)
    return rest, undefined


def _step(m: MathEmitter, rest: Value, divisor: Value, steps: int) -> Value:
    builder = m.builder
    difference = builder.sub(_exponent(m, rest), _exponent(m, divisor))
    shift = builder.sub(difference, m.i(steps))
    zero = m.i(0)
    shift = builder.select(builder.icmp("sgt", shift, zero), shift, zero)
    first = builder.lshr(shift, m.i(1))
    second = builder.sub(shift, first)
    scaled = m.mul(m.mul(divisor, m.power_of_two(first)), m.power_of_two(second))
    quotient = builder.intrinsic("llvm.trunc", m.type, [m.div(rest, scaled)])
    lower = _exact_difference(m, quotient, scaled, rest, steps)
    # The rounded quotient may be one too large.
    lower = m.select(m.compare("olt", lower, 0.0), m.add(lower, scaled), lower)
    return m.select(m.compare("oge", rest, divisor), lower, rest)


def _exact_difference(
    m: MathEmitter, quotient: Value, scaled: Value, rest: Value, steps: int
) -> Value:
    """Return rest - quotient * scaled; the divisor of an f32 has 24 bits, so its product fits."""
    if steps == _STEP_BITS[True]:
        return m.sub(rest, m.mul(quotient, scaled))
    return m.builder.fma(m.neg(quotient), scaled, rest)


def _exponent(m: MathEmitter, a: Value) -> Value:
    """Return floor(log2 a) plus a constant, denormals included."""
    builder = m.builder
    denormal = m.compare("olt", a, 2.0**-1022)
    normal = m.select(denormal, m.mul(a, m.c(2.0**54)), a)
    exponent = builder.lshr(m.bits(normal), m.i(52))
    return builder.select(denormal, builder.sub(exponent, m.i(54)), exponent)
