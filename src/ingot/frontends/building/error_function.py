# SPDX-License-Identifier: Apache-2.0
"""The complementary error function, for which HLO has no opcode.

In f32 by rational approximation: 1 - x T(x^2) near zero, exp(-x^2) / |x| times a polynomial in
1/x^2 beyond, so that the tail keeps its digits. Source: XLA's `lib/math.cc` (`ErfcImpl32`), after
Cephes. In f64 as 1 - erf(x).
"""

from __future__ import annotations

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.hlo.dtype import F32, F64
from ingot.hlo.instruction import Instruction

# Highest power first.
NEAR_ZERO = (
    7.853861353153693e-5, -8.010193625184903e-4, 5.188327685732524e-3, -2.685381193529856e-2,
    1.128358514861418e-1, -3.761262582423300e-1, 1.128379165726710,
)  # fmt: skip
BELOW_TWO = (
    2.326819970068386e-2, -1.387039388740657e-1, 3.687424674597105e-1, -5.824733027278666e-1,
    6.210004621745983e-1, -4.944515323274145e-1, 3.404879937665872e-1, -2.741127028184656e-1,
    5.638259427386472e-1,
)  # fmt: skip
ABOVE_TWO = (
    -1.047766399936249e1, 1.297719955372516e1, -7.495518717768503, 2.921019019210786,
    -1.015265279202700, 4.218463358204948e-1, -2.820767439740514e-1, 5.641895067754075e-1,
)  # fmt: skip


def erfc(b: ArrayBuilder, x: Instruction) -> Instruction:
    """1 - erf(x); narrow floats are computed in f32."""
    element = x.shape.dtype
    if element is F64:
        return _rest(b, b.erf(x), 1)
    return b.convert_to(_erfc_f32(b, b.convert_to(x, F32)), element)


def _erfc_f32(b: ArrayBuilder, x: Instruction) -> Instruction:
    size, square = b.abs(x), b.multiply(x, x)
    near = _rest(b, b.multiply(x, _polynomial(b, square, NEAR_ZERO)), 1)
    one = b.like(1, x.shape)
    inverse = b.divide(one, square)
    scale = b.multiply(b.exponential(b.negate(square)), b.divide(one, size))
    below, above = _polynomial(b, inverse, BELOW_TWO), _polynomial(b, inverse, ABOVE_TWO)
    tail = b.multiply(scale, b.select(b.compared("LT", size, 2), below, above))
    far = b.select(b.compared("LT", x, 0), _rest(b, tail, 2), tail)
    return b.select(b.compared("LT", size, 1), near, far)


def _rest(b: ArrayBuilder, x: Instruction, whole: float) -> Instruction:
    """`whole` - x."""
    return b.subtract(b.like(whole, x.shape), x)


def _polynomial(b: ArrayBuilder, x: Instruction, row: tuple[float, ...]) -> Instruction:
    total = b.like(row[0], x.shape)
    for coefficient in row[1:]:
        total = b.binary("add", b.multiply(total, x), coefficient)
    return total
