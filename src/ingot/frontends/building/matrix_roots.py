# SPDX-License-Identifier: Apache-2.0
"""Square roots of matrices, by their Schur form.

LAPACK gives real matrices a real Schur form, in a third of the time of the complex one: its
triangle has a 2x2 block `[[a, b], [c, a]]` on the diagonal for each pair of complex eigenvalues.
The unitary matrix `[[s p, i q], [i q, s p]]` with s = sign(b), p^2 = |b| / (|b| + |c|) and
p^2 + q^2 = 1 makes such a block triangular. Blocks do not overlap, so all are rotated at once.

The triangle's root is found by halves: two blocks on the diagonal have roots R and S, and the block
X over them solves R X + X S = C, a Sylvester equation of triangles (LAPACK's `trsyl`).

Source: Björck and Hammarling, "A Schur method for the square root of a matrix" (1983); Deadman,
Higham and Ralha, "Blocked Schur algorithms for computing the matrix square root" (2013).
"""

from __future__ import annotations

import math

from ingot.frontends.building.arrays import ArrayBuilder, counts_up
from ingot.frontends.building.linalg import on_diagonal, real_shape
from ingot.frontends.building.products import conjugate, dot
from ingot.hlo.dtype import S32, S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.passes.expand.lapack_calls import lapack_call

_LEAF = 16
"""Blocks of at most this size are solved column by column."""

_LEVELS = 6
"""How often a triangle is halved at most: each halving doubles the instructions."""


def matrix_root(b: ArrayBuilder, a: Instruction) -> tuple[Instruction, Instruction]:
    """Return the principal square roots of square matrices, and which matrices have one.

    Args:
        b: the builder.
        a: f32, f64, c64 or c128 of any batch; not empty.

    Returns:
        roots of the shape of `a`, and `pred` of the batch: whether the Schur form was found, and
        for real matrices whether no eigenvalue is a negative real number.
    """
    triangle, basis, values, info = _schur(b, a)
    found = b.compared("EQ", info, 0)
    if a.shape.dtype.is_complex:
        root = _triangle_root(b, triangle)
        return _in_original_basis(b, basis, root), found
    real, imaginary = values
    negative = b.and_(b.compared("EQ", imaginary, 0), b.compared("LT", real, 0))
    found = b.and_(found, b.not_(b.reduced("or", negative, (real.shape.rank - 1,))))
    blocks = _Blocks(b, triangle, imaginary)
    root = _triangle_root(b, blocks.triangular(triangle, real))
    return _in_original_basis(b, basis, blocks.real_again(root)), found


def _in_original_basis(b: ArrayBuilder, basis: Instruction, root: Instruction) -> Instruction:
    batch = tuple(range(root.shape.rank - 2))
    axis = root.shape.rank - 1
    made = dot(b, basis, root, ((axis,), (axis - 1,)), (batch, batch))
    other = conjugate(b, basis) if basis.shape.dtype.is_complex else basis
    return dot(b, made, other, ((axis,), (axis,)), (batch, batch))


def _schur(
    b: ArrayBuilder, a: Instruction
) -> tuple[Instruction, Instruction, list[Instruction], Instruction]:
    """Return triangle, basis, eigenvalues (of real matrices their two parts) and LAPACK's info."""
    dims = a.shape.dims
    infos = Shape.array(S32, dims[:-2])
    parts = [a.shape.with_dims(dims[:-1])] * (1 if a.shape.dtype.is_complex else 2)
    triangle, basis, *values, _, info = lapack_call(
        b,
        "gees",
        [a],
        [a.shape, a.shape, *parts, infos, infos],
        {"mode": "V", "sort": "N"},
        aliases="{{0}: (0, {})}",
    )
    return triangle, basis, values, info


