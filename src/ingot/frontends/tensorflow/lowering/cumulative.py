# SPDX-License-Identifier: Apache-2.0
"""Cumulative sums, products and log-sum-exps along an axis, by `building.scans`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot.frontends.building.arrays import ArrayBuilder, wider
from ingot.frontends.building.scans import Combine, scan
from ingot.frontends.tensorflow.lowering.op import Op, Rule
from ingot.frontends.tensorflow.lowering.values import Value
from ingot.hlo.instruction import Instruction


def _cumulative(combine: Combine, start: Any) -> Rule:
    def rule(op: Op) -> Value:
        b = op.b
        x = op.tensor(0)
        element = x.shape.dtype
        axis = op.axis(1, x.shape.rank)
        backwards = bool(op.attribute("reverse", False))
        x = b.convert_to(x, wider(element))
        if backwards:
            x = b.reverse(x, dimensions=(axis,))
        if op.attribute("exclusive", False):
            size = x.shape.dims[axis]
            neutral = b.scalar(start, x.shape.dtype)
            x = b.padded(b.sliced(x, axis, 0, size - 1), axis, 1, 0, neutral) if size != 0 else x
        x = scan(b, x, axis, combine, start)
        if backwards:
            x = b.reverse(x, dimensions=(axis,))
        return b.convert_to(x, element)

    return rule


def _log_add(b: ArrayBuilder, x: Instruction, y: Instruction) -> Instruction:
    """log(exp x + exp y); minus infinity is neutral."""
    most, least = b.maximum(x, y), b.minimum(x, y)
    gap = b.subtract(least, most)
    gap = b.select(b.compared("EQ", least, -np.inf), b.like(-np.inf, x.shape), gap)
    return b.add(most, b.log_plus_one(b.exponential(gap)))


RULES: dict[str, Rule] = {
    "Cumprod": _cumulative(lambda b, x, y: b.multiply(x, y), 1),
    "Cumsum": _cumulative(lambda b, x, y: b.add(x, y), 0),
    "CumulativeLogsumexp": _cumulative(_log_add, -np.inf),
}
