# SPDX-License-Identifier: Apache-2.0
"""Factorizations of matrices in lanes: `getrf`, `potrf`, `geqrf`, `orgqr`; solutions by `trsm`.

Each leaves in memory what LAPACK's routine of that name leaves, with other rounding.

Source: LAPACK's xGETF2, xPOTF2, xGEQR2, xLARFG and xORG2R.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.llvm.index import Index
from ingot.llvm.types import I32, I64, vector
from ingot.llvm.values import Value
from ingot.runtime.foreign.lapack.lanes.group import Group, Matrix


def getrf(group: Group) -> None:
    """Emit L below U, the exchanges of rows, and the first pivot that is zero."""
    f, (rows, columns) = group.f, group.dims("x_out")
    a = group.matrix(rows, columns)
    group.load("x_out", a)
    status = _Status(group)

    def step(k: Value) -> None:
        after = following(group, k)
        best = _largest_row(group, a, k)
        group.store_one("ipiv", f.add(best, group.whole(1)), k)
        _exchange(group, a, k, best)
        pivot = a.get(k, k)
        is_zero = f.fcmp("oeq", pivot, group.const(0))
        status.note(is_zero, after)

        def scale(row: Value) -> None:
            value = a.get(row, k)
            a.put(f.select(is_zero, value, f.div(value, pivot)), row, k)

        f.for_range(rows, scale, start=after)

        def column(c: Value) -> None:
            above = f.neg(a.get(k, c))

            def subtract(row: Value) -> None:
                a.put(f.fma(a.get(row, k), above, a.get(row, c)), row, c)

            f.for_range(rows, subtract, start=after)

        f.for_range(columns, column, start=after)

    f.for_range(f.imin(rows, columns), step)
    group.store("x_out", a)
    status.store()


class _Status:
    """The number of the first step that fails for each matrix, from 1; 0 if none does."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._memory = group.matrix(1).data
        group.f.store(group.whole(0), self._memory)

    def note(self, fails: Value, step: Value) -> None:
        """Emit that a step fails in some lanes."""
        group, f = self._group, self._group.f
        found = self._load()
        is_first = f.and_(fails, f.icmp("eq", found, group.whole(0)))
        f.store(f.select(is_first, group.whole(step), found), self._memory)

    def store(self) -> None:
        """Emit the store of the result `info`."""
        self._group.store_one("info", self._load())

    def _load(self) -> Value:
        return self._group.f.load(vector(I32, self._group.lanes), self._memory)


def _largest_row(group: Group, a: Matrix, k: Value) -> Value:
    """Emit in which row, from the k-th on, column k is greatest: the first one of several."""
    f = group.f

    def compare(row: Value, values: list[Value]) -> list[Value]:
        best, where = values
        here = f.abs(a.get(row, k))
        is_more = f.fcmp("ogt", here, best)
        return [f.select(is_more, here, best), f.select(is_more, group.whole(row), where)]

    start = [f.abs(a.get(k, k)), group.whole(k)]
    return f.loop(following(group, k), a.rows, 1, start, compare)[1]


def _exchange(group: Group, a: Matrix, k: Value, other: Value) -> None:
    """Emit the exchange of row k with another one, of each lane its own."""
    f, columns = group.f, group.dims("x_out")[1]
    row = f.sext(other, vector(I64, group.lanes))

    def column(c: Value) -> None:
        there = group.elements(a.address(0, c), row)
        mine, theirs = a.get(k, c), f.gather(a.type, there)
        a.put(theirs, k, c)
        f.scatter(mine, there)

    f.for_range(columns, column)


def potrf(group: Group) -> None:
    """Emit one triangle of the factor, and the first minor that is not positive."""
    f, (rows, _) = group.f, group.dims("x_out")
    held = group.matrix(rows, rows)
    group.load("x_out", held)
    a = held if group.characters["uplo"] == "L" else held.transposed
    status = _Status(group)

    def step(k: Value) -> None:
        after = following(group, k)

        def rest(row: Value) -> Value:
            """Emit what is left of an element of column k."""
            return group.sum(0, k, a.get(row, k), lambda j: (f.neg(a.get(row, j)), a.get(k, j)))

        square = rest(k)
        status.note(f.not_(f.fcmp("ogt", square, group.const(0))), after)
        root = group.sqrt(square)
        a.put(root, k, k)
        f.for_range(rows, lambda row: a.put(f.div(rest(row), root), row, k), start=after)

    f.for_range(rows, step)
    group.store("x_out", held)
    status.store()


