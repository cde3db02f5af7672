# SPDX-License-Identifier: Apache-2.0
"""Linear algebra: factorizations, solves, eigenvalues and what is computed from them.

LAPACK does the factorizations, through the custom calls that passes write too; what is around them
(triangles, permutations, products of diagonals) is HLO and fuses. A matrix that TensorFlow refuses
(a singular one) ends the program with TensorFlow's own words.

Source: TensorFlow's `kernels/linalg/*.cc`.
"""

from __future__ import annotations

from ingot.frontends.building.products import conjugate
from ingot.frontends.tensorflow.lowering.op import Op, Rule
from ingot.frontends.tensorflow.lowering.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.values import Size, Sizes, Value
from ingot.hlo import dim as dim_math
from ingot.hlo.assertions import emit_assertion
from ingot.hlo.dtype import F64, S32, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.passes.expand.lapack_calls import lapack_call, lapack_element
from ingot.passes.expand.linalg import triangle

_SINGULAR = "Input matrix is not invertible."
_REAL = {"c64": "f32", "c128": "f64"}


def matrices(op: Op, number: int = 0) -> Instruction:
    """Return operand `number` in an element type that LAPACK has."""
    x = op.tensor(number)
    if x.shape.rank < 2:
        raise op.error(f"operand {number} must be matrices, its rank is {x.shape.rank}")
    return op.b.convert_to(x, lapack_element(x.shape.dtype))


def _square(op: Op, number: int = 0) -> Instruction:
    x = matrices(op, number)
    if not op.b.same(x.shape.dims[-1], x.shape.dims[-2]):
        raise op.error(f"the matrices {list(x.shape.dims)} must be square")
    return x


def _real_shape(x: Instruction, dims: Sizes) -> Shape:
    """Return the shape of real numbers that belong to `x`."""
    name = x.shape.dtype.name
    return Shape.array(_REAL.get(name, name), dims)


def _demand(op: Op, flags: Instruction, message: str) -> None:
    """Demand that all flags hold, with TensorFlow's message."""
    everywhere = op.b.reduced("and", flags, tuple(range(flags.shape.rank)))
    emit_assertion(op.b, everywhere, message)


def _succeeded(op: Op, info: Instruction, message: str) -> None:
    _demand(op, op.b.compared("EQ", info, 0), message)


def transposed(b: TensorBuilder, x: Instruction) -> Instruction:
    """Exchange the last two dimensions."""
    """Exchange the last two dimensions."""
    rank = x.shape.rank
    return b.transposed(x, (*range(rank - 2), rank - 1, rank - 2))


def _identity(b: TensorBuilder, like: Shape) -> Instruction:
    """Return identity matrices of the dimensions of `like`."""
    rows, columns = (b.iota_of(S32, like.dims, like.rank - place) for place in (2, 1))
    one, zero = b.like(1, like), b.zeros(like)
    return b.select(b.compare(rows, columns, direction="EQ"), one, zero)


def _diagonal(b: TensorBuilder, x: Instruction) -> Instruction:
    """Return the diagonals of square matrices."""
    dims = x.shape.dims
    rows, columns = (b.iota_of(S32, dims, len(dims) - place) for place in (2, 1))
    here = b.compare(rows, columns, direction="EQ")
    return b.reduced("add", b.select(here, x, b.zeros(x.shape)), (len(dims) - 1,))


# ---- triangles


def _cholesky(op: Op) -> Value:
    x, b = _square(op), op.b
    factor = b.cholesky(x, lower=True)
    # TensorFlow fills the lower triangle alone with NaN if the matrix is not positive definite.
    kept = b.select(triangle(b, x.shape.dims, lower=True), factor, b.zeros(factor.shape))
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
    _demand(op, op.b.compared("NE", _diagonal(op.b, a), 0), _SINGULAR)
    found = op.b.triangular_solve(
        a,
        right,
        left_side=True,
        lower=bool(op.attribute("lower", True)),
        transpose_a="ADJOINT" if adjoint else "NO_TRANSPOSE",
    )
    return op.b.convert_to(found, op.result())


# ---- LU


def _factored(b: TensorBuilder, x: Instruction) -> list[Instruction]:
    """Return L and U in one matrix, the rows exchanged (counted from 1), and LAPACK's info."""
    batch, n = x.shape.dims[:-2], x.shape.dims[-1]
    shapes = [x.shape, Shape.array(S32, (*batch, n)), Shape.array(S32, batch)]
    return lapack_call(b, "getrf", [x], shapes, aliases="{{0}: (0, {})}")


