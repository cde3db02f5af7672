# SPDX-License-Identifier: Apache-2.0
"""Eigenvalues and singular values of matrices in lanes, by Jacobi's rotations.

A sweep rotates each pair of rows and columns (`syevd`) or of columns (`gesdd`) until what couples
them is as small as rounding errors. A pair that is so in a lane stays as it is there: a lane that
is done does not change while others go on. Results are as accurate as LAPACK's, relative to the
norm of a matrix; vectors may have the other sign.

Source: Golub and Van Loan, Matrix Computations, 8.5 (cyclic Jacobi) and 8.6.3 (one-sided).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ingot.llvm.index import Index
from ingot.llvm.types import F32, I32, I64, vector
from ingot.llvm.values import Value
from ingot.runtime.foreign.lapack.lanes.factors import products, reflect
from ingot.runtime.foreign.lapack.lanes.group import Group, Matrix

_SWEEPS = 40
"""At most: 6 to 10 are enough, as each squares the error."""

_NOT_FINITE = -4
"""The status of singular values of matrices that are not finite, as other sizes have it."""


def syevd(group: Group) -> None:
    """Emit eigenvalues in ascending order and, if they are wanted, eigenvectors."""
    f, (n, _) = group.f, group.dims("x_out")
    wants_vectors = group.characters["mode"] == "V"
    a = group.matrix(n, n)
    group.load("x_out", a)
    one = a if group.characters["uplo"] == "L" else a.transposed
    f.for_range(n, lambda c: f.for_range(n, lambda r: one.put(one.get(r, c), c, r), start=c))
    size, up, is_finite = _scaled(group, a, n, n)
    vectors = group.matrix(n, n if wants_vectors else 0)
    if wants_vectors:
        group.set_unit(vectors)
    least = f.mul(size, group.const(_unit_roundoff(group) / 4))

    def rotate(p: Value, q: Value) -> Value:
        coupled = a.get(p, q)
        is_coupled = f.fcmp("ogt", f.abs(coupled), least)

        def turn() -> None:
            left, right = a.get(p, p), a.get(q, q)
            tangent, angle = _rotation(group, (left, right, coupled), is_coupled)
            for matrix in (a, a.transposed, *([vectors] if wants_vectors else [])):
                _rotate_columns(group, matrix, (p, q), angle, n)
            moved = f.mul(tangent, coupled)
            zero = f.select(is_coupled, group.const(0), coupled)
            a.put(f.sub(left, moved), p, p)
            a.put(f.add(right, moved), q, q)
            a.put(zero, p, q)
            a.put(zero, q, p)

        return _in_any_lane(group, is_coupled, turn)

    _sweep(group, n, rotate)
    values = group.matrix(n)
    f.for_range(n, lambda i: values.put(f.mul(a.get(i, i), up), i))
    ranks = _ranks(group, values, n, descending=False)
    nan = group.const(float("nan"))

    def store(i: Value) -> None:
        rank = _wide(group, ranks, i)
        group.store_one("w", f.select(is_finite, values.get(i), nan), rank)
        if wants_vectors:
            begin = f.mul(rank, f.splat(f.as_value(n), group.lanes))

            def element(r: Value) -> None:
                value = f.select(is_finite, vectors.get(r, i), nan)
                group.store_one("x_out", value, f.add(begin, f.splat(r, group.lanes)))

            f.for_range(n, element)

    f.for_range(n, store)
    fails = f.select(is_finite, group.whole(0), group.whole(1))
    group.store_one("info", fails)


def gesdd(group: Group) -> None:
    """Emit singular values in descending order and, if they are wanted, singular vectors.

    The columns of the matrix, or of its transpose if it is wide, become orthogonal: their lengths
    are the singular values. A QR factorization of these columns, the longest first, has the vectors
    in its orthogonal factor, also those of singular values that are 0.
    """
    f, (m, n), mode = group.f, group.dims("x_out"), group.characters["mode"]
    given = group.matrix(m, n)
    group.load("x_out", given)
    is_wide = f.ilt(m, n)
    a = group.choose(is_wide, given.transposed, given)
    rows, columns = a.rows, a.columns
    _, up, is_finite = _scaled(group, given, m, n)
    right = group.matrix(columns, columns if mode != "N" else 0)
    if mode != "N":
        group.set_unit(right)
    _orthogonalize(group, a, right if mode != "N" else None, (rows, columns))
    lengths = group.matrix(columns)

    def measure(c: Value) -> None:
        zero = group.const(0)
        lengths.put(group.sum(0, rows, zero, lambda r: (a.get(r, c), a.get(r, c))), c)

    f.for_range(columns, measure)
    ranks = _ranks(group, lengths, columns, descending=True)

    def value(c: Value) -> None:
        found = f.mul(group.sqrt(lengths.get(c)), up)
        found = f.select(is_finite, found, group.const(float("nan")))
        group.store_one("s", found, _wide(group, ranks, c))

    f.for_range(columns, value)
    group.store_one("info", f.select(is_finite, group.whole(0), group.whole(_NOT_FINITE)))
    if mode == "N":
        return
    ordered = _ordered(group, a, ranks, (rows, columns))
    taus = group.matrix(columns)
    f.for_range(columns, lambda k: taus.put(reflect(group, ordered, k, columns), k))
    wanted = rows if mode == "A" else columns
    left = group.matrix(rows, wanted)
    products(group, ordered, left, (columns, wanted), taus.get)
    _flip(group, left, ordered, (rows, columns))
    sorted_right = _ordered(group, right, ranks, (columns, columns))
    group.store("u", group.choose(is_wide, sorted_right, left))
    group.store("vt", group.choose(is_wide, left, sorted_right).transposed)


def _orthogonalize(
    group: Group, a: Matrix, right: Matrix | None, dims: tuple[Index, Index]
) -> None:
    """Emit rotations of the columns of `a`, and of `right`, until those of `a` are orthogonal."""
    f, (rows, columns) = group.f, dims
    unit = _unit_roundoff(group)

    def rotate(p: Value, q: Value) -> Value:
        def products_of(r: Value) -> list[tuple[Value, Value]]:
            left, right = a.get(r, p), a.get(r, q)
            return [(left, left), (right, right), (left, right)]

        one, other, both = group.sums(rows, 3, products_of)
        # The square root of each by itself: products of small squares vanish.
        bound = f.mul(f.mul(group.sqrt(one), group.sqrt(other)), group.const(2 * unit))
        is_coupled = f.fcmp("ogt", f.abs(both), bound)

        def turn() -> None:
            _, angle = _rotation(group, (one, other, both), is_coupled)
            _rotate_columns(group, a, (p, q), angle, rows)
            if right is not None:
                _rotate_columns(group, right, (p, q), angle, columns)

        return _in_any_lane(group, is_coupled, turn)

    _sweep(group, columns, rotate)


def _ordered(group: Group, a: Matrix, ranks: Matrix, dims: tuple[Index, Index]) -> Matrix:
    """Emit the columns of a matrix in the order of their ranks, of each lane its own."""
    f, (rows, columns) = group.f, dims
    found = group.matrix(rows, columns)

    def move(c: Value) -> None:
        step = f.splat(f.as_value(found.column_step), group.lanes)
        column = f.mul(_wide(group, ranks, c), step)

        def element(r: Value) -> None:
            vectors = f.add(column, f.splat(r, group.lanes))
            f.scatter(a.get(r, c), group.elements(found.data, vectors))

        f.for_range(rows, element)

    f.for_range(columns, move)
    return found


def _flip(group: Group, left: Matrix, r: Matrix, dims: tuple[Index, Index]) -> None:
    """Emit the change of sign of those columns whose number on the diagonal of R is negative."""
    f, (rows, columns) = group.f, dims

    def column(c: Value) -> None:
        sign = group.with_sign(group.const(1), r.get(c, c))
        f.for_range(rows, lambda row: left.put(f.mul(left.get(row, c), sign), row, c))

    f.for_range(columns, column)


# ---- rotations


def _sweep(group: Group, n: Index, rotate: Callable[[Value, Value], Value]) -> None:
    """Emit sweeps over all pairs p < q until `rotate` says of none that it was rotated."""
    f = group.f
    rotated = f.alloca(I64)
    zero, one = f.const(I64, 0), f.const(I64, 1)

    def pair(p: Value, q: Value) -> None:
        f.store(f.or_(f.load(I64, rotated), f.zext(rotate(p, q), I64)), rotated)

    def sweep(values: list[Value]) -> list[Value]:
        f.store(zero, rotated)
        f.for_range(n, lambda p: f.for_range(n, lambda q: pair(p, q), start=f.add(p, one)))
        return [f.sub(values[0], one), f.load(I64, rotated)]

    def goes_on(values: list[Value]) -> Value:
        left = f.icmp("sgt", values[0], zero)
        return f.and_(left, f.icmp("ne", values[1], zero))

    f.while_([f.const(I64, _SWEEPS), one], goes_on, sweep)


def _in_any_lane(group: Group, mask: Value, turn: Callable[[], None]) -> Value:
    """Emit `turn()` if a mask holds in any lane; return whether it does."""
    found = group.f.reduce("or", mask)
    group.f.if_(found, turn)
    return found


def _rotation(
    group: Group, numbers: tuple[Value, Value, Value], mask: Value
) -> tuple[Value, tuple[Value, Value]]:
    """Emit the angle that takes the coupling of a pair away: tangent; sine and tan(angle/2).

    Args:
        group: the matrices.
        numbers: the two on the diagonal, and the one that couples them.
        mask: where the angle is not 0.
    """
    f, (left, right, coupled) = group.f, numbers
    one = group.const(1)
    ratio = f.div(f.sub(right, left), f.add(coupled, coupled))
    root = group.sqrt(f.fma(ratio, ratio, one))
    tangent = f.div(group.with_sign(one, ratio), f.add(f.abs(ratio), root))
    tangent = f.select(mask, tangent, group.const(0))
    secant = group.sqrt(f.fma(tangent, tangent, one))
    return tangent, (f.div(tangent, secant), f.div(tangent, f.add(one, secant)))


def _rotate_columns(
    group: Group, a: Matrix, pair: tuple[Value, Value], angle: tuple[Value, Value], rows: Index
) -> None:
    """Emit the rotation of two columns by an angle, given by its sine and tan(angle/2).

    What is added is small where the angle is, so that rounding errors do not add up.
    """
    f, (p, q), (sine, half) = group.f, pair, angle
    minus_sine, minus_half = f.neg(sine), f.neg(half)

    def element(r: Value) -> None:
        one, other = a.get(r, p), a.get(r, q)
        a.put(f.fma(minus_sine, f.fma(half, one, other), one), r, p)
        a.put(f.fma(sine, f.fma(minus_half, other, one), other), r, q)

    f.for_range(rows, element)


# ---- what both need


def _unit_roundoff(group: Group) -> float:
    return float(np.finfo(np.float32 if group.real is F32 else np.float64).eps) / 2


def _scaled(group: Group, a: Matrix, rows: Index, columns: Index) -> tuple[Value, Value, Value]:
    """Emit the scaling of matrices by powers of two, to numbers of up to 2.

    Returns the largest number of each, the power that takes it back, and where all is finite.
    Numbers of a matrix that is not finite become 0.
    """
    f = group.f

    def step(c: Value, values: list[Value]) -> list[Value]:
        def element(r: Value, inner: list[Value]) -> list[Value]:
            size, finite = inner
            here = a.get(r, c)
            size = f.select(f.fcmp("ogt", f.abs(here), size), f.abs(here), size)
            difference = f.sub(here, here)
            return [size, f.select(f.fcmp("oeq", difference, difference), finite, difference)]

        return f.loop(0, rows, 1, values, element)

    size, mark = f.loop(0, columns, 1, [group.const(0), group.const(0)], step)
    is_finite = f.fcmp("oeq", mark, group.const(0))
    down, up = group.scales(size)

    def scale(r: Value, c: Value) -> None:
        a.put(f.select(is_finite, f.mul(a.get(r, c), down), group.const(0)), r, c)

    group.each(rows, columns, scale)
    return f.mul(size, down), up, is_finite


def _ranks(group: Group, values: Matrix, n: Index, *, descending: bool) -> Matrix:
    """Emit how many values come before each; equal ones keep their order."""
    f = group.f
    ranks = group.matrix(n)
    words = vector(I32, group.lanes)
    before, before_or_equal = ("ogt", "oge") if descending else ("olt", "ole")

    def rank(i: Value) -> None:
        mine = values.get(i)

        def count(kind: str) -> Callable[[Value, list[Value]], list[Value]]:
            def step(j: Value, found: list[Value]) -> list[Value]:
                comes = f.zext(f.fcmp(kind, values.get(j), mine), words)
                return [f.add(found[0], comes)]

            return step

        (found,) = f.loop(0, i, 1, [group.whole(0)], count(before_or_equal))
        (found,) = f.loop(i, n, 1, [found], count(before))
        f.store(found, ranks.address(i, 0))

    f.for_range(n, rank)
    return ranks


def _wide(group: Group, ranks: Matrix, i: Value) -> Value:
    """Emit the ranks of number i as 64-bit integers."""
    f = group.f
    held = f.load(vector(I32, group.lanes), ranks.address(i, 0))
    return f.sext(held, vector(I64, group.lanes))
