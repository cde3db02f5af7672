# SPDX-License-Identifier: Apache-2.0
"""Matrix products. Each is one `dot`; additions and scaling fuse into it.

Half types are multiplied and summed in f32, including added operands, and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.building.arrays import wider
from ingot.frontends.building.products import dot
from ingot.frontends.torch.lowering.context.guards import of_equal_sizes
from ingot.frontends.torch.lowering.context.op import Op, Scalar
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo.dtype import F32, S32, DType
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")


def _matmul(op: Op, x: Instruction, y: Instruction, element: DType, batch: int = 0) -> Instruction:
    """Return x @ y of `batch` dimensions and matrices, as `element`; zeros where sums are empty."""
    rank = x.shape.rank
    axes = tuple(range(batch))
    summed = rank - 1
    if x.shape.dims[summed] == 0 or 0 in x.shape.dims or 0 in y.shape.dims:
        dims = (*x.shape.dims[:summed], *y.shape.dims[batch + 1 :])
        return op.b.zeros(x.shape.with_dims(dims).with_dtype(element))
    x, y = of_equal_sizes(op.b, x, y, [*zip(axes, axes, strict=True), (summed, batch)])
    return dot(op.b, x, y, ((summed,), (batch,)), (axes, axes), element)


def _refuse_mixed_types(op: Op, *operands: Instruction) -> None:
    """Leave operands of different element types to PyTorch, whose kernels raise an error for them.

    Raises:
        UnsupportedError: INGOT0372, they are not all of one element type.
    """
    names = list(dict.fromkeys(str(item.shape.dtype) for item in operands))
    if len(names) > 1:
        raise op.error(f"its operands have different element types, {' and '.join(names)}")


@RULES.rule("mm", "mm.dtype", "mv", "dot")
def _mm(op: Op, x: Instruction, y: Instruction, *kind: object) -> Instruction:
    del kind  # the result's
    _refuse_mixed_types(op, x, y)
    return _matmul(op, x, y, op.dtype)


@RULES.rule("bmm", "bmm.dtype")
def _bmm(op: Op, x: Instruction, y: Instruction, *kind: object) -> Instruction:
    del kind
    return _matmul(op, x, y, op.dtype, batch=1)


def _combined(
    op: Op, start: Instruction, product: Instruction, beta: Scalar, alpha: Scalar
) -> Instruction:
    """Beta * start + alpha * product; a beta of 0 ignores `start`, NaN included."""
    b, element = op.b, product.shape.dtype
    if alpha != 1:
        product = b.multiply(product, op.scalar_like(alpha, product))
    if beta == 0:
        return b.convert_to(product, op.dtype)
    start = b.spread(b.convert_to(start, element), product.shape.dims)
    if beta != 1:
        start = b.multiply(start, op.scalar_like(beta, start))
    return b.convert_to(b.add(start, product), op.dtype)


@RULES.rule("addmm", "addmv", "baddbmm")
def _add_product(
    op: Op,
    start: Instruction,
    x: Instruction,
    y: Instruction,
    *,
    beta: Scalar = 1,
    alpha: Scalar = 1,
) -> Instruction:
    _refuse_mixed_types(op, start, x, y)
    product = _matmul(op, x, y, wider(op.dtype), batch=int(x.shape.rank == 3))
    return _combined(op, start, product, beta, alpha)


@RULES.rule("addbmm")
def _add_batch(
    op: Op,
    start: Instruction,
    x: Instruction,
    y: Instruction,
    *,
    beta: Scalar = 1,
    alpha: Scalar = 1,
) -> Instruction:
    """Sum the products of a batch: the batch is another contracted dimension."""
    _refuse_mixed_types(op, start, x, y)
    wide = wider(op.dtype)
    if 0 in (*x.shape.dims, *y.shape.dims):
        product = op.b.zeros(op.shape.with_dtype(wide))
    else:
        product = dot(op.b, x, y, ((0, 2), (0, 1)), element=wide)
    return _combined(op, start, product, beta, alpha)


@RULES.rule("_int_mm")
def _int_mm(op: Op, x: Instruction, y: Instruction) -> Instruction:
    """Products of s8 or u8, summed in s32."""
    return _matmul(op, x, y, S32)


@RULES.rule("_weight_int8pack_mm")
def _weight_int8pack_mm(
    op: Op, x: Instruction, weight: Instruction, scales: Instruction
) -> Instruction:
    """Multiply x by weight^T, with s8 weights, one scale per row of them."""
    b = op.b
    wide = wider(op.dtype)
    product = _matmul(
        op, b.convert_to(x, wide), b.convert_to(b.transposed(weight, (1, 0)), wide), wide
    )
    scaled = b.multiply(product, b.spread(b.convert_to(scales, wide), product.shape.dims, (1,)))
    return b.convert_to(scaled, op.dtype)


@RULES.rule("_scaled_mm")
def _scaled_mm(
    op: Op,
    x: Instruction,
    y: Instruction,
    scale_x: Instruction,
    scale_y: Instruction,
    bias: Instruction | None = None,
    scale_result: Instruction | None = None,
    out_dtype: object = None,
    use_fast_accum: bool = False,
) -> Instruction:
    """Products of f8, scaled per tensor, or per row of x and column of y."""
    del out_dtype, use_fast_accum
    if scale_result is not None:
        raise op.error("it scales the result")
    b = op.b
    wide_x, wide_y = b.convert_to(x, F32), b.convert_to(y, F32)
    product = _matmul(op, wide_x, wide_y, F32)
    for scale in (scale_x, scale_y):
        if scale.shape.rank not in (0, 2) and scale.shape.dims != (1,):
            raise op.error(f"it has scales of {list(scale.shape.dims)}")
        product = b.multiply(product, b.spread(scale, product.shape.dims))
    if bias is not None:
        product = b.add(product, b.spread(b.convert_to(bias, F32), product.shape.dims))
    return b.convert_to(product, op.dtype)


@RULES.rule("_trilinear")
def _trilinear(
    op: Op,
    first: Instruction,
    second: Instruction,
    third: Instruction,
    expand_first: Sequence[int],
    expand_second: Sequence[int],
    expand_third: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Instruction:
    """The sum over dimensions of the product of three tensors, after dimensions are inserted."""
    del unroll_dim
    b, wide = op.b, wider(op.dtype)
    parts: list[Instruction] = []
    for x, added in ((first, expand_first), (second, expand_second), (third, expand_third)):
        dims = list(x.shape.dims)
        for axis in sorted(added):
            dims.insert(axis, 1)
        parts.append(b.reshape_to(b.convert_to(x, wide), tuple(dims)))
    one, two, three = b.together(*parts)
    made = b.reduced("add", b.multiply(b.multiply(one, two), three), sumdim)
    return b.convert_to(made, op.dtype)
