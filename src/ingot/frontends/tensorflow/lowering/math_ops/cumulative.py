# SPDX-License-Identifier: Apache-2.0
"""Cumulative sums, products and log-sum-exps along an axis, by `building.scans`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingot.frontends.building.arrays import ArrayBuilder, wider
from ingot.frontends.building.scans import scan, scan_several
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Value
from ingot.hlo.instruction import Instruction

Along = Callable[[ArrayBuilder, Instruction, int], Instruction]


def _cumulative(along: Along, start: Any) -> Rule:
    """Return the rule of an inclusive scan along an axis, of the neutral element `start`."""

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
            x = b.shifted(x, axis, 1, b.scalar(start, x.shape.dtype))
        x = along(b, x, axis)
        if backwards:
            x = b.reverse(x, dimensions=(axis,))
        return b.convert_to(x, element)

    return rule


def _scanned(opcode: str, start: Any) -> Along:
    def along(b: ArrayBuilder, x: Instruction, axis: int) -> Instruction:
        return scan(b, x, axis, lambda b, after, before: b.binary(opcode, after, before), start)

    return along


def _log_sums(b: ArrayBuilder, x: Instruction, axis: int) -> Instruction:
    """Return log(exp x0 + exp x1 + ...): m + log s, with the greatest element m until there.

    s' = s * exp(m - m') + exp(x' - m'), so that only a product and a sum wait for the element
    before; the exponentials and the logarithm are those of whole arrays.
    """
    most = scan(b, x, axis, lambda b, after, before: b.maximum(after, before), -np.inf)
    # Infinities and NaN are not subtracted: they reach the sum as they are.
    most = b.select(b.emit("is-finite", most), most, b.zeros(most.shape))
    before = b.shifted(most, axis, 1, b.scalar(-np.inf, x.shape.dtype))
    fall = b.minimum(b.subtract(before, most), b.zeros(most.shape))
    terms = [b.exponential(fall), b.exponential(b.subtract(x, most))]

    def step(
        b: ArrayBuilder, after: Sequence[Instruction], before: Sequence[Instruction]
    ) -> list[Instruction]:
        total = b.add(b.multiply(before[1], after[0]), after[1])
        return [b.multiply(before[0], after[0]), total]

    return b.add(most, b.log(scan_several(b, terms, axis, step, [1, 0])[1]))


RULES: dict[str, Rule] = {
    "Cumprod": _cumulative(_scanned("multiply", 1), 1),
    "Cumsum": _cumulative(_scanned("add", 0), 0),
    "CumulativeLogsumexp": _cumulative(_log_sums, -np.inf),
}