def _solved(op: Op, a: Instruction, right: Instruction, adjoint: bool, message: str) -> Instruction:
    lu, pivots, info = _factored(op.b, a)
    _succeeded(op, info, message)
    characters = {"trans": "C" if adjoint else "N"}
    shapes, aliases = [right.shape], "{{}: (2, {})}"
    (x,) = lapack_call(op.b, "getrs", [lu, pivots, right], shapes, characters, aliases=aliases)
    return op.b.convert_to(x, op.result())


def _solve(op: Op) -> Value:
    a, right = _batched(op, _square(op), matrices(op, 1))
    return _solved(op, a, right, bool(op.attribute("adjoint", False)), _SINGULAR)


def _inverse(op: Op) -> Value:
    a = _square(op)
    adjoint = bool(op.attribute("adjoint", False))
    return _solved(op, a, _identity(op.b, a.shape), adjoint, "Input is not invertible.")


def _lu(op: Op) -> tuple[Value, ...]:
    a, b = _square(op), op.b
    lu, pivots, info = _factored(b, a)
    _succeeded(op, info, "Input is not invertible.")
    # Exchange the rows 0, 1, 2 … as LAPACK exchanged those of the matrix.
    numbers = Shape.array(F64, (*a.shape.dims[:-1], 1))
    rows = b.iota_of(F64, numbers.dims, numbers.rank - 2)
    (exchanged,) = lapack_call(b, "laswp", [rows, pivots], [numbers], aliases="{{}: (0, {})}")
    permutation = b.convert_to(b.reshape_to(exchanged, a.shape.dims[:-1]), op.result(1))
    return b.convert_to(lu, op.result()), permutation


def _sign_and_diagonal(op: Op) -> tuple[Instruction, Instruction]:
    """Return the sign of the permutation and the diagonal of U; singular matrices are fine."""
    a, b = _square(op), op.b
    lu, pivots, _ = _factored(b, a)
    dims = pivots.shape.dims
    own = b.add(b.iota_of(S32, dims, len(dims) - 1), b.like(1, pivots.shape))
    moved = b.convert_to(b.compare(pivots, own, direction="NE"), S32)
    odd = b.and_(
        b.reduced("add", moved, (len(dims) - 1,)), b.like(1, moved.shape.with_dims(dims[:-1]))
    )
    one = b.like(1, Shape.array(lu.shape.dtype, dims[:-1]))
    sign = b.select(b.compared("EQ", odd, 1), b.negate(one), one)
    return sign, _diagonal(b, lu)


def _determinant(op: Op) -> Value:
    sign, diagonal = _sign_and_diagonal(op)
    product = _product(op.b, diagonal)
    return op.b.convert_to(op.b.multiply(sign, product), op.result())


def _product(b: TensorBuilder, x: Instruction) -> Instruction:
    return b.reduced("multiply", x, (x.shape.rank - 1,))


def _log_determinant(op: Op) -> tuple[Value, ...]:
    b = op.b
    sign, diagonal = _sign_and_diagonal(op)
    size = b.abs(diagonal) if not diagonal.shape.dtype.is_complex else _magnitude(b, diagonal)
    logarithm = b.reduced("add", b.log(size), (size.shape.rank - 1,))
    if diagonal.shape.dtype.is_complex:
        safe = b.select(b.compared("GT", size, 0), size, b.like(1, size.shape))
        units = b.divide(diagonal, b.complex(safe, b.zeros(safe.shape)))
        sign = b.multiply(sign, _product(b, units))
        logarithm = b.complex(logarithm, b.zeros(logarithm.shape))
    else:
        sign = b.multiply(sign, _product(b, b.sign(diagonal)))
    return b.convert_to(sign, op.result()), b.convert_to(logarithm, op.result(1))


def _magnitude(b: TensorBuilder, x: Instruction) -> Instruction:
    return b.emit("abs", x, shape=_real_shape(x, x.shape.dims))


# ---- QR, singular values, eigenvalues