class _Blocks:
    """The 2x2 blocks of a real Schur form, and the unitary matrix Q that makes them triangular.

    Q is d on its diagonal and i e beside it, where a block is; d is 1 and e is 0 elsewhere.
    """

    def __init__(self, b: ArrayBuilder, triangle: Instruction, imaginary: Instruction) -> None:
        """Take the real triangle, and the imaginary parts of its eigenvalues, plus before minus."""
        self.b, self.imaginary = b, imaginary
        rank, dims = triangle.shape.rank, triangle.shape.dims
        self.rows, self.columns = rank - 2, rank - 1
        row, column = (b.iota_of(S32, dims, axis) for axis in (self.rows, self.columns))
        self.below = b.compare(column, row, direction="LT")
        self.diagonal = b.compare(column, row, direction="EQ")
        zeros = b.zeros(triangle.shape)
        kept = b.select(self.diagonal, zeros, triangle)
        # A block's b is right of the diagonal in its first row, its c left of it in the second.
        beside = self._exchanged(kept, self.columns)
        own = b.reduced("add", b.select(self.diagonal, beside, zeros), (self.columns,))
        other = b.reduced("add", b.select(self.diagonal, self._exchanged(kept, self.rows), zeros),
                          (self.columns,))  # fmt: skip
        first, inside = b.compared("GT", imaginary, 0), b.compared("NE", imaginary, 0)
        upper, lower = b.select(first, own, other), b.select(first, other, own)
        sizes = [b.emit("abs", x) for x in (upper, lower)]
        total = b.select(inside, b.add(*sizes), b.like(1, own.shape))
        p, q = (b.sqrt(b.divide(size, total)) for size in sizes)
        self.d = b.select(inside, b.multiply(b.sign(upper), p), b.like(1, own.shape))
        self.e = b.select(inside, q, b.zeros(own.shape))

    def _exchanged(self, x: Instruction, axis: int) -> Instruction:
        """Return matrices whose rows (columns) of each block are exchanged, the others as 0."""
        b, size, zero = self.b, x.shape.dims[axis], self.b.scalar(0, x.shape.dtype)
        after = b.sliced(b.padded(x, axis, 0, 1, zero), axis, 1, size + 1)
        before = b.sliced(b.padded(x, axis, 1, 0, zero), axis, 0, size)
        is_first, is_second = (
            self._along(b.compared(direction, self.imaginary, 0), x, axis)
            for direction in ("GT", "LT")
        )
        zeros = b.zeros(x.shape)
        return b.select(is_first, after, b.select(is_second, before, zeros))

    def _along(self, vector: Instruction, x: Instruction, axis: int) -> Instruction:
        return self.b.spread(vector, x.shape.dims, (*range(x.shape.rank - 2), axis))

    def _d(self, x: Instruction, axis: int) -> Instruction:
        return self.b.multiply(x, self._along(self.d, x, axis))

    def _e(self, x: Instruction, axis: int) -> Instruction:
        return self.b.multiply(self._exchanged(x, axis), self._along(self.e, x, axis))

    def triangular(self, x: Instruction, real: Instruction) -> Instruction:
        """Return the complex triangle Q* x Q of a real matrix; `real`: of the eigenvalues."""
        b, rows, columns = self.b, self.rows, self.columns
        re, im = self._d(x, columns), self._e(x, columns)
        re, im = (
            b.add(self._d(re, rows), self._e(im, rows)),
            b.subtract(self._d(im, rows), self._e(re, rows)),
        )
        known = [self._along(part, x, rows) for part in (real, self.imaginary)]
        parts = [
            b.select(self.below, b.zeros(x.shape), b.select(self.diagonal, exact, made))
            for exact, made in zip(known, (re, im), strict=True)
        ]
        return b.complex(*parts)

    def real_again(self, root: Instruction) -> Instruction:
        """Return the real matrix Q root Q*."""
        b, rows, columns = self.b, self.rows, self.columns
        re, im = b.real(root), b.imag(root)
        re, im = (
            b.subtract(self._d(re, rows), self._e(im, rows)),
            b.add(self._d(im, rows), self._e(re, rows)),
        )
        return b.add(self._d(re, columns), self._e(im, columns))


# ---- triangles


