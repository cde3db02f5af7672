"""Evaluates `mulhi` and `stochastic-convert`: results that need more bits than the operands have.

Source: xla/hlo/evaluator/hlo_evaluator_typed_visitor.h, xla/service/stochastic_convert_decomposer.cc.
"""

from __future__ import annotations

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
    value, random = operands[0].astype(np.float64), operands[1]
    low, high = integer_range(element)
    size = np.abs(np.where(np.isfinite(value), value, 0))
    truncated = np.floor(size)
    fraction = np.ldexp(size - truncated, random.dtype.itemsize * 8)
    grown = truncated + (random.astype(np.float64) < np.floor(fraction))
    result = np.where(np.signbit(value), -grown, grown)
    result = np.clip(result, float(low), float(high))
    integers = np.where(np.isnan(value), 0, result).astype(object)
    limits = np.where(value >= float(high), high, np.where(value <= float(low), low, None))
    found = [
        limit if limit is not None else int(number)
        for limit, number in zip(limits.reshape(-1), integers.reshape(-1), strict=True)
    ]
    return rounded(np.array(found, np.int64).reshape(value.shape), element)
