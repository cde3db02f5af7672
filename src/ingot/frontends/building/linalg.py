# SPDX-License-Identifier: Apache-2.0
"""Factorizations of matrices, as calls of LAPACK, and what belongs to them.

Matrices are the last two dimensions, of an element type that LAPACK has (f32, f64, c64, c128); the
others are a batch. Nothing here checks LAPACK's `info`: the front ends know what an error is.
"""

from __future__ import annotations

from ingot.frontends.building.arrays import ArrayBuilder, Size, Sizes
from ingot.frontends.building.products import conjugate
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import F32, F64, S32, S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.passes.expand.lapack_calls import lapack_call, triangle

_REAL = {"c64": "f32", "c128": "f64"}


def real_shape(x: Instruction, dims: Sizes) -> Shape:
    """Return the shape of real numbers that belong to `x`."""
    name = x.shape.dtype.name
    return Shape.array(_REAL.get(name, name), dims)


def transposed(b: ArrayBuilder, x: Instruction) -> Instruction:
    """Exchange the last two dimensions."""
    rank = x.shape.rank
    return b.transposed(x, (*range(rank - 2), rank - 1, rank - 2))


def conjugate_transposed(b: ArrayBuilder, x: Instruction) -> Instruction:
    """Return the adjoints of matrices."""
    return conjugate(b, transposed(b, x))


def identity(b: ArrayBuilder, like: Shape) -> Instruction:
    """Return identity matrices (ones on the diagonal) of the dimensions of `like`."""
    return b.select(on_diagonal(b, like.dims), b.like(1, like), b.zeros(like))


def on_diagonal(b: ArrayBuilder, dims: Sizes) -> Instruction:
    """Return where the diagonals of matrices are: `pred` of `dims`."""
    rows, columns = (b.iota_of(S32, dims, len(dims) - back) for back in (2, 1))
    return b.compare(rows, columns, direction="EQ")


def diagonal(b: ArrayBuilder, x: Instruction) -> Instruction:
    """Return the diagonals of square matrices."""
    kept = b.select(on_diagonal(b, x.shape.dims), x, b.zeros(x.shape))
    return b.reduced("add", kept, (x.shape.rank - 1,))


def one_triangle(
    b: ArrayBuilder, x: Instruction, *, lower: bool, unit: bool = False
) -> Instruction:
    """Return one triangle of matrices and zeros; `unit`: with ones on the diagonal."""
    made = b.select(triangle(b, x.shape.dims, lower=lower), x, b.zeros(x.shape))
    if unit:
        made = b.select(on_diagonal(b, x.shape.dims), b.like(1, x.shape), made)
    return made


# ---- LU


def lu_factored(b: ArrayBuilder, x: Instruction) -> list[Instruction]:
    """Return L and U in one matrix, the rows exchanged (counted from 1), and LAPACK's info."""
    *batch, m, n = x.shape.dims
    least = dim_math.minimum(m, n)
    info = Shape.array(S32, tuple(batch))
    shapes = [x.shape, Shape.array(S32, (*batch, least)), info]
    return lapack_call(b, "getrf", [x], shapes, aliases="{{0}: (0, {})}")


def lu_solved(
    b: ArrayBuilder, lu: Instruction, pivots: Instruction, right: Instruction, trans: str = "N"
) -> Instruction:
    """Return the solutions of A x = right; `trans` T or C: with A transposed or its adjoint."""
    if trans == "N":
        return _divided(
            b, lu, _divided(b, lu, _exchanged(b, right, pivots), lower=True), lower=False
        )
    kind = "ADJOINT" if trans == "C" else "TRANSPOSE"
    x = _divided(b, lu, right, lower=False, transpose_a=kind)
    x = _divided(b, lu, x, lower=True, transpose_a=kind)
    return _exchanged(b, x, pivots, backward=True)


def _divided(
    b: ArrayBuilder,
    lu: Instruction,
    right: Instruction,
    *,
    lower: bool,
    transpose_a: str = "NO_TRANSPOSE",
) -> Instruction:
    """Return the solutions with L, which has ones on its diagonal, or U."""
    return b.triangular_solve(
        lu, right, left_side=True, lower=lower, unit_diagonal=lower, transpose_a=transpose_a
    )


def _exchanged(
    b: ArrayBuilder, x: Instruction, pivots: Instruction, *, backward: bool = False
) -> Instruction:
    """Return matrices with rows exchanged as a factorization did, or taken back."""
    order = {"order": "B" if backward else "F"}
    (made,) = lapack_call(b, "laswp", [x, pivots], [x.shape], order, aliases="{{}: (0, {})}")
    return made


def lu_permutation(b: ArrayBuilder, pivots: Instruction, rows: Size) -> Instruction:
    """Return f64 row numbers, exchanged as LAPACK exchanged the rows of the matrix."""
    numbers = Shape.array(F64, (*pivots.shape.dims[:-1], rows, 1))
    start = b.iota_of(F64, numbers.dims, numbers.rank - 2)
    return b.reshape_to(_exchanged(b, start, pivots), numbers.dims[:-1])


def lu_sign(b: ArrayBuilder, lu: Instruction, pivots: Instruction) -> Instruction:
    """Return 1 or -1 of `lu`'s type: whether the rows were exchanged an even number of times."""
    dims = pivots.shape.dims
    own = b.add(b.iota_of(S32, dims, len(dims) - 1), b.like(1, pivots.shape))
    moved = b.convert_to(b.compare(pivots, own, direction="NE"), S32)
    odd = b.binary("and", b.reduced("add", moved, (len(dims) - 1,)), 1)
    one = b.like(1, Shape.array(lu.shape.dtype, dims[:-1]))
    return b.select(b.compared("EQ", odd, 1), b.negate(one), one)


