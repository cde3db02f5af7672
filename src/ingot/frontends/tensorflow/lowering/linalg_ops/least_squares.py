# SPDX-License-Identifier: Apache-2.0
"""Least squares: `MatrixSolveLs`, the solution of A x = b with the smallest error, or norm.

`fast` solves the normal equations by Cholesky factors, with the regularizer on their diagonal; else
singular values that are 0 but for rounding are left out, which gives the solution of least norm.

Source: TensorFlow's `kernels/linalg/matrix_solve_ls_op_impl.h`.
"""

from __future__ import annotations

import numpy as np

from ingot.frontends.building.linalg import (
    conjugate_transposed,
    diagonal,
    identity,
    svd,
)
from ingot.frontends.building.products import matrix_product
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Value
from ingot.frontends.tensorflow.lowering.linalg_ops.linalg import matrices
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.semantics.assertions import emit_assertion

_DEFICIENT = (
    "Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide a "
    "larger l2_regularizer > 0."
)


def _gram_solved(
    op: Op, a: Instruction, adjoint: Instruction, right: Instruction, weight: Instruction
) -> Instruction:
    """Solve (A* A + weight) x = right, with `a` = A* and `adjoint` = A."""
    b = op.b
    gram = matrix_product(b, a, adjoint)
    shift = b.spread(b.convert_to(weight, gram.shape.dtype), gram.shape.dims, ())
    gram = b.add(gram, b.multiply(identity(b, gram.shape), shift))
    factor = b.cholesky(gram, lower=True)
    pivots, given = diagonal(b, factor), diagonal(b, gram)
    # NaN that was there before gives NaN; NaN of the factorization is an error.
    is_fine = b.or_(
        b.compare(pivots, pivots, direction="EQ"), b.compare(given, given, direction="NE")
    )
    everywhere = b.reduced("and", is_fine, range(is_fine.shape.rank))
    emit_assertion(b, everywhere, _DEFICIENT)
    for transposition in ("NO_TRANSPOSE", "ADJOINT"):
        right = b.triangular_solve(
            factor, right, left_side=True, lower=True, transpose_a=transposition
        )
    return right


def _by_cholesky(op: Op, a: Instruction, right: Instruction) -> Instruction:
    """Solve the normal equations on the shorter side of A."""
    b, weight = op.b, op.tensor(2)
    adjoint = conjugate_transposed(b, a)
    rows, columns = (op.fixed(size, "shape") for size in a.shape.dims[-2:])
    if rows >= columns:
        return _gram_solved(op, adjoint, a, matrix_product(b, adjoint, right), weight)
    return matrix_product(b, adjoint, _gram_solved(op, a, adjoint, right, weight))


def _by_singular_values(op: Op, a: Instruction, right: Instruction) -> Instruction:
    """Divide by the singular values that are not 0 but for rounding."""
    b = op.b
    u, s, vh, _ = svd(b, a, full=False, vectors=True)
    axis = s.shape.rank - 1
    greatest = b.spread(b.reduced("maximum", s, (axis,)), s.shape.dims, tuple(range(axis)))
    count = b.convert_to(b.scalar(s.shape.dims[-1], S64), s.shape.dtype)
    epsilon = float(np.finfo(s.shape.dtype.numpy).eps)
    limit = b.multiply(greatest, b.spread(b.binary("multiply", count, epsilon), s.shape.dims, ()))
    # A comparison that NaN passes: it stays.
    is_zero = b.compare(s, limit, direction="LE")
    inverse = b.select(is_zero, b.zeros(s.shape), b.divide(b.like(1, s.shape), s))
    rotated = matrix_product(b, conjugate_transposed(b, u), right)
    wide = b.spread(inverse, rotated.shape.dims, tuple(range(rotated.shape.rank - 1)))
    return matrix_product(
        b, conjugate_transposed(b, vh), b.multiply(rotated, b.convert_to(wide, rotated.shape.dtype))
    )


def _least_squares(op: Op) -> Value:
    a, right = matrices(op), matrices(op, 1)
    batches = a.shape.dims[:-2], right.shape.dims[:-2]
    if len(batches[0]) != len(batches[1]) or not op.b.same(a.shape.dims[-2], right.shape.dims[-2]):
        raise op.mismatch(0, 1)
    dims = (*batches[0], a.shape.dims[-1], right.shape.dims[-1])
    if 0 in (*a.shape.dims, *right.shape.dims):
        return op.b.zeros(Shape.array(op.result(), dims))
    solve = _by_cholesky if op.attribute("fast", True) else _by_singular_values
    return op.b.convert_to(solve(op, a, right), op.result())


RULES: dict[str, Rule] = {"MatrixSolveLs": _least_squares}
