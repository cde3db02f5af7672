# SPDX-License-Identifier: Apache-2.0
"""Floats to integers, held within the integers' range; NaN gives 0.

LLVM's own `llvm.fptosi.sat` is scalarized on x86: this computes the same with vector instructions.
Invariant: operands of `fptosi` always fit, so its result is never undefined.
"""

from __future__ import annotations

import numpy as np

from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import F32, I32, Type
from ingot.llvm.values import Value, const

NARROWEST = 32
"""Bits of the narrowest integers that CPUs convert floats to."""


def to_integer(f: FunctionBuilder, value: Value, type: Type, *, is_signed: bool) -> Value:
    """Return f32 or f64 lanes as integers of `type`, truncated and held within its range."""
    bits = type.element.bits
    least = -(1 << bits - 1) if is_signed else 0
    most = (1 << bits - is_signed) - 1
    limit = _greatest_float(most, value.type.element)
    number = f.select(f.fcmp("ord", value, value), value, const(value.type, 0.0))
    held = _pick(f, "ogt", number, float(least))
    held = _pick(f, "olt", held, limit)
    if bits < NARROWEST:
        return f.trunc(f.fptosi(held, type.with_element(I32)), type)
    whole = f.fptosi(held, type) if is_signed else f.fptoui(held, type)
    if limit == most:
        return whole
    over = f.fcmp("ogt", number, const(number.type, limit))
    return f.select(over, const(type, most), whole)


def _pick(f: FunctionBuilder, relation: str, value: Value, bound: float) -> Value:
    """Return `value` where it is in this relation to `bound`, else the bound."""
    limit = const(value.type, bound)
    return f.select(f.fcmp(relation, value, limit), value, limit)


def _greatest_float(most: int, element: Type) -> float:
    """Return the greatest float that is not above `most`."""
    kind = np.float32 if element is F32 else np.float64
    nearest = kind(most)
    return float(nearest if int(nearest) <= most else np.nextafter(nearest, kind(0)))