def trsm(group: Group) -> None:
    """Emit the solution of op(A) X = Y or X op(A) = Y, where A is triangular."""
    f, characters = group.f, group.characters
    t, y = group.matrix(*group.dims("x")), group.matrix(*group.dims("y_out"))
    group.load("x", t)
    group.load("y_out", y)
    is_right, is_transposed = characters["side"] == "R", characters["trans_x"] != "N"
    a = t.transposed if is_right != is_transposed else t
    x = y.transposed if is_right else y
    is_lower = (characters["uplo"] == "L") != (is_right != is_transposed)
    last = f.isub(x.rows, 1)

    def row(number: Value) -> None:
        i = number if is_lower else f.as_value(f.isub(last, number))
        start, end = (0, i) if is_lower else (following(group, i), x.rows)

        def column(c: Value) -> None:
            rest = group.sum(start, end, x.get(i, c), lambda j: (f.neg(a.get(i, j)), x.get(j, c)))
            is_unit = characters["diag"] == "U"
            x.put(rest if is_unit else f.div(rest, a.get(i, i)), i, c)

        f.for_range(x.columns, column)

    f.for_range(x.rows, row)
    group.store("y_out", y)


def geqrf(group: Group) -> None:
    """Emit R with the Householder vectors below it, and their factors."""
    f, (rows, columns) = group.f, group.dims("x_out")
    a = group.matrix(rows, columns)
    group.load("x_out", a)
    f.for_range(
        f.imin(rows, columns),
        lambda k: group.store_one("tau", reflect(group, a, k, columns), k),
    )
    group.store("x_out", a)


def reflect(group: Group, a: Matrix, k: Value, columns: Index) -> Value:
    """Emit step k of a QR factorization; return tau.

    The vector v of the reflection 1 - tau v v' stays below the diagonal; its first element is 1.
    Squares are of numbers near 1, so that they neither overflow nor vanish.
    """
    f, after = group.f, following(group, k)
    alpha = a.get(k, k)
    below = group.greatest(after, a.rows, group.const(0), lambda row: a.get(row, k))
    size = f.abs(alpha)
    down, up = group.scales(f.select(f.fcmp("ogt", below, size), below, size))
    scaled = f.mul(alpha, down)

    def square(row: Value) -> tuple[Value, Value]:
        value = f.mul(a.get(row, k), down)
        return value, value

    rest = group.sum(after, a.rows, group.const(0), square)
    beta = f.neg(group.with_sign(group.sqrt(f.fma(scaled, scaled, rest)), alpha))
    is_done = f.fcmp("oeq", rest, group.const(0))
    tau = f.div(f.sub(beta, scaled), beta)
    tau = f.select(is_done, group.const(0), tau)
    divisor = f.select(is_done, group.const(1), f.sub(scaled, beta))
    factor = f.select(is_done, group.const(1), down)
    a.put(f.select(is_done, alpha, f.mul(beta, up)), k, k)
    f.for_range(
        a.rows,
        lambda row: a.put(f.div(f.mul(a.get(row, k), factor), divisor), row, k),
        start=after,
    )
    apply(group, a, a, (k, tau), (after, columns))
    return tau


def following(group: Group, k: Value) -> Value:
    """Emit k + 1."""
    return group.f.add(k, group.f.const(I64, 1))


def apply(
    group: Group, of: Matrix, to: Matrix, reflection: tuple[Value, Value], part: tuple[Index, Index]
) -> None:
    """Emit (1 - tau v v') a for some columns of a.

    Args:
        group: the matrices.
        of: has the vectors v below its diagonal.
        to: the matrices a.
        reflection: its number k, and tau.
        part: the first column and the end.
    """
    f, (k, tau), (start, end) = group.f, reflection, part
    after = following(group, k)

    def column(c: Value) -> None:
        total = group.sum(after, of.rows, to.get(k, c), lambda r: (of.get(r, k), to.get(r, c)))
        taken = f.neg(f.mul(tau, total))
        to.put(f.add(to.get(k, c), taken), k, c)
        f.for_range(
            of.rows,
            lambda r: to.put(f.fma(of.get(r, k), taken, to.get(r, c)), r, c),
            start=after,
        )

    f.for_range(end, column, start=start)


def orgqr(group: Group) -> None:
    """Emit the matrix whose product with R is the one that was factorized."""
    rows, columns = group.dims("x_out")
    v, q = group.matrix(rows, columns), group.matrix(rows, columns)
    group.load("x_out", v)
    count = group.arrays["tau"].dims[-1]
    products(group, v, q, (count, columns), lambda k: group.load_one("tau", k))
    group.store("x_out", q)


def products(
    group: Group,
    v: Matrix,
    q: Matrix,
    part: tuple[Index, Index],
    tau: Callable[[Value], Value],
) -> None:
    """Emit q = the first columns of the product of reflections.

    Args:
        group: the matrices.
        v: has the vectors of the reflections below its diagonal.
        q: gets the result.
        part: how many reflections there are, and how many columns are wanted.
        tau: emits the factor of a reflection.
    """
    f, (count, columns) = group.f, part

    group.set_unit(q)
    last = f.isub(count, 1)

    def step(number: Value) -> None:
        k = f.as_value(f.isub(last, number))
        apply(group, v, q, (k, tau(k)), (k, columns))

    f.for_range(count, step)