def _qr(op: Op) -> tuple[Value, ...]:
    a, b = matrices(op), op.b
    *batch, m, n = a.shape.dims
    least: Size = dim_math.minimum(m, n)
    shapes = [a.shape, a.shape.with_dims((*batch, least))]
    packed, tau = lapack_call(b, "geqrf", [a], shapes, aliases="{{0}: (0, {})}")
    columns = m if op.attribute("full_matrices", False) else least
    zero = b.scalar(0, a.shape.dtype)
    rank = a.shape.rank
    if columns == n:
        basis = packed
    elif columns == least:
        basis = b.sliced(packed, rank - 1, 0, least)
    else:
        whole = b.sliced(packed, rank - 1, 0, least)
        basis = b.padded(whole, rank - 1, 0, m - least, zero)
    routine = "ungqr" if a.shape.dtype.is_complex else "orgqr"
    (q,) = lapack_call(b, routine, [basis, tau], [basis.shape], aliases="{{}: (0, {})}")
    upper = b.sliced(packed, rank - 2, 0, columns)
    r = b.select(triangle(b, upper.shape.dims, lower=False), upper, b.zeros(upper.shape))
    return b.convert_to(q, op.result()), b.convert_to(r, op.result(1))


def _svd(op: Op) -> tuple[Value, ...]:
    a, b = matrices(op), op.b
    *batch, m, n = a.shape.dims
    least: Size = dim_math.minimum(m, n)
    wanted = bool(op.attribute("compute_uv", True))
    full = bool(op.attribute("full_matrices", False))
    columns, rows = (m, n) if full and wanted else (least, least)
    shapes = [
        a.shape, _real_shape(a, (*batch, least)), a.shape.with_dims((*batch, m, columns)),
        a.shape.with_dims((*batch, rows, n)), Shape.array(S32, tuple(batch)),
    ]  # fmt: skip
    mode = {"mode": ("A" if full else "S") if wanted else "N"}
    _, s, u, vt, info = lapack_call(b, "gesdd", [a], shapes, mode, aliases="{{0}: (0, {})}")
    _succeeded(op, info, "SVD did not converge.")
    values = b.convert_to(b.convert_to(s, op.result()), op.result())
    if not wanted:
        return values, _empty(b, op.result(1)), _empty(b, op.result(2))
    v = conjugate(b, transposed(b, vt))
    return values, b.convert_to(u, op.result(1)), b.convert_to(v, op.result(2))


def _empty(b: TensorBuilder, element: DType) -> Instruction:
    return b.zeros(Shape.array(element, (0,)))


def _hermitian_eigenvalues(op: Op) -> tuple[Value, ...]:
    a, b = _square(op), op.b
    dims = a.shape.dims
    wanted = bool(op.attribute("compute_v", True))
    routine = "heevd" if a.shape.dtype.is_complex else "syevd"
    shapes = [a.shape, _real_shape(a, dims[:-1]), Shape.array(S32, dims[:-2])]
    lower = bool(op.attribute("lower", True))
    characters = {"mode": "V" if wanted else "N", "uplo": "L" if lower else "U"}
    v, w, info = lapack_call(b, routine, [a], shapes, characters, aliases="{{0}: (0, {})}")
    _succeeded(op, info, "Self-adjoint eigen decomposition was not successful.")
    vectors = b.convert_to(v, op.result(1)) if wanted else _empty(b, op.result(1))
    return b.convert_to(w, op.result()), vectors


def _eigenvalues(op: Op) -> tuple[Value, ...]:
    a, b = _square(op), op.b
    dims = a.shape.dims
    is_complex = a.shape.dtype.is_complex
    element = a.shape.dtype if is_complex else op.result()
    wanted = bool(op.attribute("compute_v", True))
    values = [a.shape.with_dims(dims[:-1])] * (1 if is_complex else 2)
    vectors = [Shape.array(element, dims)] * 2
    characters = {"compute_left": "N", "compute_right": "V" if wanted else "N"}
    shapes = [*values, *vectors, Shape.array(S32, dims[:-2])]
    *w, _, right, info = lapack_call(b, "geev", [a], shapes, characters)
    _succeeded(op, info, "Eigen decomposition was not successful. The input might not be valid.")
    found = w[0] if is_complex else b.complex(*w)
    vector = b.convert_to(right, op.result(1)) if wanted else _empty(b, op.result(1))
    return b.convert_to(found, op.result()), vector


RULES: dict[str, Rule] = {
    "Cholesky": _cholesky,
    "Eig": _eigenvalues,
    "LogMatrixDeterminant": _log_determinant,
    "Lu": _lu,
    "MatrixDeterminant": _determinant,
    "MatrixInverse": _inverse,
    "MatrixSolve": _solve,
    "MatrixTriangularSolve": _triangular_solve,
    "BatchMatrixTriangularSolve": _triangular_solve,
    "Qr": _qr,
    "SelfAdjointEigV2": _hermitian_eigenvalues,
    "Svd": _svd,
    "XlaSelfAdjointEig": _hermitian_eigenvalues,
}
