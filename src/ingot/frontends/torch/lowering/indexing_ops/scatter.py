# SPDX-License-Identifier: Apache-2.0
"""Scatters: `x[i, index[i, j]] = src[i, j]`, replaced or combined; and by slices, `index_reduce`.

Indices must be in range (`index_checks`). Of several values for one element the last one is stored;
PyTorch does not promise which. Half floats are rounded after every step, as PyTorch's kernels do.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.frontends.building.arrays import ArrayBuilder, neutral
from ingot.frontends.building.indexing import scatter_elements, scatter_slices
from ingot.frontends.torch.lowering.context.op import Op, Rule, Scalar
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.frontends.torch.lowering.indexing_ops.index_checks import checked
from ingot.frontends.torch.lowering.indexing_ops.indexing import narrowed
from ingot.hlo.dtype import PRED
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")

_OPCODES = {
    "add": "add", "sum": "add", "mean": "add", "multiply": "multiply", "prod": "multiply",
    "amax": "maximum", "amin": "minimum",
}  # fmt: skip

Scatter = Callable[[str, Instruction, Instruction], Instruction]
"""Combines updates into an array, at the indices that it was made for."""


def _opcode(op: Op, reduce: str, x: Instruction) -> str:
    if reduce not in _OPCODES:
        raise op.error(f"the reduction {reduce!r}")
    opcode = _OPCODES[reduce]
    if x.shape.dtype is PRED:
        return {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}[opcode]
    return opcode


def _into_rows(op: Op, x: Instruction, dim: int, index: Instruction) -> Scatter:
    """Return a function that combines updates of the index's sizes into an array like x.

    The indices are checked once, however often it is called.
    """
    b, dims = op.b, x.shape.dims
    if index.shape.size == 0:
        return lambda opcode, into, updates: into
    if x.shape.rank == 0 or index.shape.rank == 0:
        count = index.shape.size
        only = checked(op, b.reshape_to(index, (count,)), x.shape.size, axis=0)

        def flat(opcode: str, into: Instruction, updates: Instruction) -> Instruction:
            row = b.reshape_to(into, (x.shape.size,))
            made = scatter_slices(b, opcode, row, only, b.reshape_to(updates, (count,)))
            return b.reshape_to(made, dims)

        return flat
    axis = op.axis(dim, x.shape.rank)
    indices = checked(op, index, dims[axis], axis=axis)

    def scatter(opcode: str, into: Instruction, updates: Instruction) -> Instruction:
        part = narrowed(b, into, index.shape.dims, axis)
        made = scatter_elements(b, opcode, part, indices, updates, axis)
        if part is into:
            return made
        zero = b.scalar(0, indices.shape.dtype)
        return b.emit("dynamic-update-slice", into, made, *([zero] * x.shape.rank))

    return scatter


def _source(op: Op, index: Instruction, src: Instruction) -> Instruction:
    """Return the front part of the source that has the index's sizes."""
    if index.shape.rank == 0 or src.shape.rank == 0:
        return op.b.reshape_to(src, index.shape.dims)
    return narrowed(op.b, src, index.shape.dims, -1)


def _spread_value(op: Op, value: Scalar, x: Instruction, index: Instruction) -> Instruction:
    return op.b.spread(op.scalar(value, x.shape.dtype), index.shape.dims)


@RULES.rule("scatter.src")
def _scatter_src(
    op: Op, x: Instruction, dim: int, index: Instruction, src: Instruction
) -> Instruction:
    return _into_rows(op, x, dim, index)("update", x, _source(op, index, src))


@RULES.rule("scatter.value")
def _scatter_value(
    op: Op, x: Instruction, dim: int, index: Instruction, value: Scalar
) -> Instruction:
    return _into_rows(op, x, dim, index)("update", x, _spread_value(op, value, x, index))


@RULES.rule("scatter.reduce")
def _scatter_reduce(
    op: Op, x: Instruction, dim: int, index: Instruction, src: Instruction, *, reduce: str
) -> Instruction:
    opcode = _opcode(op, reduce, x)
    return _into_rows(op, x, dim, index)(opcode, x, _source(op, index, src))


@RULES.rule("scatter.value_reduce")
def _scatter_value_reduce(
    op: Op, x: Instruction, dim: int, index: Instruction, value: Scalar, *, reduce: str
) -> Instruction:
    updates = _spread_value(op, value, x, index)
    return _into_rows(op, x, dim, index)(_opcode(op, reduce, x), x, updates)


