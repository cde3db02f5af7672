# SPDX-License-Identifier: Apache-2.0
"""Evaluates linear algebra by textbook algorithms, one row or column at a time.

In f32 at least; the other triangle of a Cholesky factor is zero, and a matrix that is not positive
definite gives NaN throughout, as XLA's expansions do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot.evaluator.numbers import narrowed, sums_of_products
from ingot.evaluator.registry import Array, Context, Value, evaluates
from ingot.hlo.dtype import DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.linalg import TriangularSolveAttributes


@evaluates("cholesky")
def cholesky(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Column by column: each has the root of the remainder of its diagonal element."""
    a = _wide(operands[0], op.shape.dtype)
    a = a if op.attributes.lower else _adjoint(a)
    factor = np.zeros_like(a)
    with np.errstate(all="ignore"):
        for k in range(a.shape[-1]):
            row = factor[..., k, :k]
            left = a[..., k:, k] - sums_of_products(
                "...ij,...j->...i", factor[..., k:, :k], np.conj(row)
            )
            root: Array = np.sqrt(np.real(left[..., 0]))
            factor[..., k:, k] = left / root[..., None]
            factor[..., k, k] = root
        diagonal: Array = np.einsum("...ii->...i", factor)
        positive: Array = np.all(np.real(diagonal) > 0, axis=-1)
        factor = np.where(positive[..., None, None], factor, np.nan)
    factor = factor if op.attributes.lower else _adjoint(factor)
    return narrowed(factor, op.shape.dtype)


@evaluates("triangular-solve")
def triangular_solve(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Substitution: the first unknown, then each next one from the known ones."""
    given = op.as_(TriangularSolveAttributes)
    a, b = (_wide(operand, op.shape.dtype) for operand in operands)
    a = np.tril(a) if given.lower else np.triu(a)
    if given.transpose_a != "NO_TRANSPOSE":
        a = _transpose(a) if given.transpose_a == "TRANSPOSE" else _adjoint(a)
    lower = given.lower == (given.transpose_a == "NO_TRANSPOSE")
    if not given.left_side:
        # x a = b  <=>  a^T x^T = b^T
        a, b, lower = _transpose(a), _transpose(b), not lower
    x = np.zeros_like(b)
    order = range(a.shape[-1])
    with np.errstate(all="ignore"):
        for k in order if lower else reversed(order):
            known = slice(0, k) if lower else slice(k + 1, None)
            left = b[..., k, :] - sums_of_products(
                "...j,...jk->...k", a[..., k, known], x[..., known, :]
            )
            diagonal = a[..., k, k, None]
            x[..., k, :] = left if given.unit_diagonal else left / diagonal
    return narrowed(x if given.left_side else _transpose(x), op.shape.dtype)


def _transpose(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)


def _adjoint(x: Array) -> Array:
    return np.conj(_transpose(x))


def _wide(x: Any, element: DType) -> Array:
    small = element.is_float and element.bits < 32
    return np.asarray(x, np.float32 if small else element.numpy)