def magnitude(b: ArrayBuilder, x: Instruction) -> Instruction:
    """Return absolute values as real numbers."""
    return b.emit("abs", x, shape=real_shape(x, x.shape.dims))


def sign_and_logarithm(
    b: ArrayBuilder, sign: Instruction, factors: Instruction
) -> tuple[Instruction, Instruction]:
    """Return the sign (or unit) and the real logarithm of the size of sign * prod(factors)."""
    last = factors.shape.rank - 1
    size = magnitude(b, factors)
    logarithm = b.reduced("add", b.log(size), (last,))
    if factors.shape.dtype.is_complex:
        safe = b.select(b.compared("GT", size, 0), size, b.like(1, size.shape))
        units = b.divide(factors, b.complex(safe, b.zeros(safe.shape)))
    else:
        units = b.sign(factors)
    return b.multiply(sign, b.reduced("multiply", units, (last,))), logarithm


# ---- QR, singular values, eigenvalues


def householder(b: ArrayBuilder, a: Instruction) -> tuple[Instruction, Instruction]:
    """Return LAPACK's packed QR factorization and the factors of its reflections."""
    *batch, m, n = a.shape.dims
    shapes = [a.shape, a.shape.with_dims((*batch, dim_math.minimum(m, n)))]
    packed, tau = lapack_call(b, "geqrf", [a], shapes, aliases="{{0}: (0, {})}")
    return packed, tau


def basis_of(b: ArrayBuilder, packed: Instruction, tau: Instruction) -> Instruction:
    """Return the orthogonal matrix of reflections, with as many columns as `packed`."""
    routine = "ungqr" if packed.shape.dtype.is_complex else "orgqr"
    (q,) = lapack_call(b, routine, [packed, tau], [packed.shape], aliases="{{}: (0, {})}")
    return q


def qr(b: ArrayBuilder, a: Instruction, *, full: bool) -> tuple[Instruction, Instruction]:
    """Return Q and R; `full`: Q is square."""
    *_, m, n = a.shape.dims
    least: Size = dim_math.minimum(m, n)
    packed, tau = householder(b, a)
    columns = m if full else least
    rank = a.shape.rank
    if columns == n:
        basis = packed
    elif columns == least:
        basis = b.sliced(packed, rank - 1, 0, least)
    else:
        narrow = b.sliced(packed, rank - 1, 0, least)
        basis = b.padded(narrow, rank - 1, 0, m - least, b.scalar(0, a.shape.dtype))
    upper = b.sliced(packed, rank - 2, 0, columns)
    return basis_of(b, basis, tau), one_triangle(b, upper, lower=False)


def svd(b: ArrayBuilder, a: Instruction, *, full: bool, vectors: bool) -> list[Instruction]:
    """Return U, singular values, V's adjoint, and LAPACK's info."""
    *batch, m, n = a.shape.dims
    least: Size = dim_math.minimum(m, n)
    columns, rows = (m, n) if full and vectors else (least, least)
    shapes = [
        a.shape, real_shape(a, (*batch, least)), a.shape.with_dims((*batch, m, columns)),
        a.shape.with_dims((*batch, rows, n)), Shape.array(S32, tuple(batch)),
    ]  # fmt: skip
    mode = {"mode": ("A" if full else "S") if vectors else "N"}
    _, s, u, vh, info = lapack_call(b, "gesdd", [a], shapes, mode, aliases="{{0}: (0, {})}")
    if full and vectors and (least == 0 or not isinstance(least, int)):
        # LAPACK does not write vectors of matrices without elements.
        is_empty = b.compared("EQ", b.scalar(least, S64), 0)
        u, vh = (
            b.select(b.spread(is_empty, item.shape.dims), identity(b, item.shape), item)
            for item in (u, vh)
        )
    return [u, s, vh, info]


def eigh(b: ArrayBuilder, a: Instruction, *, lower: bool, vectors: bool) -> list[Instruction]:
    """Return eigenvalues (ascending), eigenvectors and info of Hermitian matrices."""
    dims = a.shape.dims
    routine = "heevd" if a.shape.dtype.is_complex else "syevd"
    shapes = [a.shape, real_shape(a, dims[:-1]), Shape.array(S32, dims[:-2])]
    characters = {"mode": "V" if vectors else "N", "uplo": "L" if lower else "U"}
    v, w, info = lapack_call(b, routine, [a], shapes, characters, aliases="{{0}: (0, {})}")
    return [w, v, info]


def eig(b: ArrayBuilder, a: Instruction, *, vectors: bool) -> list[Instruction]:
    """Return complex eigenvalues, right eigenvectors and info."""
    dims = a.shape.dims
    is_complex = a.shape.dtype.is_complex
    element = a.shape.dtype.name
    if not is_complex:
        element = "c64" if a.shape.dtype is F32 else "c128"
    values = [a.shape.with_dims(dims[:-1])] * (1 if is_complex else 2)
    sides = [Shape.array(element, dims)] * 2
    characters = {"compute_left": "N", "compute_right": "V" if vectors else "N"}
    shapes = [*values, *sides, Shape.array(S32, dims[:-2])]
    *w, _, right, info = lapack_call(b, "geev", [a], shapes, characters)
    return [w[0] if is_complex else b.complex(*w), right, info]
