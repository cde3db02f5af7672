# SPDX-License-Identifier: Apache-2.0
"""Linear algebra: factorizations, solves, eigenvalues and what is computed from them.

LAPACK does the factorizations, through the custom calls that passes write too; what is around them
(triangles, permutations, products of diagonals) is HLO and fuses. A matrix that TensorFlow refuses
(a singular one) ends the program with TensorFlow's own words.

Source: TensorFlow's `kernels/linalg/*.cc`.
"""

from __future__ import annotations

import math

from ingot.frontends.building.linalg import (
    conjugate_transposed,
    diagonal,
    eig,
    eigh,
    identity,
    lu_factored,
    lu_permutation,
    lu_sign,
    lu_solved,
    one_triangle,
    qr,
    sign_and_logarithm,
    svd,
)
from ingot.frontends.building.matrix_roots import matrix_root
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Value
from ingot.hlo.dtype import S32, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.passes.expand.lapack_calls import lapack_element
from ingot.semantics.assertions import emit_assertion

SINGULAR = "Input matrix is not invertible."


def matrices(op: Op, number: int = 0) -> Instruction:
    """Return operand `number` in an element type that LAPACK has."""
    x = op.tensor(number)
    if x.shape.rank < 2:
        raise op.mistake(f"operand {number} must be matrices, its rank is {x.shape.rank}")
    return op.b.convert_to(x, lapack_element(x.shape.dtype))


def _square(op: Op, number: int = 0) -> Instruction:
    x = matrices(op, number)
    if not op.b.same(x.shape.dims[-1], x.shape.dims[-2]):
        raise op.mistake(f"the matrices {list(x.shape.dims)} must be square")
    return x


def _demand(op: Op, flags: Instruction, message: str) -> None:
    """Demand that all flags hold, with TensorFlow's message."""
    everywhere = op.b.reduced("and", flags, tuple(range(flags.shape.rank)))
    emit_assertion(op.b, everywhere, message)


def _succeeded(op: Op, info: Instruction, message: str) -> None:
    _demand(op, op.b.compared("EQ", info, 0), message)


# ---- triangles


def _cholesky(op: Op) -> Value:
    x, b = _square(op), op.b
    # TensorFlow fills the lower triangle alone with NaN if the matrix is not positive definite.
    kept = one_triangle(b, b.cholesky(x, lower=True), lower=True)
    return b.convert_to(kept, op.result())


def _batched(op: Op, a: Instruction, b: Instruction) -> tuple[Instruction, Instruction]:
    """Broadcast the batch dimensions of matrices and right-hand sides."""
    batch = op.b.broadcast_dims(a.shape.dims[:-2], b.shape.dims[:-2])
    if batch is None or not op.b.same(a.shape.dims[-1], b.shape.dims[-2]):
        raise op.mismatch(0, 1)
    return (
        op.b.spread(a, (*batch, *a.shape.dims[-2:])),
        op.b.spread(b, (*batch, *b.shape.dims[-2:])),
    )


def _triangular_solve(op: Op) -> Value:
    a, right = _batched(op, _square(op), matrices(op, 1))
    adjoint = bool(op.attribute("adjoint", False))
    found = op.b.triangular_solve(
        a,
        right,
        left_side=True,
        lower=bool(op.attribute("lower", True)),
        transpose_a="ADJOINT" if adjoint else "NO_TRANSPOSE",
    )
    return op.b.convert_to(found, op.result())


# ---- LU


def _factored(op: Op, a: Instruction, message: str) -> tuple[Instruction, Instruction]:
    """Return L and U in one matrix, and the rows exchanged; what TensorFlow refuses is an error.

    It refuses a pivot of 0, and NaN as the first element, with which its search for the least pivot
    begins. NaN elsewhere gives NaN.
    """
    b = op.b
    lu, pivots, info = lu_factored(b, a)
    _succeeded(op, info, message)
    rows, columns = (b.iota_of(S32, a.shape.dims, a.shape.rank - axis) for axis in (2, 1))
    is_later = b.compared("GT", b.add(rows, columns), 0)
    _demand(op, b.or_(is_later, b.compared("EQ", a, a)), message)
    return lu, pivots


def _solved(op: Op, a: Instruction, right: Instruction, adjoint: bool, message: str) -> Instruction:
    lu, pivots = _factored(op, a, message)
    x = lu_solved(op.b, lu, pivots, right, "C" if adjoint else "N")
    return op.b.convert_to(x, op.result())


def _solve(op: Op) -> Value:
    a, right = _batched(op, _square(op), matrices(op, 1))
    return _solved(op, a, right, bool(op.attribute("adjoint", False)), SINGULAR)


def _inverse(op: Op) -> Value:
    a = _square(op)
    adjoint = bool(op.attribute("adjoint", False))
    return _solved(op, a, identity(op.b, a.shape), adjoint, "Input is not invertible.")


def _lu(op: Op) -> tuple[Value, ...]:
    a, b = _square(op), op.b
    lu, pivots = _factored(op, a, "Input is not invertible.")
    permutation = lu_permutation(b, pivots, a.shape.dims[-1])
    return b.convert_to(lu, op.result()), b.convert_to(permutation, op.result(1))


def _sign_and_diagonal(op: Op) -> tuple[Instruction, Instruction]:
    """Return the sign of the permutation and the diagonal of U; singular matrices are fine."""
    lu, pivots, _ = lu_factored(op.b, _square(op))
    return lu_sign(op.b, lu, pivots), diagonal(op.b, lu)