def _triangle_root(b: ArrayBuilder, x: Instruction) -> Instruction:
    """Return the upper triangles whose squares are complex upper triangles."""
    size = x.shape.dims[-1]
    if not isinstance(size, int) or size <= _LEAF:
        return _columns_root(b, x)
    levels = min(_LEVELS, math.ceil(math.log2(size / _LEAF)))
    count = 1 << levels
    leaf = -(-size // count)
    whole = _with_ones(b, x, size, count * leaf)
    roots = _columns_root(b, _stacked_blocks(b, whole, count, leaf, 0))
    while count > 1:
        roots = _joined(b, roots, _stacked_blocks(b, whole, count, leaf, 1))
        count, leaf = count // 2, leaf * 2
    made = b.reshape_to(roots, whole.shape.dims)
    for axis in (x.shape.rank - 2, x.shape.rank - 1):
        made = b.sliced(made, axis, 0, size)
    return made


def _with_ones(b: ArrayBuilder, x: Instruction, have: int, size: int) -> Instruction:
    """Return matrices of `have` rows made larger by ones on the diagonal."""
    rank = x.shape.rank
    zero = b.scalar(0, x.shape.dtype)
    for axis in (rank - 2, rank - 1):
        x = b.padded(x, axis, 0, size - have, zero)
    row = b.iota_of(S32, x.shape.dims, rank - 2)
    is_new = b.and_(on_diagonal(b, x.shape.dims), b.compared("GE", row, have))
    return b.select(is_new, b.like(1, x.shape), x)


def _stacked_blocks(
    b: ArrayBuilder, x: Instruction, count: int, size: int, beside: int
) -> Instruction:
    """Return the `count` blocks on the diagonal as `[batch, count, size, size]`.

    With `beside` 1 those right of every second block on the diagonal.
    """
    rank = x.shape.rank
    blocks: list[Instruction] = []
    for start in range(0, count * size, size << beside):
        rows = b.sliced(x, rank - 2, start, start + size)
        column = start + beside * size
        block = b.sliced(rows, rank - 1, column, column + size)
        blocks.append(b.reshape_to(block, (*x.shape.dims[:-2], 1, size, size)))
    return b.concatenated(blocks, rank - 2)


def _joined(b: ArrayBuilder, roots: Instruction, beside: Instruction) -> Instruction:
    """Return roots of blocks twice as large, from theirs and the blocks right of every second."""
    rank, axis = roots.shape.rank, roots.shape.rank - 3
    count = roots.shape.dims[axis]
    left, right = (b.sliced(roots, axis, start, count, 2) for start in (0, 1))
    batch = beside.shape.dims[:-2]
    shapes = [beside.shape, real_shape(beside, batch), Shape.array(S32, batch)]
    found, scale, info = lapack_call(
        b,
        "trsyl",
        [left, right, beside],
        shapes,
        {"trans_a": "N", "trans_b": "N", "sign": 1},
        aliases="{{0}: (2, {})}",
    )
    batch, dims = tuple(range(rank - 2)), beside.shape.dims
    # LAPACK solves a singular equation with other numbers on the diagonal.
    scale = b.select(b.compared("EQ", info, 0), scale, b.like(math.nan, scale.shape))
    scale = b.spread(b.complex(scale, b.zeros(scale.shape)), dims, batch)
    upper = b.concatenated([left, b.divide(found, scale)], rank - 1)
    lower = b.concatenated([b.zeros(right.shape), right], rank - 1)
    return b.concatenated([upper, lower], rank - 2)


def _columns_root(b: ArrayBuilder, x: Instruction) -> Instruction:
    """Return the roots of triangles, column by column.

    Column j solves a system of the columns before it, with its own root on their diagonal too.
    """
    last = x.shape.rank - 1
    size = x.shape.dims[last]
    start = b.select(on_diagonal(b, x.shape.dims), b.emit("sqrt", x), b.zeros(x.shape))

    def column_of(b: ArrayBuilder, x: Instruction, starts: list[Instruction]) -> Instruction:
        sizes = (*x.shape.dims[:-1], 1)
        return b.emit("dynamic-slice", x, *starts, dynamic_slice_sizes=sizes)

    def step(b: ArrayBuilder, state: list[Instruction]) -> list[Instruction]:
        at, end, x, root = state
        dims = root.shape.dims
        starts = [b.constant(0, S64)] * last + [at]
        known = column_of(b, root, starts)
        row, whole_row = b.iota_of(S64, known.shape.dims, last - 1), b.iota_of(S64, dims, last - 1)
        is_own = b.compare(row, b.spread(at, row.shape.dims), direction="EQ")
        own = b.reduced("add", b.select(is_own, known, b.zeros(known.shape)), (last - 1, last))
        batch = tuple(range(last - 1))
        moved = b.add(root, b.spread(own, dims, batch))
        # Later rows have no say, but a 0 on their diagonal would.
        is_before = b.compare(whole_row, b.spread(at, dims), direction="LT")
        pivots = b.select(is_before, moved, b.like(1, root.shape))
        system = b.select(on_diagonal(b, dims), pivots, root)
        value = column_of(b, x, starts)
        above = b.compare(row, b.spread(at, row.shape.dims), direction="LT")
        value = b.select(above, value, b.zeros(value.shape))
        found = b.triangular_solve(
            system, value, left_side=True, lower=False, transpose_a="NO_TRANSPOSE"
        )
        made = b.select(above, found, known)
        root = b.emit("dynamic-update-slice", root, made, *starts)
        return [b.binary("add", at, 1), end, x, root]

    return b.loop([b.constant(1, S64), b.size(size), x, start], counts_up, step)[-1]
