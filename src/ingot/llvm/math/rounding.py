# SPDX-License-Identifier: Apache-2.0
"""floor, ceil, round-nearest-even, round-nearest-afz: exact, one rounding mode each.

The CPU rounds in one instruction from AVX on; the x86-64 baseline calls libm per lane. Rounding
away from zero has no instruction: it is built from truncation and an exact fraction.
"""

from __future__ import annotations

from ingot.llvm.math.emitter import MathEmitter
from ingot.llvm.values import Value


def _intrinsic(m: MathEmitter, name: str, x: Value) -> Value:
    return m.builder.intrinsic(name, m.type, [x])


def floor(m: MathEmitter, x: Value) -> Value:
    """Return the largest integer that is not above x."""
    return _intrinsic(m, "llvm.floor", x)


def ceil(m: MathEmitter, x: Value) -> Value:
    """Return the smallest integer that is not below x."""
    return _intrinsic(m, "llvm.ceil", x)


def round_nearest_even(m: MathEmitter, x: Value) -> Value:
    """Return the nearest integer, halves to the even one."""
    return _intrinsic(m, "llvm.roundeven", x)


def round_nearest_away_from_zero(m: MathEmitter, x: Value) -> Value:
    """Return the nearest integer, halves away from zero."""
    whole = _intrinsic(m, "llvm.trunc", x)
    # Exact; NaN for infinite x, where the comparison is false and the whole part is the answer.
    fraction = m.abs(m.sub(x, whole))
    further = m.add(whole, m.copysign(m.c(1.0), x))
    rounded = m.select(m.compare("oge", fraction, 0.5), further, whole)
    return m.copysign(rounded, x)