def _determinant(op: Op) -> Value:
    sign, factors = _sign_and_diagonal(op)
    product = op.b.reduced("multiply", factors, (factors.shape.rank - 1,))
    return op.b.convert_to(op.b.multiply(sign, product), op.result())


def _log_determinant(op: Op) -> tuple[Value, ...]:
    b = op.b
    sign, logarithm = sign_and_logarithm(b, *_sign_and_diagonal(op))
    if sign.shape.dtype.is_complex:
        logarithm = b.complex(logarithm, b.zeros(logarithm.shape))
    return b.convert_to(sign, op.result()), b.convert_to(logarithm, op.result(1))


# ---- square roots


def _square_root(op: Op) -> Value:
    b, a = op.b, _square(op)
    if a.shape.size == 0:
        return op.tensor(0)
    root, found = matrix_root(b, a)
    return b.convert_to(_or_nan(b, found, root), op.result())


# ---- QR, singular values, eigenvalues


def _qr(op: Op) -> tuple[Value, ...]:
    q, r = qr(op.b, matrices(op), full=bool(op.attribute("full_matrices", False)))
    return op.b.convert_to(q, op.result()), op.b.convert_to(r, op.result(1))


def _svd(op: Op) -> tuple[Value, ...]:
    b = op.b
    wanted = bool(op.attribute("compute_uv", True))
    full = bool(op.attribute("full_matrices", False))
    u, s, vh, info = svd(b, matrices(op), full=full, vectors=wanted)
    found = b.compared("EQ", info, 0)
    values = b.convert_to(_or_nan(b, found, s), op.result())
    if not wanted:
        return values, _empty(b, op.result(1)), _empty(b, op.result(2))
    u, v = _or_nan(b, found, u), conjugate_transposed(b, _or_nan(b, found, vh))
    return values, b.convert_to(u, op.result(1)), b.convert_to(v, op.result(2))


def _or_nan(b: TensorBuilder, found: Instruction, x: Instruction) -> Instruction:
    """Return what belongs to matrices for those that were factored, NaN for the others."""
    axes = tuple(range(found.shape.rank))
    return b.select(b.spread(found, x.shape.dims, axes), x, b.like(math.nan, x.shape))


def _empty(b: TensorBuilder, element: DType) -> Instruction:
    return b.zeros(Shape.array(element, (0,)))


def _hermitian_factors(op: Op) -> tuple[Instruction, Instruction, Instruction]:
    """Return eigenvalues, eigenvectors, and which matrices have them.

    LAPACK finds some of a matrix with NaN too, as if NaN were 0.
    """
    b, a = op.b, _square(op)
    lower, wanted = bool(op.attribute("lower", True)), bool(op.attribute("compute_v", True))
    w, v, info = eigh(b, a, lower=lower, vectors=wanted)
    used = one_triangle(b, a, lower=lower)
    parts = (b.real(used), b.imag(used)) if used.shape.dtype.is_complex else (used,)
    found = b.compared("EQ", info, 0)
    for part in parts:
        finite = b.reduced("and", b.is_finite(part), (part.shape.rank - 2, part.shape.rank - 1))
        found = b.and_(found, finite)
    return w, v if wanted else _empty(b, op.result(1)), found


def _hermitian_eigenvalues(op: Op) -> tuple[Value, ...]:
    b = op.b
    w, v, found = _hermitian_factors(op)
    # TensorFlow returns a matrix of one element as it is, whatever it is.
    is_number = b.compared("LE", b.scalar(w.shape.dims[-1], S32), 1)
    found = b.or_(found, b.spread(is_number, found.shape.dims, ()))
    _demand(
        op,
        found,
        "Self-adjoint eigen decomposition was not successful. The input might not be valid.",
    )
    return b.convert_to(w, op.result()), b.convert_to(v, op.result(1))


def _xla_hermitian_eigenvalues(op: Op) -> tuple[Value, ...]:
    b = op.b
    w, v, found = _hermitian_factors(op)
    values, vectors = _or_nan(b, found, w), _or_nan(b, found, v)
    return b.convert_to(values, op.result()), b.convert_to(vectors, op.result(1))


def _eigenvalues(op: Op) -> tuple[Value, ...]:
    b, wanted = op.b, bool(op.attribute("compute_v", True))
    w, right, info = eig(b, _square(op), vectors=wanted)
    _succeeded(op, info, "Eigen decomposition was not successful. The input might not be valid.")
    vector = b.convert_to(right, op.result(1)) if wanted else _empty(b, op.result(1))
    return b.convert_to(w, op.result()), vector


RULES: dict[str, Rule] = {
    "Cholesky": _cholesky,
    "Eig": _eigenvalues,
    "LogMatrixDeterminant": _log_determinant,
    "Lu": _lu,
    "MatrixSquareRoot": _square_root,
    "MatrixDeterminant": _determinant,
    "MatrixInverse": _inverse,
    "MatrixSolve": _solve,
    "MatrixTriangularSolve": _triangular_solve,
    "BatchMatrixTriangularSolve": _triangular_solve,
    "Qr": _qr,
    "SelfAdjointEigV2": _hermitian_eigenvalues,
    "Svd": _svd,
    "XlaSelfAdjointEig": _xla_hermitian_eigenvalues,
}