@RULES.rule("scatter_add")
def _scatter_add(
    op: Op, x: Instruction, dim: int, index: Instruction, src: Instruction
) -> Instruction:
    opcode = _opcode(op, "add", x)
    return _into_rows(op, x, dim, index)(opcode, x, _source(op, index, src))


def _combined(
    op: Op, x: Instruction, reduce: str, include_self: bool, updates: Instruction, scatter: Scatter
) -> Instruction:
    """Return x with updates folded in; without `include_self`, updated elements start anew.

    Means are of the folded elements, rounded down for integers.
    """
    b, element, opcode = op.b, x.shape.dtype, _opcode(op, reduce, x)
    ones = b.like(1, updates.shape)
    start = x
    if not include_self:
        touched = b.to_pred(scatter("update", b.zeros(x.shape), ones))
        start = b.select(touched, b.like(neutral(opcode, element), x.shape), x)
    made = scatter(opcode, start, updates)
    if reduce != "mean":
        return made
    first = b.like(1, x.shape) if include_self else b.zeros(x.shape)
    count = scatter(opcode, first, ones)
    count = b.maximum(count, b.like(1, count.shape)) if element is not PRED else count
    return _quotient(b, made, count)


def _quotient(b: ArrayBuilder, x: Instruction, y: Instruction) -> Instruction:
    """Return x / y for y > 0, rounded down for integers."""
    if x.shape.dtype.is_float or x.shape.dtype.is_complex:
        return b.divide(x, y)
    if x.shape.dtype is PRED:
        return b.and_(x, y)
    found = b.divide(x, y)
    wrong = b.compare(b.multiply(found, y), x, direction="GT")
    return b.select(wrong, b.binary("subtract", found, 1), found)


@RULES.rule("scatter_reduce.two")
def _scatter_reduce_two(
    op: Op,
    x: Instruction,
    dim: int,
    index: Instruction,
    src: Instruction,
    reduce: str,
    *,
    include_self: bool = True,
) -> Instruction:
    if index.shape.size == 0:
        return x
    scatter = _into_rows(op, x, dim, index)
    return _combined(op, x, reduce, include_self, _source(op, index, src), scatter)


def _into_slices(
    op: Op, opcode: str, x: Instruction, dim: int, index: Instruction, source: Instruction
) -> Instruction:
    """Return x with slices of the source combined into the slices that the index names."""
    b = op.b
    whole = x if x.shape.rank else b.reshape_to(x, (1,))
    axis, dims = op.axis(dim, whole.shape.rank), whole.shape.dims
    index = b.reshape_to(index, (index.shape.size,))
    indices = checked(op, index, dims[axis], axis=axis)
    updates = b.reshape_to(source, (*dims[:axis], index.shape.size, *dims[axis + 1 :]))
    return b.reshape_to(scatter_slices(b, opcode, whole, indices, updates, axis), op.dims)


@RULES.rule("index_add")
def _index_add(
    op: Op,
    x: Instruction,
    dim: int,
    index: Instruction,
    source: Instruction,
    *,
    alpha: Scalar = 1,
) -> Instruction:
    b = op.b
    if alpha != 1:
        source = b.multiply(source, op.scalar_like(alpha, source))
    return _into_slices(op, _opcode(op, "add", x), x, dim, index, source)


def _index_reduce() -> Rule:
    def rule(
        op: Op,
        x: Instruction,
        dim: int,
        index: Instruction,
        source: Instruction,
        reduce: str,
        *,
        include_self: bool = True,
    ) -> Instruction:
        b = op.b
        whole = x if x.shape.rank else b.reshape_to(x, (1,))
        axis = op.axis(dim, whole.shape.rank)
        index = b.reshape_to(index, (index.shape.size,))
        indices = checked(op, index, whole.shape.dims[axis], axis=axis)
        dims = whole.shape.dims
        updates = b.reshape_to(source, (*dims[:axis], index.shape.size, *dims[axis + 1 :]))

        def scatter(opcode: str, into: Instruction, updates: Instruction) -> Instruction:
            return scatter_slices(b, opcode, into, indices, updates, axis)

        made = _combined(op, whole, reduce, include_self, updates, scatter)
        return b.reshape_to(made, op.dims)

    return rule


RULES.add(_index_reduce(), "index_reduce")
