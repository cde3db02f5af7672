# SPDX-License-Identifier: Apache-2.0
"""Softmax along an axis, its logarithm and their derivatives; the greatest element is subtracted.

Half floats are computed in f32 and rounded once.
"""

from __future__ import annotations

from ingot.frontends.building.arrays import ArrayBuilder, wider
from ingot.hlo.instruction import Instruction


def shifted_powers(
    b: ArrayBuilder, logits: Instruction, axes: tuple[int, ...]
) -> tuple[Instruction, Instruction, Instruction]:
    """Return logits minus their maximum, its exponential, and the sum of that (kept axes)."""
    most = b.reduced("maximum", logits, axes, keep=True)
    shifted = b.subtract(logits, b.spread(most, logits.shape.dims))
    powers = b.exponential(shifted)
    return shifted, powers, b.summed(powers, axes, keep=True)


def softmax(b: ArrayBuilder, logits: Instruction, axes: tuple[int, ...]) -> Instruction:
    """Return exp(x) divided by its sum over `axes`."""
    element = logits.shape.dtype
    _, powers, total = shifted_powers(b, b.convert_to(logits, wider(element)), axes)
    return b.convert_to(b.divide(powers, b.spread(total, powers.shape.dims)), element)


def log_softmax(b: ArrayBuilder, logits: Instruction, axes: tuple[int, ...]) -> Instruction:
    """Return x minus the logarithm of the sum of exp(x) over `axes`."""
    element = logits.shape.dtype
    shifted, _, total = shifted_powers(b, b.convert_to(logits, wider(element)), axes)
    made = b.subtract(shifted, b.spread(b.log(total), shifted.shape.dims))
    return b.convert_to(made, element)


def softmax_gradient(
    b: ArrayBuilder, dy: Instruction, y: Instruction, axes: tuple[int, ...]
) -> Instruction:
    """Return the gradient by the logits, given that by the softmax and the softmax `y`."""
    element = dy.shape.dtype
    dy, y = (b.convert_to(item, wider(item.shape.dtype)) for item in (dy, y))
    total = b.reduced("add", b.multiply(dy, y), axes, keep=True)
    return b.convert_to(b.multiply(b.subtract(dy, b.spread(total, dy.shape.dims)), y), element)


def log_softmax_gradient(
    b: ArrayBuilder, dy: Instruction, y: Instruction, axes: tuple[int, ...]
) -> Instruction:
    """Return the gradient by the logits, given that by the log-softmax and the log-softmax `y`."""
    element = dy.shape.dtype
    dy, y = (b.convert_to(item, wider(item.shape.dtype)) for item in (dy, y))
    total = b.reduced("add", dy, axes, keep=True)
    share = b.multiply(b.exponential(y), b.spread(total, dy.shape.dims))
    return b.convert_to(b.subtract(dy, share), element)
