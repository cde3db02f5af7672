# SPDX-License-Identifier: Apache-2.0
"""Evaluates `mulhi` and `stochastic-convert`: results that need more bits than the operands have.

Source: xla/hlo/evaluator/hlo_evaluator_typed_visitor.h;
xla/service/stochastic_convert_decomposer.cc.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot.evaluator.numbers import integer_range, rounded
from ingot.evaluator.registry import Context, Value, evaluates
from ingot.hlo.instruction import Instruction
from ingot.support.diagnostics import UnsupportedError


@evaluates("mulhi")
def mulhi(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The high half of the product, in Python's integers."""
    left, right = (value.astype(object) for value in operands)
    high = np.asarray((left * right) >> op.shape.dtype.bits, object)
    wide = np.int64 if op.shape.dtype.is_signed else np.uint64
    return rounded(high.astype(wide), op.shape.dtype)


@evaluates("stochastic-convert")
def stochastic_convert(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Away from zero where the random number is below the fraction, else towards zero."""
    element = op.shape.dtype
    if not element.is_signed:
        raise UnsupportedError(
            f"stochastic-convert to {element}: only signed integers",
            code="INGOT0254",
            instruction=repr(op),
            hint="convert to a signed integer type",
        )
    low, high = integer_range(element)
    digits = operands[1].dtype.itemsize * 8
    found = [
        min(max(_drawn(float(value), int(random), digits), low), high)
        for value, random in zip(operands[0].reshape(-1), operands[1].reshape(-1), strict=True)
    ]
    return rounded(np.array(found, np.int64).reshape(operands[0].shape), element)


def _drawn(value: float, random: int, digits: int) -> int:
    """Return an integer next to `value`, beyond every integer type for an infinity."""
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return int(math.copysign(1 << 64, value))
    whole = math.floor(abs(value))
    fraction = math.floor(math.ldexp(abs(value) - whole, digits))
    drawn = whole + (random < fraction)
    return -drawn if value < 0 else drawn
