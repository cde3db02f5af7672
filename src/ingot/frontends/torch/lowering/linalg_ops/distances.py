# SPDX-License-Identifier: Apache-2.0
"""Distances between all pairs of rows, and their gradients.

Source: torch/native/Distance.cpp, torch/native/cpu/DistanceOpsKernel.cpp.
"""

from __future__ import annotations

import math

import numpy as np

from ingot.frontends.building.indexing import scatter_slices, take
from ingot.frontends.building.products import dot
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.frontends.torch.lowering.reduction_ops.reduction import vector_norm
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")

_ALWAYS_PRODUCT, _NEVER_PRODUCT = 1, 2
_MANY_ROWS = 25
"""Rows beyond which PyTorch computes Euclidean distances by a matrix product, which rounds by the
size of the rows: the distance of equal rows is not 0 then."""


def _differences(op: Op, x: Instruction, y: Instruction) -> Instruction:
    """Return `[..., n, m, size]` for rows `[..., n, size]` and `[..., m, size]`."""
    b = op.b
    *outer, n, size = x.shape.dims
    m, rank = y.shape.dims[-2], len(outer)
    dims = (*outer, n, m, size)
    front = tuple(range(rank))
    return b.subtract(
        b.spread(x, dims, (*front, rank, rank + 2)), b.spread(y, dims, (*front, rank + 1, rank + 2))
    )


@RULES.rule("_cdist_forward")
def _cdist_forward(
    op: Op, x: Instruction, y: Instruction, p: float, compute_mode: int | None
) -> Instruction:
    b = op.b
    outer = op.dims[:-2]
    x, y = (b.spread(item, (*outer, *item.shape.dims[-2:])) for item in (x, y))
    rows = (x.shape.dims[-2], y.shape.dims[-2])
    # Of symbolic numbers of rows PyTorch's trace has asked, and leaves this op for few rows.
    many = all(isinstance(count, int) and count > _MANY_ROWS for count in rows)
    if p == 2 and compute_mode != _NEVER_PRODUCT and (compute_mode == _ALWAYS_PRODUCT or many):
        return _by_product(op, x, y)
    sizes = b.abs(_differences(op, x, y))
    return vector_norm(op, sizes, p, (sizes.shape.rank - 1,), False)


def _by_product(op: Op, x: Instruction, y: Instruction) -> Instruction:
    """Return the root of x² + y² - 2xy, or 0 if that is negative."""
    b, rank = op.b, x.shape.rank
    batch = tuple(range(rank - 2))
    product = dot(b, x, y, ((rank - 1,), (rank - 1,)), (batch, batch))
    squares = [
        b.spread(b.summed(b.multiply(item, item), (rank - 1,)), op.dims, (*batch, axis))
        for item, axis in ((x, rank - 2), (y, rank - 1))
    ]
    total = b.subtract(b.add(*squares), b.binary("multiply", product, 2))
    return b.sqrt(b.maximum(total, b.zeros(total.shape)))


def _slopes(op: Op, gap: Instruction, distance: Instruction, p: float) -> Instruction:
    """Return the derivative of a distance by each difference; 0 where both are 0."""
    b = op.b
    zero = b.zeros(gap.shape)
    if p == 0:
        return zero
    if p == 1:
        return b.sign(gap)
    if math.isinf(p):
        greatest = b.compare(b.abs(gap), distance, direction="EQ")
        return b.select(greatest, b.sign(gap), zero)
    none = b.compared("EQ", distance, 0)
    if p == 2:
        return b.select(none, zero, b.divide(gap, distance))
    if p < 1:
        none = b.or_(none, b.compared("EQ", gap, 0))
    power = b.power(b.abs(gap), b.like(p - 1, gap.shape))
    whole = b.power(distance, b.like(p - 1, gap.shape))
    return b.select(none, zero, b.divide(b.multiply(b.sign(gap), power), whole))


@RULES.rule("_cdist_backward")
def _cdist_backward(
    op: Op, dy: Instruction, x: Instruction, y: Instruction, p: float, distances: Instruction
) -> Instruction:
    """Sum over the rows of y."""
    b = op.b
    if 0 in (*dy.shape.dims, *op.dims):
        return b.zeros(op.shape)
    outer = op.dims[:-2]
    x, y = (b.spread(item, (*outer, *item.shape.dims[-2:])) for item in (x, y))
    gap = _differences(op, x, y)
    dims, rank = gap.shape.dims, gap.shape.rank
    leading = tuple(range(rank - 1))
    wide = [b.spread(b.spread(item, dims[:-1]), dims, leading) for item in (dy, distances)]
    return b.reduced("add", b.multiply(wide[0], _slopes(op, gap, wide[1], p)), (rank - 2,))


def _pairs(op: Op, x: Instruction) -> tuple[Instruction, Instruction]:
    """Return the numbers of the first and second row of each pair, in PyTorch's order."""
    rows = op.known(x.shape.dims[0], "the number of rows")
    first, second = np.triu_indices(rows, 1)
    return op.b.constant(first, S64), op.b.constant(second, S64)


@RULES.rule("_pdist_forward")
def _pdist_forward(op: Op, x: Instruction, p: float = 2.0) -> Instruction:
    b = op.b
    left, right = (take(b, x, numbers) for numbers in _pairs(op, x))
    return vector_norm(op, b.abs(b.subtract(left, right)), p, (1,), False)


@RULES.rule("_pdist_backward")
def _pdist_backward(
    op: Op, dy: Instruction, x: Instruction, p: float, distances: Instruction
) -> Instruction:
    b = op.b
    numbers = _pairs(op, x)
    gap = b.subtract(*(take(b, x, one) for one in numbers))
    wide = [b.spread(item, gap.shape.dims, (0,)) for item in (dy, distances)]
    made = b.multiply(wide[0], _slopes(op, gap, wide[1], p))
    found = scatter_slices(b, "add", b.zeros(op.shape), numbers[0], made)
    return scatter_slices(b, "add", found, numbers[1], b.negate(made))
