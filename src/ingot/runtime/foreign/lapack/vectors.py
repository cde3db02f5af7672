# SPDX-License-Identifier: Apache-2.0
"""Small loops beside LAPACK: is everything finite, conjugate pairs as vectors, rows exchanged.

Source: jaxlib/cpu/lapack_kernels.cc (`is_finite`, `UnpackEigenvectors`).
"""

from __future__ import annotations

from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.index import Index
from ingot.llvm.types import I1, I32, I64, Type
from ingot.llvm.values import Value


def emit_all_finite(f: FunctionBuilder, real: Type, data: Value, count: Index) -> Value:
    """Emit whether `count` numbers are all finite."""

    def step(number: Value, values: list[Value]) -> list[Value]:
        at = f.load(real, f.gep(data, number, real))
        # x - x is 0 unless x is infinite or NaN.
        return [f.and_(values[0], f.fcmp("oeq", f.sub(at, at), f.zero(real)))]

    return f.loop(0, count, 1, [f.const(I1, True)], step)[0]


def emit_unpack(
    f: FunctionBuilder, real: Type, n: Index, imaginary: Value, packed: Value, result: Value
) -> None:
    """Emit eigenvectors from LAPACK's packing: of a conjugate pair, real then imaginary part.

    Args:
        f: where to.
        real: element type of `imaginary[n]` and `packed[n,n]`; `result[n,n]` has pairs of it.
        n: the order of the matrix.
        imaginary: imaginary parts of the eigenvalues.
        packed: vectors as LAPACK gives them, one after the other.
        result: where the complex vectors go.
    """
    size = f.as_value(n)
    zero = f.zero(real)

    def put(column: Value, row: Value, re: Value, im: Value) -> None:
        at = f.mul(f.add(f.mul(column, size), row), f.const(I64, 2))
        f.store(re, f.gep(result, at, real))
        f.store(im, f.gep(result, f.add(at, f.const(I64, 1)), real))

    def element(column: Value, row: Value) -> Value:
        return f.load(real, f.gep(packed, f.add(f.mul(column, size), row), real))

    def vector(values: list[Value]) -> list[Value]:
        (column,) = values
        following = f.add(column, f.const(I64, 1))
        part = f.load(real, f.gep(imaginary, column, real))
        alone = f.fcmp("ueq", part, zero)

        def single() -> list[Value]:
            f.for_range(size, lambda row: put(column, row, element(column, row), zero))
            return [following]

        def pair() -> list[Value]:
            def both(row: Value) -> None:
                re, im = element(column, row), element(following, row)
                put(column, row, re, im)
                put(following, row, re, f.neg(im))

            f.for_range(size, both)
            return [f.add(column, f.const(I64, 2))]

        return f.if_(alone, single, pair)

    f.while_([f.const(I64, 0)], lambda values: f.icmp("slt", values[0], size), vector)


def emit_exchanges(
    f: FunctionBuilder,
    part: tuple[Type, int],
    x: Value,
    dims: tuple[Index, Index],
    pivots: Value,
    count: Index,
    *,
    backward: bool,
) -> None:
    """Emit the exchanges of rows that a factorization made: row i with row `pivots[i]`, from 1.

    Args:
        f: where to.
        part: a type, and how many of it an element of `x` has.
        x: the matrix, column after column.
        dims: its rows and columns.
        pivots: `s32[count]`.
        count: how many rows were exchanged with another one.
        backward: from the last to the first, which takes them back.
    """
    kind, parts = part
    rows, columns = map(f.as_value, dims)
    last = f.sub(f.as_value(count), f.const(I64, 1))

    def exchange(column: Value, step: Value) -> None:
        row = f.sub(last, step) if backward else step
        other = f.sub(f.sext(f.load(I32, f.gep(pivots, row, I32)), I64), f.const(I64, 1))
        begin = f.mul(column, rows)
        for number in range(parts):
            one, two = (
                f.gep(
                    x,
                    f.add(f.mul(f.add(begin, at), f.const(I64, parts)), f.const(I64, number)),
                    kind,
                )
                for at in (row, other)
            )
            left, right = f.load(kind, one), f.load(kind, two)
            f.store(right, one)
            f.store(left, two)

    def each(column: Value) -> None:
        f.for_range(count, lambda step: exchange(column, step))

    f.for_range(columns, each)
