# SPDX-License-Identifier: Apache-2.0
"""Evaluates `fft` in c128, rounded once, and `scan` step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot.evaluator.numbers import doubled
from ingot.evaluator.registry import Array, Context, Value, evaluates
from ingot.hlo.instruction import Instruction
from ingot.support.trampoline import Recursion

_FUNCTIONS = {
    "FFT": np.fft.fftn,
    "IFFT": np.fft.ifftn,
    "RFFT": np.fft.rfftn,
    "IRFFT": np.fft.irfftn,
}


@evaluates("fft")
def fft(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The discrete Fourier transform of the last dimensions.

    Operand and result are cut off where they are longer than the transform, and filled with zeros
    where they are shorter.
    """
    (operand,) = operands
    lengths = op.attributes.fft_length
    dims = context.dims(op.shape)
    result = np.zeros(dims, op.shape.dtype.numpy)
    if 0 in dims or 0 in operand.shape or 0 in lengths:
        return result
    axes = tuple(range(operand.ndim - len(lengths), operand.ndim))
    found = _FUNCTIONS[op.attributes.fft_type](doubled(operand), s=lengths, axes=axes)
    both = tuple(slice(min(have, want)) for have, want in zip(found.shape, dims, strict=True))
    result[both] = found[both]
    return result


@evaluates("scan")
def scan(op: Instruction, operands: Sequence[Any], context: Context) -> Recursion[Value]:
    """Outputs of every step side by side, and the last carries."""
    given = op.attributes
    count, (dim,) = given.num_carries, given.dimensions
    first = len(operands) - count
    inputs, carries = operands[:first], list(operands[first:])
    shapes = (op.shape,) if op.shape.is_array else op.shape.elements
    outputs = [
        np.zeros(context.dims(shape), shape.dtype.numpy) for shape in shapes[: len(shapes) - count]
    ]
    whole: Array = (inputs or outputs)[0]
    steps = range(whole.shape[dim])
    for step in reversed(steps) if given.is_reverse else steps:
        context.step(op)
        at = (slice(None),) * dim + (step,)
        arguments = [*(v[at] for v in inputs), *carries]
        found: Any = yield context.call(given.to_apply, arguments, context)
        found = (found,) if given.to_apply.root.shape.is_array else found
        for output, value in zip(outputs, found, strict=False):
            output[at] = value
        carries = list(found[len(outputs) :])
    results = (*outputs, *carries)
    return results[0] if op.shape.is_array else results
