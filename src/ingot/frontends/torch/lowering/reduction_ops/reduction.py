# SPDX-License-Identifier: Apache-2.0
"""Reductions over dimensions: sums, products, extremes, truth, variances, norms.

Half floats are accumulated in f32 and rounded once, as PyTorch's kernels do. Ops with an index find
the first of equal elements, and the first NaN before all numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ingot.frontends.building.arrays import wider
from ingot.frontends.building.extremes import extreme
from ingot.frontends.torch.lowering.assertions import assert_elements
from ingot.frontends.torch.lowering.context.op import Op, Rule, Scalar
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo.dim import product
from ingot.hlo.dtype import F32, F64, PRED, DType
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")

Dims = Sequence[int] | int | None


def _folded(op: Op, opcode: str, x: Instruction, dim: Dims, keepdim: bool) -> Instruction:
    return op.b.reduced(opcode, x, op.axes(dim, x.shape.rank), keep=keepdim)


@RULES.rule("sum", "sum.dim_IntList")
def _sum(op: Op, x: Instruction, dim: Dims = None, keepdim: bool = False) -> Instruction:
    axes = op.axes(dim, x.shape.rank)
    return op.b.summed(op.b.convert_to(x, op.dtype), axes, keep=keepdim)


@RULES.rule("mean", "mean.dim")
def _mean(op: Op, x: Instruction, dim: Dims = None, keepdim: bool = False) -> Instruction:
    element = op.dtype
    wide = op.b.convert_to(x, wider(element))
    return op.b.convert_to(_average(op, wide, op.axes(dim, x.shape.rank), keepdim), element)


def _average(op: Op, x: Instruction, axes: tuple[int, ...], keep: bool) -> Instruction:
    b = op.b
    total = b.reduced("add", x, axes, keep=keep)
    count = product(x.shape.dims[axis] for axis in axes)
    return b.divide(total, b.like(count, total.shape))


@RULES.rule("prod", "prod.dim_int")
def _prod(op: Op, x: Instruction, dim: Dims = None, keepdim: bool = False) -> Instruction:
    wide = op.b.convert_to(op.b.convert_to(x, op.dtype), wider(op.dtype))
    return op.b.convert_to(_folded(op, "multiply", wide, dim, keepdim), op.dtype)


# ---- extremes


def _extreme(opcode: str) -> Rule:
    def rule(op: Op, x: Instruction, dim: Dims = None, keepdim: bool = False) -> Instruction:
        if dim is None:  # along dimensions PyTorch asserts it itself
            assert_elements(op, None)
        return _folded(op, opcode, x, dim, keepdim)

    return rule


RULES.add(_extreme("maximum"), "amax", "max")
RULES.add(_extreme("minimum"), "amin", "min")


def _extreme_of(largest: bool) -> Rule:
    """Return the rule that gives the extremes along a dimension and their indices."""

    def rule(
        op: Op, x: Instruction, dim: int, keepdim: bool = False
    ) -> tuple[Instruction, Instruction]:
        b, (values, indices) = op.b, (op.shape_of(0), op.shape_of(1))
        assert_elements(op, dim)
        if x.shape.rank == 0:
            return x, b.zeros(indices)
        found, positions = extreme(b, x, op.axis(dim, x.shape.rank), largest=largest)
        return (
            b.reshape_to(b.convert_to(found, values.dtype), values.dims),
            b.reshape_to(b.convert_to(positions, indices.dtype), indices.dims),
        )

    return rule


RULES.add(_extreme_of(largest=True), "max.dim")
RULES.add(_extreme_of(largest=False), "min.dim")


def _arg_extreme_of(largest: bool) -> Rule:
    """Return the rule of argmax or argmin; without a dimension, the index is in the flat array."""

    def rule(op: Op, x: Instruction, dim: int | None = None, keepdim: bool = False) -> Instruction:
        b = op.b
        if x.shape.rank == 0:
            return b.zeros(op.shape)
        if dim is None:
            x, dim = b.reshape_to(x, (x.shape.size,)), 0
        _, indices = extreme(b, x, op.axis(dim, x.shape.rank), largest=largest)
        return b.reshape_to(b.convert_to(indices, op.dtype), op.dims)

    return rule


RULES.add(_arg_extreme_of(largest=True), "argmax")
RULES.add(_arg_extreme_of(largest=False), "argmin")


# ---- any, all


def _any_or_all(opcode: str) -> Rule:
    def rule(op: Op, x: Instruction, dim: Dims = None, keepdim: bool = False) -> Instruction:
        axes = () if dim == [] else op.axes(dim, x.shape.rank)
        found = op.b.reduced(opcode, op.b.to_pred(x), axes, keep=keepdim)
        # PyTorch gives u8 for u8, and bool for all other types.
        return found if op.dtype is PRED else op.b.convert_to(found, op.dtype)

    return rule


RULES.add(_any_or_all("or"), "any", "any.dim", "any.dims")
RULES.add(_any_or_all("and"), "all", "all.dim", "all.dims")


# ---- variances and norms


def _spread_of(
    op: Op, x: Instruction, dim: Dims, correction: Scalar | None, keepdim: bool
) -> tuple[Instruction, Instruction]:
    """Return the variance and the mean, in the type that they are computed in.

    In two passes: the mean, then the mean square of the differences. `correction` (default: 1) is
    subtracted from the number of elements; a negative result counts as 0.
    """
    b = op.b
    axes = op.axes(dim, x.shape.rank)
    kept = _average(op, x, axes, keep=True)
    rest = b.subtract(x, b.spread(kept, x.shape.dims))
    if x.shape.dtype.is_complex:
        real, imag = b.real(rest), b.imag(rest)
        square = b.add(b.multiply(real, real), b.multiply(imag, imag))
    else:
        square = b.multiply(rest, rest)
    total = b.reduced("add", square, axes, keep=keepdim)
    count = b.scalar(product(x.shape.dims[axis] for axis in axes), total.shape.dtype)
    lost = op.scalar(1 if correction is None else correction, total.shape.dtype)
    left = b.maximum(b.subtract(count, lost), b.zeros(count.shape))
    mean = b.reshape_to(kept, total.shape.dims)
    return b.divide(total, b.spread(left, total.shape.dims)), mean


@RULES.rule("var.correction")
def _var(
    op: Op,
    x: Instruction,
    dim: Dims = None,
    *,
    correction: Scalar | None = None,
    keepdim: bool = False,
) -> Instruction:
    wide = op.b.convert_to(x, wider(x.shape.dtype))
    return op.b.convert_to(_spread_of(op, wide, dim, correction, keepdim)[0], op.dtype)


@RULES.rule("var_mean.correction")
def _var_mean(
    op: Op,
    x: Instruction,
    dim: Dims = None,
    *,
    correction: Scalar | None = None,
    keepdim: bool = False,
) -> tuple[Instruction, ...]:
    wide = op.b.convert_to(x, wider(x.shape.dtype))
    found = _spread_of(op, wide, dim, correction, keepdim)
    return tuple(op.b.convert_to(item, op.shape_of(n).dtype) for n, item in enumerate(found))


def vector_norm(
    op: Op, sizes: Instruction, order: float, axes: tuple[int, ...], keep: bool
) -> Instruction:
    """Return the norm of real numbers, which are not negative, over axes.

    Args:
        op: the op.
        sizes: absolute values, in the type to compute in.
        order: p; infinity gives the greatest, minus infinity the least, 0 the count of nonzeros.
        axes: the dimensions.
        keep: whether the dimensions remain, with size 1.
    """
    b, element = op.b, sizes.shape.dtype
    if math.isinf(order):
        return b.reduced("maximum" if order > 0 else "minimum", sizes, axes, keep=keep)
    if order == 0:
        counted = b.convert_to(b.to_pred(sizes), element)
        return b.reduced("add", counted, axes, keep=keep)
    if order == 1:
        return b.reduced("add", sizes, axes, keep=keep)
    if order == 2:
        return b.sqrt(b.reduced("add", b.multiply(sizes, sizes), axes, keep=keep))
    powers = b.power(sizes, b.like(order, sizes.shape))
    total = b.reduced("add", powers, axes, keep=keep)
    return b.power(total, b.like(1 / order, total.shape))


def absolute(op: Op, x: Instruction, element: DType) -> Instruction:
    """Return absolute values of real or complex numbers in the type that norms are computed in."""
    found = op.b.abs(x) if x.shape.dtype.is_complex or x.shape.dtype.is_float else x
    return op.b.convert_to(found, wider(element))


@RULES.rule("linalg_vector_norm")
def _linalg_vector_norm(
    op: Op, x: Instruction, order: Scalar = 2, dim: Dims = None, keepdim: bool = False
) -> Instruction:
    if op.dtype is F64 and x.shape.dtype is F32:
        x = op.b.convert_to(x, F64)
    power = _real(op, order)
    found = vector_norm(op, absolute(op, x, op.dtype), power, op.axes(dim, x.shape.rank), keepdim)
    return op.b.convert_to(found, op.dtype)


@RULES.rule("dist")
def _dist(op: Op, x: Instruction, y: Instruction, p: Scalar = 2) -> Instruction:
    """The norm of the difference."""
    b, element = op.b, op.promoted(x, y)
    left, right = b.together(b.convert_to(x, element), b.convert_to(y, element))
    sizes = absolute(op, b.subtract(left, right), op.dtype)
    found = vector_norm(op, sizes, _real(op, p), tuple(range(sizes.shape.rank)), False)
    return b.convert_to(found, op.dtype)


def _real(op: Op, order: Scalar) -> float:
    if isinstance(order, bool | int | float):
        return float(order)
    raise op.error(f"the order of the norm is {order}")
