# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms over any dimensions.

Transformed dimensions are transposed to the end. HLO's inverse transforms divide by the number of
elements, its forward ones do not; PyTorch's `normalization` is the divisor: 0 none, 1 the root of
the number, 2 the number. Source: PyTorch's `aten/src/ATen/native/SpectralOps.cpp`,
`mkl/SpectralOps.cpp`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ingot.frontends.torch.fx.sizes import Size
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")

_MOST = 3
"""The most dimensions that one HLO `fft` transforms."""


def _normalized(
    op: Op, x: Instruction, count: int, normalization: int, divided: bool
) -> Instruction:
    """Return a transform of `count` elements, normalized; `divided`: it is divided by `count`."""
    wanted = (1.0, 1 / math.sqrt(count), 1 / count)[normalization]
    factor = wanted * count if divided else wanted
    if (normalization == 2 and divided) or factor == 1:
        return x
    return op.b.binary("multiply", x, factor)


def _transformed(op: Op, kind: str, x: Instruction, axes: Sequence[int], last: int) -> Instruction:
    """Transform `axes`; along the last one, one side is real and has `last` elements."""
    b, rank = op.b, x.shape.rank
    others = [axis for axis in range(rank) if axis not in axes]
    order = [*others, *axes]
    x = b.transposed(x, order)
    lengths = [op.known(size, "the length of a transform") for size in x.shape.dims[len(others) :]]
    lengths[-1] = last
    made = b.emit("fft", x, fft_type=kind, fft_length=tuple(lengths))
    return b.transposed(made, [order.index(axis) for axis in range(rank)])


def _complex(op: Op, x: Instruction, axes: Sequence[int], forward: bool) -> Instruction:
    for start in range(0, len(axes), _MOST):
        some = axes[start : start + _MOST]
        last = op.known(x.shape.dims[some[-1]], "the length of a transform")
        x = _transformed(op, "FFT" if forward else "IFFT", x, some, last)
    return x


def _count(op: Op, dims: Sequence[Size], axes: Sequence[int]) -> int:
    return math.prod(op.known(dims[axis], "the length of a transform") for axis in axes)


@RULES.rule("_fft_c2c")
def _c2c(
    op: Op, x: Instruction, dim: Sequence[int], normalization: int, forward: bool
) -> Instruction:
    axes = [op.axis(item, x.shape.rank) for item in dim]
    if not axes:
        return x
    if 0 in x.shape.dims:
        return op.b.zeros(op.shape)
    made = _complex(op, x, axes, forward)
    return _normalized(op, made, _count(op, x.shape.dims, axes), normalization, not forward)


@RULES.rule("_fft_r2c")
def _r2c(
    op: Op, x: Instruction, dim: Sequence[int], normalization: int, onesided: bool
) -> Instruction:
    axes = [op.axis(item, x.shape.rank) for item in dim]
    if 0 in x.shape.dims:
        return op.b.zeros(op.shape)
    count = _count(op, x.shape.dims, axes)
    if onesided:
        last = op.known(x.shape.dims[axes[-1]], "the length of a transform")
        made = _transformed(op, "RFFT", x, axes[-1:], last)
        made = _complex(op, made, axes[:-1], forward=True)
    else:
        made = _complex(op, op.b.complex(x, op.b.zeros(x.shape)), axes, forward=True)
    return _normalized(op, made, count, normalization, divided=False)


@RULES.rule("_fft_c2r")
def _c2r(
    op: Op, x: Instruction, dim: Sequence[int], normalization: int, last_dim_size: Size
) -> Instruction:
    axes = [op.axis(item, x.shape.rank) for item in dim]
    if 0 in x.shape.dims or 0 in op.dims:
        return op.b.zeros(op.shape)
    last = op.known(last_dim_size, "the length of a transform")
    made = _complex(op, x, axes[:-1], forward=False)
    half, axis = last // 2 + 1, axes[-1]
    size = op.known(made.shape.dims[axis], "the length of a transform")
    if size > half:
        made = op.b.sliced(made, axis, 0, half)
    elif size < half:
        made = op.b.padded(made, axis, 0, half - size, op.b.scalar(0, made.shape.dtype))
    made = _transformed(op, "IRFFT", made, [axis], last)
    return _normalized(op, made, _count(op, op.dims, axes), normalization, divided=True)
