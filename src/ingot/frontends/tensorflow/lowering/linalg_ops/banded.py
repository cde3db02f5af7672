# SPDX-License-Identifier: Apache-2.0
"""Triangular matrices of few diagonals: their systems are solved row by row.

All systems of a batch go through the rows together; a row needs as many results before it as the
matrix has further diagonals. An upper triangle is a lower one whose rows go backwards.

Source: TensorFlow's `kernels/linalg/banded_triangular_solve_op.cc`.
"""

from __future__ import annotations

from ingot.frontends.building.arrays import counts_up
from ingot.frontends.building.indexing import row_at, with_row
from ingot.frontends.building.products import conjugate
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Value
from ingot.frontends.tensorflow.lowering.linalg_ops.linalg import SINGULAR
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.semantics.assertions import emit_assertion


def _solve(op: Op) -> Value:
    """Diagonals [..., k, m], of the triangle's main one first (lower) or last (upper); values."""
    b, bands, right = op.b, op.tensor(0), op.tensor(1)
    if min(bands.shape.rank, right.shape.rank) < 2:
        raise op.mismatch(0, 1)
    batch = b.broadcast_dims(bands.shape.dims[:-2], right.shape.dims[:-2])
    count, rows = op.fixed(bands.shape.dims[-2], "number of diagonals"), bands.shape.dims[-1]
    if batch is None or not count or not b.same(rows, right.shape.dims[-2]):
        raise op.mismatch(0, 1)
    bands = b.spread(bands, (*batch, count, rows))
    right = b.spread(right, (*batch, *right.shape.dims[-2:]))
    if right.shape.size == 0:
        return right
    rank = len(batch)
    # Diagonals and rows lie in front, so that a step takes one row of each.
    bands = b.transposed(bands, (rank, rank + 1, *range(rank)))
    right = b.transposed(right, (rank, *range(rank), rank + 1))
    lower, adjoint = bool(op.attribute("lower", True)), bool(op.attribute("adjoint", False))
    diagonals = [
        b.reshape_to(b.sliced(bands, 0, n, n + 1), bands.shape.dims[1:]) for n in range(count)
    ]
    if not lower:
        diagonals.reverse()
    inverts = b.compared("NE", diagonals[0], 0)
    emit_assertion(b, b.reduced("and", inverts, tuple(range(rank + 1))), SINGULAR)
    if adjoint:
        # The n-th diagonal of the other triangle: each element stands n rows away.
        zero = b.scalar(0, right.shape.dtype)
        diagonals = [
            b.shifted(conjugate(b, diagonal), 0, -n if lower else n, zero)
            for n, diagonal in enumerate(diagonals)
        ]
    backwards = lower == adjoint
    if backwards:
        diagonals, right = [_reversed(b, item) for item in diagonals], _reversed(b, right)
    found = _forwards(b, diagonals, right)
    if backwards:
        found = _reversed(b, found)
    return b.transposed(found, (*range(1, rank + 1), 0, rank + 1))


def _reversed(b: TensorBuilder, x: Instruction) -> Instruction:
    return b.emit("reverse", x, dimensions=(0,))


def _forwards(b: TensorBuilder, diagonals: list[Instruction], right: Instruction) -> Instruction:
    """Return x [m, ..., n] of lower triangles; the n-th diagonal's element i is in row i."""
    rows, further = right.shape.dims[0], len(diagonals) - 1
    zero = b.scalar(0, right.shape.dtype)
    # So many zeros come before the first row, and none of them counts: diagonals end there.
    room = b.zeros(right.shape.with_dims((rows + further, *right.shape.dims[1:])))
    index = b.iota_of(S64, diagonals[0].shape.dims, 0)
    kept = [
        b.select(b.compared("GE", index, n), diagonal, b.spread(zero, diagonal.shape.dims))
        for n, diagonal in enumerate(diagonals)
    ]

    def step(b: TensorBuilder, state: list[Instruction]) -> list[Instruction]:
        at, end, room, right, *diagonals = state
        value = row_at(b, right, at)
        batch_axes = tuple(range(value.shape.rank - 1))
        for n, diagonal in enumerate(diagonals[1:], 1):
            before = row_at(b, room, b.binary("add", at, further - n))
            weight = b.spread(row_at(b, diagonal, at), value.shape.dims, batch_axes)
            value = b.subtract(value, b.multiply(weight, before))
        pivot = b.spread(row_at(b, diagonals[0], at), value.shape.dims, batch_axes)
        room = with_row(b, room, b.binary("add", at, further), b.divide(value, pivot))
        return [b.binary("add", at, 1), end, room, right, *diagonals]

    made = b.loop([b.constant(0, S64), b.size(rows), room, right, *kept], counts_up, step)[2]
    return b.sliced(made, 0, further, rows + further)


RULES: dict[str, Rule] = {"BandedTriangularSolve": _solve}
