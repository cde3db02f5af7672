# SPDX-License-Identifier: Apache-2.0
"""Tridiagonal matrices, given by their three diagonals: solves and products.

With partial pivoting LAPACK's `gtsv` solves; without, it is Thomas' algorithm, two loops over the
rows that all systems of the batch run together. The solution of a matrix that has no inverse (or,
without pivoting, that meets a pivot of 0) is NaN throughout, as TensorFlow has it.

Source: TensorFlow's `kernels/linalg/tridiagonal_solve_op.cc`, `tridiagonal_matmul_op.cc`.
"""

from __future__ import annotations

import numpy as np

from ingot.frontends.building.indexing import row_at, with_row
from ingot.frontends.building.linalg import transposed
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Value
from ingot.frontends.tensorflow.lowering.linalg_ops.linalg import matrices
from ingot.hlo.dtype import PRED, S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.passes.expand.lapack_calls import lapack_call

Diagonals = tuple[Instruction, Instruction, Instruction]


def _solve(op: Op) -> Value:
    """Solve with diagonals [..., 3, m]: above, on and below the main one."""
    packed, right = matrices(op), matrices(op, 1)
    b, rank = op.b, packed.shape.rank
    m, batch = packed.shape.dims[-1], packed.shape.dims[:-2]
    sizes = (*batch, m), right.shape.dims[:-1]
    if len(sizes[0]) != len(sizes[1]) or not all(map(b.same, *sizes)):
        raise op.mismatch(0, 1)
    if right.shape.size == 0:
        return op.tensor(1)
    rows = [
        b.reshape_to(b.sliced(packed, rank - 2, diagonal, diagonal + 1), (*batch, m))
        for diagonal in range(3)
    ]
    above, main, below = rows
    # What lies outside of the matrix is not looked at by TensorFlow; LAPACK wants it finite.
    index = b.iota_of(S32, main.shape.dims, main.shape.rank - 1)
    below = b.select(b.compared("GT", index, 0), below, b.zeros(below.shape))
    solve = _with_pivots if op.attribute("partial_pivoting", True) else _thomas
    x, singular = solve(b, (above, main, below), right)
    nan = b.like(np.nan, x.shape)
    x = b.select(b.spread(singular, x.shape.dims, tuple(range(len(batch)))), nan, x)
    return b.convert_to(x, op.result())


def _with_pivots(
    b: TensorBuilder, diagonals: Diagonals, right: Instruction
) -> tuple[Instruction, Instruction]:
    """Return the solutions, and which matrices of the batch are singular."""
    above, main, below = diagonals
    batch = main.shape.dims[:-1]
    shapes = [*(row.shape for row in diagonals), right.shape, Shape.array(S32, batch)]
    aliases = "{{0}: (0, {}), {1}: (1, {}), {2}: (2, {}), {3}: (3, {})}"
    *_, x, info = lapack_call(b, "gtsv", [below, main, above, right], shapes, aliases=aliases)
    return x, b.compared("NE", info, 0)


def _thomas(
    b: TensorBuilder, diagonals: Diagonals, right: Instruction
) -> tuple[Instruction, Instruction]:
    """Eliminate downwards, substitute upwards: rows lie in front, so that a step takes one."""
    above, main, below = (_row_first(b, row, row.shape.rank - 1) for row in diagonals)
    values = _row_first(b, right, right.shape.rank - 2)
    m = main.shape.dims[0]
    flags = b.zeros(main.shape.with_dtype(PRED).with_dims(main.shape.dims[1:]))
    state = [b.constant(0, S32), above, main, below, values, b.zeros(main.shape), flags]
    *_, shifted, factors, flags = b.loop(state, _rows_left, _eliminate)
    last = b.convert_to(b.size(m), S32)
    _, solved, _ = b.loop([last, shifted, factors], _rows_above, _substitute)
    rank = right.shape.rank
    order = (*range(1, rank - 1), 0, rank - 1)
    return b.transposed(solved, order), flags


def _row_first(b: TensorBuilder, x: Instruction, axis: int) -> Instruction:
    return b.transposed(x, (axis, *(n for n in range(x.shape.rank) if n != axis)))


def _column(b: TensorBuilder, x: Instruction, like: Instruction) -> Instruction:
    """Repeat a number per system for each of its right-hand sides."""
    return b.spread(x, like.shape.dims, tuple(range(x.shape.rank)))


def _rows_left(b: TensorBuilder, state: list[Instruction]) -> Instruction:
    return b.compare(state[0], b.convert_to(b.size(state[1].shape.dims[0]), S32), direction="LT")


def _rows_above(b: TensorBuilder, state: list[Instruction]) -> Instruction:
    return b.compared("GT", state[0], 0)


def _eliminate(b: TensorBuilder, state: list[Instruction]) -> list[Instruction]:
    """Row i: pivot = main - below * factor before; factor = above / pivot; the same for values."""
    index, above, main, below, values, factors, flags = state
    before = b.maximum(b.binary("add", index, -1), b.constant(0, S32))
    under = row_at(b, below, index)
    pivot = b.subtract(row_at(b, main, index), b.multiply(under, row_at(b, factors, before)))
    flags = b.or_(flags, b.compared("EQ", pivot, 0))
    value = row_at(b, values, index)
    carried = b.multiply(_column(b, under, value), row_at(b, values, before))
    value = b.divide(b.subtract(value, carried), _column(b, pivot, value))
    factors = with_row(b, factors, index, b.divide(row_at(b, above, index), pivot))
    values = with_row(b, values, index, value)
    return [b.binary("add", index, 1), above, main, below, values, factors, flags]


def _substitute(b: TensorBuilder, state: list[Instruction]) -> list[Instruction]:
    """Row i, from the last one up: x = value - factor * x of the row below."""
    count, values, factors = state
    index = b.binary("add", count, -1)
    last = b.convert_to(b.size(values.shape.dims[0]), S32)
    is_last = b.compare(count, last, direction="EQ")
    value = row_at(b, values, index)
    below = row_at(b, values, b.select(is_last, index, count))
    moved = b.subtract(value, b.multiply(_column(b, row_at(b, factors, index), value), below))
    value = b.select(b.spread(is_last, value.shape.dims), value, moved)
    return [index, with_row(b, values, index, value), factors]


def _product(op: Op) -> Value:
    """Multiply by diagonals [..., 1, m] above, on and below the main one."""
    above, main, below, x = (op.tensor(number) for number in range(4))
    b, axis = op.b, x.shape.rank - 2
    m, zero = x.shape.dims[axis], b.scalar(0, x.shape.dtype)
    up = b.padded(b.sliced(x, axis, 1, m), axis, 0, 1, zero)
    down = b.padded(b.sliced(x, axis, 0, m - 1), axis, 1, 0, zero)
    terms = [
        b.multiply(b.spread(transposed(b, row), shifted.shape.dims), shifted)
        for row, shifted in ((above, up), (main, x), (below, down))
    ]
    return b.add(b.add(terms[0], terms[1]), terms[2])


RULES: dict[str, Rule] = {
    "TridiagonalMatMul": _product,
    "TridiagonalSolve": _solve,
}
