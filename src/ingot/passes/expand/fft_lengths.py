# SPDX-License-Identifier: Apache-2.0
"""Transforms whose lengths differ from their operand's: fitted before and after.

Source: xla/hlo/evaluator/hlo_evaluator.cc (FftTransform): input and output are cut off, or filled
with zeros, to fit.
"""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.transforms import FftAttributes
from ingot.hlo.rewrite.op_pass import expander
from ingot.support.records import replace


@expander("fft-lengths", "fft")
def fft_lengths(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Rewrites `fft` whose lengths are not those of its operand."""
    given = op.as_(FftAttributes)
    (operand,) = op.operands
    batch_dims = operand.shape.dims[: operand.shape.rank - len(given.fft_length)]
    dims = (*batch_dims, *given.fft_length)
    if given.fft_type not in ("FFT", "IFFT") or dims == operand.shape.dims:
        return op
    if 0 in given.fft_length:
        return build.full(0, op.shape)
    fitted = _fitted(build, operand, dims)
    made = op.computation.copy_of(op, (fitted,))
    op.computation.set_shape(made, replace(op.shape, dims=dims))
    return _fitted(build, made, op.shape.dims)


def _fitted(build: Builder, value: Instruction, dims: tuple[int | Dim, ...]) -> Instruction:
    """Return the first elements of each dimension, zeros where there are no more."""
    missing = tuple((0, want - have, 0) for have, want in zip(value.shape.dims, dims, strict=True))
    return build.pad(value, 0, padding=missing)
