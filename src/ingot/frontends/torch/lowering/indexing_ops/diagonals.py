# SPDX-License-Identifier: Apache-2.0
"""Diagonals of matrices, and the indices of triangles.

Diagonal `offset` of `[rows, columns]` is every (columns + 1)-th element from its first one.
"""

from __future__ import annotations

import numpy as np

from ingot.frontends.building.indexing import take
from ingot.frontends.torch.fx.sizes import Size
from ingot.frontends.torch.lowering.context.op import Op, Rule
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.frontends.torch.lowering.indexing_ops.searching import count_up_to_each
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

RULES = RuleTable("aten")


def _matrices_last(op: Op, x: Instruction, dim1: int, dim2: int) -> tuple[int, ...]:
    """Return the order of dimensions in which two given ones are the last."""
    rank = x.shape.rank
    last = (op.axis(dim1, rank), op.axis(dim2, rank))
    return (*(dim for dim in range(rank) if dim not in last), *last)


@RULES.rule("diagonal", "diagonal_copy")
def _diagonal(op: Op, x: Instruction, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Instruction:
    b = op.b
    moved = b.transposed(x, _matrices_last(op, x, dim1, dim2))
    *outer, rows, columns = moved.shape.dims
    axis, count = len(outer), op.dims[-1]
    if count == 0:
        return b.zeros(op.shape)
    flat = b.reshape_to(moved, (*outer, rows * columns))
    start: Size = offset if offset >= 0 else -offset * columns
    if isinstance(columns, int):
        step = columns + 1
        return b.sliced(flat, axis, start, start + (count - 1) * step + 1, step)
    line = Shape.array(S64, (count,))
    offsets = b.multiply(b.iota_of(S64, (count,), 0), b.like(columns + 1, line))
    return take(b, flat, b.add(offsets, b.like(start, line)), axis)


@RULES.rule("diagonal_scatter")
def _diagonal_scatter(
    op: Op, x: Instruction, source: Instruction, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Instruction:
    b = op.b
    order = _matrices_last(op, x, dim1, dim2)
    moved, source = b.transposed(x, order), b.convert_to(source, x.shape.dtype)
    dims = moved.shape.dims
    rank, size = len(dims), source.shape.dims[-1]
    # The n-th element of an upper diagonal is in row n, of a lower diagonal in column n.
    axis = rank - 2 if offset >= 0 else rank - 1
    line = b.padded(source, rank - 2, 0, dims[axis] - size, b.constant(0, source.shape.dtype))
    spread = b.spread(line, dims, (*range(rank - 2), axis))
    gap = b.subtract(b.iota_of(S64, dims, rank - 1), b.iota_of(S64, dims, rank - 2))
    made = b.select(b.compared("EQ", gap, offset), spread, moved)
    return b.transposed(made, [order.index(dim) for dim in range(rank)])


def _triangle_indices(upper: bool) -> Rule:
    """Return the rule for the rows and columns of a triangle's elements, row by row."""

    def rule(op: Op, row: int, col: int, offset: int = 0) -> Instruction:
        b, count = op.b, op.dims[1]
        numbers = np.arange(row)
        if upper:
            firsts = np.clip(numbers + offset, 0, col)
            lengths = col - firsts
        else:
            firsts = np.zeros_like(numbers)
            lengths = np.clip(numbers + offset + 1, 0, col)
        if count == 0:
            return b.zeros(op.shape)
        ends = np.cumsum(lengths)
        number = b.iota_of(S64, (count,), 0)
        found = count_up_to_each(b, b.constant(ends, S64), count)
        before = take(b, b.constant(firsts - (ends - lengths), S64), found)
        parts = [b.reshape_to(item, (1, count)) for item in (found, b.add(number, before))]
        return b.convert_to(b.concatenated(parts, 0), op.dtype)

    return rule


RULES.add(_triangle_indices(upper=False), "tril_indices")
RULES.add(_triangle_indices(upper=True), "triu_indices")
