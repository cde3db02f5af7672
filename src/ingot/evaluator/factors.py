# SPDX-License-Identifier: Apache-2.0
"""Evaluates the factorizations that XLA's client library writes as custom calls.

`Qr` and `ProductOfElementaryHouseholderReflectors` column by column, `LuDecomposition` with the
largest element of each column as its pivot, `Eigh` by NumPy. In f64 (c128), rounded once. The
conventions are LAPACK's: a reflector is `1 - tau v v^H` with `v[0] = 1`, the diagonal of R is real.

Source: xla/hlo/builder/lib/{qr,self_adjoint_eig,lu_decomposition}.cc; LAPACK's geqr2, larfg, getf2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingot.evaluator.numbers import narrowed
from ingot.evaluator.registry import Array, Context, Value
from ingot.hlo.dtype import DType
from ingot.hlo.instruction import Instruction
from ingot.semantics.custom_calls import config_text


def qr(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Reflectors below R, and their factors."""
    packed, taus = op.shape.elements
    return _each(_qr, operands, (packed.dtype, taus.dtype))


def _qr(a: Array) -> tuple[Array, ...]:
    a = a.copy()
    count = min(a.shape)
    taus = np.zeros(count, a.dtype)
    for k in range(count):
        column = a[k:, k]
        alpha, below = column[0], np.linalg.norm(column[1:])
        if below == 0 and np.imag(alpha) == 0:
            continue
        length = np.hypot(np.abs(alpha), below)
        beta = -length if np.real(alpha) >= 0 else length
        tau = (beta - alpha) / beta
        v = column / (alpha - beta)
        v[0] = 1
        right = a[k:, k + 1 :]
        right -= np.conj(tau) * np.outer(v, np.conj(v) @ right)
        column[0], column[1:] = beta, v[1:]
        taus[k] = tau
    return a, taus


def householder_product(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The first columns of the product of reflectors."""
    return _each(_product, operands, (op.shape.dtype,))[0]


def _product(a: Array, taus: Array) -> tuple[Array, ...]:
    q = np.eye(*a.shape, dtype=a.dtype)
    for k in reversed(range(len(taus))):
        v = np.concatenate([np.ones(1, a.dtype), a[k + 1 :, k]])
        q[k:] -= taus[k] * np.outer(v, np.conj(v) @ q[k:])
    return (q,)


def eigh(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Eigenvectors and ascending eigenvalues; NaN where NumPy finds none."""
    vectors, values = op.shape.elements
    lower = config_text(op).split(",")[0].strip() != "0"

    def factors(a: Array) -> tuple[Array, ...]:
        try:
            w, v = np.linalg.eigh(a, UPLO="L" if lower else "U")
        except np.linalg.LinAlgError:
            return np.full_like(a, np.nan), np.full(len(a), np.nan)
        return v, w

    return _each(factors, operands, (vectors.dtype, values.dtype))


def lu(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """L below U, the row exchanges, and the resulting order of rows."""
    return _each(_lu, operands, tuple(element.dtype for element in op.shape.elements))


def _lu(a: Array) -> tuple[Array, ...]:
    a = a.copy()
    count = min(a.shape)
    pivots, order = np.zeros(count, np.int32), np.arange(len(a), dtype=np.int32)
    for k in range(count):
        # LAPACK measures complex numbers by the sum of their parts.
        sizes = np.abs(np.real(a[k:, k])) + np.abs(np.imag(a[k:, k]))
        pivot = k + int(np.argmax(sizes))
        pivots[k] = pivot
        for rows in (a, order):
            rows[[k, pivot]] = rows[[pivot, k]]
        if a[k, k] != 0:
            a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a, pivots, order


def _each(
    factors: Callable[..., tuple[Array, ...]], operands: Sequence[Any], elements: Sequence[DType]
) -> tuple[Array, ...]:
    """Return the results of `factors` for a batch of matrices, in some element types."""
    batch = operands[0].shape[:-2]
    wide = [_wide(np.asarray(operand)) for operand in operands]
    cells = [factors(*(operand[index] for operand in wide)) for index in np.ndindex(*batch)]
    if not cells:
        ones = [np.zeros(operand.shape[len(batch) :], operand.dtype) for operand in wide]
        shapes = [part.shape for part in factors(*ones)]
        return tuple(
            np.zeros((*batch, *shape), element.numpy)
            for shape, element in zip(shapes, elements, strict=True)
        )
    return tuple(
        narrowed(np.stack(parts).reshape(*batch, *parts[0].shape), element)
        for parts, element in zip(zip(*cells, strict=True), elements, strict=True)
    )


def _wide(value: Array) -> Array:
    return value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)
