# SPDX-License-Identifier: Apache-2.0
"""The routines that run in lanes, and the loop over the groups of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.index import Index
from ingot.llvm.types import I64, Type, vector
from ingot.llvm.values import Value
from ingot.runtime.foreign.frames import Argument
from ingot.runtime.foreign.lapack.lanes.factors import geqrf, getrf, orgqr, potrf, trsm
from ingot.runtime.foreign.lapack.lanes.group import VECTOR_BYTES, Group, group_size, odd
from ingot.runtime.foreign.lapack.lanes.jacobi import gesdd, syevd

IN_LANES: Mapping[str, Callable[[Group], None]] = {
    "getrf": getrf,
    "potrf": potrf,
    "geqrf": geqrf,
    "orgqr": orgqr,
    "syevd": syevd,
    "gesdd": gesdd,
    "trsm": trsm,
}
"""LAPACK's name without the type's letter -> what emits the work on one group."""

MOST_ROWS, HALF_ROWS = 48, 24
"""Rows and columns at most, the latter of groups that half of their lanes fill.

LAPACK's time over that in lanes, of 16x16, 32x32, 48x48 and 64x64 matrices: QR 6, 4, 5 and 2,
eigenvectors 3.6, 2.2, 2.2 and 1, singular vectors 4, 2.2, 2.7 and 1, LU and a solution 4, 1.6, 3
and 1.3, Cholesky 2.2, 2, 3 and 1.1; of 3x3 and 8x8 from 4 to 50 (f32, AVX-512, one thread,
2026-11-30).
"""


def scratch_bytes(f: FunctionBuilder, rows: Index, columns: Index) -> Index:
    """Emit how much memory a group needs at most.

    `gesdd` has five matrices and four columns; the copies of matrices as they lie take one more,
    and a vector for each.
    """
    most = odd(f, f.imax(rows, columns))
    vectors = f.iadd(f.imul(f.imul(most, most), 6), f.imul(most, 4))
    return f.imul(f.iadd(vectors, VECTOR_BYTES), VECTOR_BYTES)


def emit_groups(
    f: FunctionBuilder,
    routine: tuple[str, Type, int],
    call: tuple[Mapping[str, Argument], Mapping[str, str]],
    matrices: tuple[Index, Index],
    scratch: Value,
) -> None:
    """Emit the work on some matrices of a batch, group after group.

    Args:
        f: where to.
        routine: its name, its element type, and how many dimensions a batch has.
        call: operands and results, attributes that are characters.
        matrices: the first matrix and the end; there is one at least.
        scratch: address of `scratch_bytes`.
    """
    (name, real, batch_rank), (arrays, characters), (first, end) = routine, call, matrices
    lanes = group_size(real)
    wide = vector(I64, lanes)
    last = f.splat(f.as_value(f.isub(end, 1)), lanes)

    def group(start: Value) -> None:
        number = f.add(f.splat(start, lanes), f.const(wide, range(lanes)))
        number = f.select(f.icmp("slt", number, last), number, last)
        IN_LANES[name](Group(f, real, arrays, characters, batch_rank, number, scratch))

    f.for_range(end, group, start=first, step=lanes, at_least_once=True)
