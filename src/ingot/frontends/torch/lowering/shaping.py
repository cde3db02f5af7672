# SPDX-License-Identifier: Apache-2.0
"""Ops that only move elements: views, permutations, slices, concatenation; constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingot.frontends.torch.lowering.op import Op, Scalar
from ingot.frontends.torch.lowering.table import RuleTable
from ingot.frontends.torch.sizes import Size
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")

_END = 2**62
"""PyTorch writes "to the end" as the greatest s64."""


@RULES.rule(
    "view",
    "_unsafe_view",
    "reshape",
    "unsqueeze",
    "squeeze",
    "squeeze.dim",
    "squeeze.dims",
    "_reshape_alias",
)
def _view(op: Op, x: Instruction, *how: object) -> Instruction:
    del how  # the result's sizes
    return op.b.reshape_to(x, op.dims)


@RULES.rule("expand")
def _expand(op: Op, x: Instruction, size: object, *, implicit: bool = False) -> Instruction:
    del size, implicit
    return op.b.spread(x, op.dims)


@RULES.rule("permute")
def _permute(op: Op, x: Instruction, dims: Sequence[int]) -> Instruction:
    return op.b.transposed(x, [dim % x.shape.rank for dim in dims])


@RULES.rule("t")
def _t(op: Op, x: Instruction) -> Instruction:
    return op.b.transposed(x, list(range(x.shape.rank))[::-1])


@RULES.rule("transpose.int")
def _transpose(op: Op, x: Instruction, dim0: int, dim1: int) -> Instruction:
    order = list(range(x.shape.rank))
    if order:
        dim0, dim1 = dim0 % len(order), dim1 % len(order)
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return op.b.transposed(x, order)


@RULES.rule("slice.Tensor")
def _slice(
    op: Op,
    x: Instruction,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: int = 1,
) -> Instruction:
    """Negative bounds count from the end; PyTorch has worked out how many elements there are."""
    del end
    axis = op.axis(dim, x.shape.rank)
    size, count = x.shape.dims[axis], op.dims[axis]
    first = _from_front(op, 0 if start is None else start, size)
    if count == 0:
        first = 0
    limit = first + (count - 1) * step + 1 if step != 1 else first + count
    return op.b.sliced(x, axis, first, limit, step)


def _from_front(op: Op, index: Size, size: Size) -> Size:
    """Return an index counted from the front and not beyond the end."""
    if isinstance(index, int):
        if index < 0:
            index = max(index + size, 0) if isinstance(size, int) else index + size
        return min(index, size) if isinstance(size, int) and isinstance(index, int) else index
    return index


@RULES.rule("select.int")
def _select(op: Op, x: Instruction, dim: int, index: Size) -> Instruction:
    axis = op.axis(dim, x.shape.rank)
    first = index + x.shape.dims[axis] if isinstance(index, int) and index < 0 else index
    return op.b.reshape_to(op.b.sliced(x, axis, first, first + 1), op.dims)


@RULES.rule("cat")
def _cat(op: Op, tensors: Sequence[Instruction], dim: int = 0) -> Instruction:
    """Tensors of the one size 0 are left out, as PyTorch does."""
    rank = len(op.dims)
    parts = [op.b.convert_to(x, op.dtype) for x in tensors if x.shape.dims != (0,) or rank == 1]
    return op.b.concatenated(parts, op.axis(dim, rank))


@RULES.rule("split_with_sizes")
def _split_with_sizes(
    op: Op, x: Instruction, sizes: Sequence[Size], dim: int = 0
) -> tuple[Instruction, ...]:
    axis = op.axis(dim, x.shape.rank)
    parts: list[Instruction] = []
    start: Size = 0
    for size in sizes:
        parts.append(op.b.sliced(x, axis, start, start + size))
        start = start + size
    return tuple(parts)


@RULES.rule("full", "full_like", "scalar_tensor", "new_full")
def _full(op: Op, *given: Any) -> Instruction:
    value: Scalar = given[-1]
    if isinstance(value, Dim):
        return op.b.spread(op.b.scalar(value, op.dtype), op.dims)
    return op.b.spread(op.scalar(value, op.dtype), op.dims)


@RULES.rule("arange.start_step")
def _arange(op: Op, start: Scalar, end: Scalar, step: Scalar = 1) -> Instruction:
    del end
    b, element = op.b, op.dtype
    index = b.iota_of(element, op.dims, 0)
    if step != 1:
        index = b.multiply(index, b.spread(op.scalar(step, element), op.dims))
    return index if start == 0 else b.add(index, b.spread(op.scalar(start, element), op.dims))
