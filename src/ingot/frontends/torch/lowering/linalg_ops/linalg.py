# SPDX-License-Identifier: Apache-2.0
"""Linear algebra: factorizations, solves, determinants, eigenvalues, singular values.

Factorizations are LAPACK's (`building.linalg`); triangles, permutations and products of diagonals
are HLO. Ops with `_ex` return LAPACK's `info` as PyTorch does, and PyTorch checks it. Source:
PyTorch's `aten/src/ATen/native/BatchLinearAlgebra.cpp`, `LinearAlgebra.cpp`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ingot.frontends.building.arrays import ArrayBuilder, wider
from ingot.frontends.building.indexing import rolled_by
from ingot.frontends.building.linalg import (
    basis_of,
    conjugate_transposed,
    diagonal,
    eig,
    eigh,
    householder,
    identity,
    lu_factored,
    lu_permutation,
    lu_sign,
    lu_solved,
    magnitude,
    one_triangle,
    qr,
    sign_and_logarithm,
    svd,
    transposed,
)
from ingot.frontends.building.products import matrix_product
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import F32, S32, S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.passes.expand.lapack_calls import lapack_call

RULES = RuleTable("aten")

_MOST_SQUARINGS = 1000
"""Squarings: more than any finite norm needs."""


def _is_empty(*operands: Instruction) -> bool:
    return any(0 in x.shape.dims for x in operands)


def _of_nothing(op: Op, *identities: int) -> tuple[Instruction, ...]:
    """Return the results for matrices without elements: zeros, and identities where listed."""
    shapes = [op.shape_of(number) for number in range(len(op.val))]
    return tuple(
        identity(op.b, shape) if number in identities else op.b.zeros(shape)
        for number, shape in enumerate(shapes)
    )


# ---- triangles


@RULES.rule("linalg_cholesky_ex")
def _cholesky_ex(
    op: Op, a: Instruction, *, upper: bool = False, check_errors: bool = False
) -> tuple[Instruction, Instruction]:
    if check_errors:
        raise op.error("it raises errors itself")
    b = op.b
    if _is_empty(a):
        return b.zeros(op.shape_of(0)), b.zeros(op.shape_of(1))
    if upper:
        a = conjugate_transposed(b, a)
    # LAPACK's upper factor of the transpose is the lower factor of the matrix.
    shapes = [a.shape.with_dims(a.shape.dims), Shape.array(S32, a.shape.dims[:-2])]
    factor, info = lapack_call(
        b, "potrf", [a], shapes, {"uplo": "U"}, aliases="{{0}: (0, {})}", columns=False
    )
    made = one_triangle(b, factor, lower=True)
    return (conjugate_transposed(b, made) if upper else made), info


@RULES.rule("linalg_solve_triangular")
def _solve_triangular(
    op: Op,
    a: Instruction,
    right: Instruction,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Instruction:
    return _solved_triangle(op, a, right, upper, left, unitriangular, "NO_TRANSPOSE")


@RULES.rule("triangular_solve")
def _triangular_solve(
    op: Op,
    right: Instruction,
    a: Instruction,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> tuple[Instruction, Instruction]:
    kind = "TRANSPOSE" if transpose else "NO_TRANSPOSE"
    b = op.b
    made, copy = op.shape_of(0), op.shape_of(1)
    if _is_empty(a, right):
        return b.zeros(made), b.spread(a, copy.dims)
    a, right = b.spread(a, copy.dims), b.spread(right, made.dims)
    found = b.triangular_solve(
        a,
        right,
        left_side=True,
        lower=not upper,
        unit_diagonal=unitriangular,
        transpose_a=kind,
    )
    return found, a


def _solved_triangle(
    op: Op,
    a: Instruction,
    right: Instruction,
    upper: bool,
    left: bool,
    unit: bool,
    transpose: str,
) -> Instruction:
    """Return the solution of a triangular system; batch dimensions are broadcast."""
    b, dims = op.b, op.dims
    if _is_empty(a, right):
        return b.zeros(op.shape)
    a = b.spread(a, (*dims[:-2], *a.shape.dims[-2:]))
    return b.triangular_solve(
        a,
        b.spread(right, dims),
        left_side=left,
        lower=not upper,
        unit_diagonal=unit,
        transpose_a=transpose,
    )


@RULES.rule("cholesky_solve")
def _cholesky_solve(
    op: Op, right: Instruction, factor: Instruction, upper: bool = False
) -> Instruction:
    """Two triangular solves: with the factor and with its adjoint."""
    if _is_empty(right, factor):
        return op.b.zeros(op.shape)
    order = ("ADJOINT", "NO_TRANSPOSE") if upper else ("NO_TRANSPOSE", "ADJOINT")
    for transpose in order:
        right = _solved_triangle(op, factor, right, upper, True, False, transpose)
    return right


@RULES.rule("cholesky_inverse")
def _cholesky_inverse(op: Op, factor: Instruction, upper: bool = False) -> Instruction:
    if _is_empty(factor):
        return op.b.zeros(op.shape)
    return _cholesky_solve(op, identity(op.b, op.shape), factor, upper)


# ---- LU


@RULES.rule("linalg_lu_factor_ex")
def _lu_factor_ex(
    op: Op, a: Instruction, *, pivot: bool = True, check_errors: bool = False
) -> tuple[Instruction, ...]:
    if not pivot or check_errors:
        raise op.error("only with pivoting, and without checks")
    if _is_empty(a):
        return tuple(op.b.zeros(op.shape_of(number)) for number in range(3))
    return tuple(lu_factored(op.b, a))


def _unpacked(b: ArrayBuilder, lu: Instruction) -> tuple[Instruction, Instruction]:
    """Return L and U."""
    *_, m, n = lu.shape.dims
    least, rank = dim_math.minimum(m, n), lu.shape.rank
    lower = one_triangle(b, b.sliced(lu, rank - 1, 0, least), lower=True, unit=True)
    return lower, one_triangle(b, b.sliced(lu, rank - 2, 0, least), lower=False)


def _permutation(b: ArrayBuilder, pivots: Instruction, shape: Shape) -> Instruction:
    """Return the matrix P of A = P L U."""
    rows = b.convert_to(lu_permutation(b, pivots, shape.dims[-1]), S32)
    dims, rank = shape.dims, shape.rank
    own = b.iota_of(S32, dims, rank - 2)
    moved = b.spread(rows, dims, (*range(rank - 2), rank - 1))
    return b.convert_to(b.compare(own, moved, direction="EQ"), shape.dtype)


@RULES.rule("linalg_lu")
def _lu(op: Op, a: Instruction, *, pivot: bool = True) -> tuple[Instruction, ...]:
    if not pivot:
        raise op.error("without pivoting")
    b = op.b
    if _is_empty(a):
        return _of_nothing(op, 0)
    lu, pivots, _ = lu_factored(b, a)
    return (_permutation(b, pivots, op.shape_of(0)), *_unpacked(b, lu))


@RULES.rule("lu_unpack")
def _lu_unpack(
    op: Op,
    lu: Instruction,
    pivots: Instruction,
    unpack_data: bool = True,
    unpack_pivots: bool = True,
) -> tuple[Instruction, ...]:
    b = op.b
    if _is_empty(lu):
        return _of_nothing(op, *([0] if unpack_pivots else []))
    made = [b.zeros(op.shape_of(number)) for number in range(3)]
    if unpack_pivots:
        made[0] = _permutation(b, pivots, op.shape_of(0))
    if unpack_data:
        made[1:] = _unpacked(b, lu)
    return tuple(made)


def _solved(
    b: ArrayBuilder,
    lu: Instruction,
    pivots: Instruction,
    right: Instruction,
    left: bool,
    adjoint: bool,
) -> Instruction:
    """Return X of A X = right or X A = right, where A may be replaced by its adjoint."""
    if left:
        return lu_solved(b, lu, pivots, right, "C" if adjoint else "N")
    if adjoint:
        return conjugate_transposed(b, lu_solved(b, lu, pivots, conjugate_transposed(b, right)))
    return transposed(b, lu_solved(b, lu, pivots, transposed(b, right), "T"))


@RULES.rule("linalg_lu_solve")
def _lu_solve(
    op: Op,
    lu: Instruction,
    pivots: Instruction,
    right: Instruction,
    *,
    left: bool = True,
    adjoint: bool = False,
) -> Instruction:
    b, batch = op.b, op.dims[:-2]
    if _is_empty(lu, right):
        return b.zeros(op.shape)
    lu = b.spread(lu, (*batch, *lu.shape.dims[-2:]))
    pivots = b.spread(pivots, (*batch, pivots.shape.dims[-1]))
    return _solved(b, lu, pivots, b.spread(right, op.dims), left, adjoint)


@RULES.rule("_linalg_solve_ex")
def _solve_ex(
    op: Op,
    a: Instruction,
    right: Instruction,
    *,
    left: bool = True,
    check_errors: bool = False,
) -> tuple[Instruction, ...]:
    """Result, LU, pivots, info; the right side may be vectors, of the batch of the matrices."""
    if check_errors:
        raise op.error("it raises errors itself")
    b, shape = op.b, op.shape_of(0)
    if _is_empty(a, right):
        return _of_nothing(op)
    lu, pivots, info = lu_factored(b, a)
    dims, rank = shape.dims, a.shape.rank
    is_vector = len(dims) == rank - 1
    if is_vector:
        right = b.reshape_to(right, (*dims, 1))
        dims = right.shape.dims
    batch = dims[:-2]
    broad = b.spread(lu, (*batch, *lu.shape.dims[-2:]))
    rows = b.spread(pivots, (*batch, pivots.shape.dims[-1]))
    found = _solved(b, broad, rows, b.spread(right, dims), left or is_vector, False)
    return b.reshape_to(found, shape.dims), lu, pivots, info


@RULES.rule("linalg_inv_ex")
def _inv_ex(
    op: Op, a: Instruction, *, check_errors: bool = False
) -> tuple[Instruction, Instruction]:
    if check_errors:
        raise op.error("it raises errors itself")
    b = op.b
    if _is_empty(a):
        return b.zeros(op.shape_of(0)), b.zeros(op.shape_of(1))
    lu, pivots, info = lu_factored(b, a)
    return lu_solved(b, lu, pivots, identity(b, a.shape)), info


def _factored_for_determinant(op: Op, a: Instruction) -> list[Instruction]:
    """Return the LU factorization that the gradient expects: of the transpose if real, row-major.

    The determinant is the same, and PyTorch's own kernel saves a copy in this way.
    """
    given = op.node.args[0].meta["val"]
    is_transposed = given.is_contiguous() and not given.is_complex()
    return lu_factored(op.b, transposed(op.b, a) if is_transposed else a)


def _with_ones(op: Op) -> tuple[Instruction, ...]:
    """Return the results for matrices without elements, whose determinant is 1."""
    first, *rest = _of_nothing(op)
    return op.b.like(1, first.shape), *rest


@RULES.rule("_linalg_det")
def _det(op: Op, a: Instruction) -> tuple[Instruction, ...]:
    b = op.b
    if _is_empty(a):
        return _with_ones(op)
    lu, pivots, _ = _factored_for_determinant(op, a)
    factors = diagonal(b, lu)
    product = b.reduced("multiply", factors, (factors.shape.rank - 1,))
    return b.multiply(lu_sign(b, lu, pivots), product), lu, pivots


@RULES.rule("_linalg_slogdet")
def _slogdet(op: Op, a: Instruction) -> tuple[Instruction, ...]:
    b = op.b
    if _is_empty(a):
        return _with_ones(op)
    lu, pivots, _ = _factored_for_determinant(op, a)
    sign, logarithm = sign_and_logarithm(b, lu_sign(b, lu, pivots), diagonal(b, lu))
    return sign, logarithm, lu, pivots


# ---- QR, singular values, eigenvalues


@RULES.rule("linalg_qr")
def _qr(op: Op, a: Instruction, mode: str = "reduced") -> tuple[Instruction, Instruction]:
    b = op.b
    if _is_empty(a):
        q, r = _of_nothing(op, *([0] if mode == "complete" else []))
        return q, r
    if mode == "r":
        packed, _ = householder(b, a)
        least = op.shape_of(1).dims[-2]
        upper = b.sliced(packed, a.shape.rank - 2, 0, least)
        return b.zeros(op.shape_of(0)), one_triangle(b, upper, lower=False)
    return qr(b, a, full=mode == "complete")


@RULES.rule("geqrf")
def _geqrf(op: Op, a: Instruction) -> tuple[Instruction, Instruction]:
    if _is_empty(a):
        packed, tau = _of_nothing(op)
        return packed, tau
    return householder(op.b, a)


@RULES.rule("linalg_householder_product")
def _householder_product(op: Op, packed: Instruction, tau: Instruction) -> Instruction:
    if _is_empty(packed, tau):
        return identity(op.b, op.shape)
    return basis_of(op.b, packed, tau)


@RULES.rule("_linalg_svd")
def _svd(
    op: Op,
    a: Instruction,
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    driver: str | None = None,
) -> tuple[Instruction, ...]:
    """`svdvals` asks for vectors while it is traced, and does not use them."""
    if driver is not None:
        raise op.error(f"with the driver {driver}")
    if _is_empty(a):
        return _of_nothing(op, *([0, 2] if compute_uv else []))
    b, has_vectors = op.b, compute_uv and (op.is_used(0) or op.is_used(2))
    u, s, vh, _ = svd(b, a, full=full_matrices, vectors=has_vectors)
    if has_vectors:
        return u, s, vh
    return b.zeros(op.shape_of(0)), s, b.zeros(op.shape_of(2))


@RULES.rule("_linalg_eigh")
def _eigh(
    op: Op, a: Instruction, uplo: str = "L", compute_v: bool = True
) -> tuple[Instruction, Instruction]:
    """`eigvalsh` asks for vectors while it is traced, and does not use them."""
    if _is_empty(a):
        w, v = _of_nothing(op)
        return w, v
    has_vectors = compute_v and op.is_used(1)
    w, v, _ = eigh(op.b, a, lower=uplo.upper() == "L", vectors=has_vectors)
    return w, v if has_vectors else op.b.zeros(op.shape_of(1))


@RULES.rule("linalg_eig")
def _eig(op: Op, a: Instruction) -> tuple[Instruction, Instruction]:
    if _is_empty(a):
        w, v = _of_nothing(op)
        return w, v
    w, v, _ = eig(op.b, a, vectors=True)
    return w, v


@RULES.rule("_linalg_eigvals")
def _eigvals(op: Op, a: Instruction) -> Instruction:
    if _is_empty(a):
        return op.b.zeros(op.shape)
    return eig(op.b, a, vectors=False)[0]


# ---- products


@RULES.rule("linalg_cross")
def _cross(op: Op, x: Instruction, y: Instruction, dim: int = -1) -> Instruction:
    b, axis = op.b, op.axis(dim, len(op.dims))
    x, y = op.together(x, y, element=op.dtype)
    turns = ((x, -1), (y, -2), (x, -2), (y, -1))
    rolled = [rolled_by(b, item, shift, axis) for item, shift in turns]
    return b.subtract(b.multiply(rolled[0], rolled[1]), b.multiply(rolled[2], rolled[3]))


@RULES.rule("linalg_matrix_exp")
def _matrix_exp(op: Op, a: Instruction) -> Instruction:
    """Scaling and squaring: exp(a / 2^s) by a Taylor series, squared s times, s per matrix.

    Half types are computed in f32.

    Source: Higham, "Functions of Matrices", 2008, section 10.3; norms up to which the series of
    degree 18 is exact to the last bit: Bader, Blanes, Casas, "Computing the matrix exponential with
    an optimized Taylor polynomial approximation", 2019, table 4.
    """
    b, dims, rank = op.b, a.shape.dims, a.shape.rank
    if _is_empty(a):
        return a
    batch = tuple(range(rank - 2))
    a = b.convert_to(a, wider(a.shape.dtype))
    sums = b.reduced("add", magnitude(b, a), (rank - 2,))
    norm = b.reduced("maximum", sums, (rank - 2,))
    bound = 3.0 if norm.shape.dtype is F32 else 1.0
    exponent = b.ceil(b.binary("divide", b.log(b.binary("divide", norm, bound)), math.log(2)))
    limits = (b.zeros(norm.shape), b.like(_MOST_SQUARINGS, norm.shape))
    bounded = b.minimum(b.maximum(exponent, limits[0]), limits[1])
    finite = b.compared("EQ", b.subtract(norm, norm), 0)
    bounded = b.select(finite, bounded, limits[0])
    factor = b.power(b.like(0.5, norm.shape), bounded)
    scaled = b.multiply(a, b.spread(b.convert_to(factor, a.shape.dtype), dims, batch))
    made = unit = identity(b, a.shape)
    for number in range(18, 0, -1):
        made = b.add(b.binary("multiply", matrix_product(b, scaled, made), 1 / number), unit)

    def goes_on(inner: ArrayBuilder, state: list[Instruction]) -> Instruction:
        left = inner.compared("GT", state[1], 0)
        return inner.reduced("or", left, tuple(range(left.shape.rank)))

    def squared(inner: ArrayBuilder, state: list[Instruction]) -> Sequence[Instruction]:
        matrix, count = state
        left = inner.spread(inner.compared("GT", count, 0), matrix.shape.dims, batch)
        return (
            inner.select(left, matrix_product(inner, matrix, matrix), matrix),
            inner.binary("add", count, -1),
        )

    found = b.loop([made, b.convert_to(bounded, S64)], goes_on, squared)[0]
    return b.convert_to(found, op.dtype)
