# SPDX-License-Identifier: Apache-2.0
"""Grids of equal blocks: tensors and variables put together from shards, and cut into them.

Block n of a grid `[g0, g1, ...]` is at n's digits, the last one fastest. A grid may reach over the
tensor's end by a padding, which is cut off when blocks are joined and is zeros when they are cut.
Source: TensorFlow's `compiler/tf2xla/kernels/sharding_util_ops.cc`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Size, Value
from ingot.frontends.tensorflow.lowering.state_ops.variables import read, write
from ingot.hlo.instruction import Instruction


def _grid(op: Op, name: str, blocks: int, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the counts and paddings per dimension of a grid of `blocks` in a tensor of `rank`."""
    counts, paddings = (
        tuple(int(value) for value in op.attribute(item, ()) or ()) for item in (name, "paddings")
    )
    for axis, count in enumerate(counts):
        if count <= 0:
            raise op.mistake(f"'{name}' at index {axis} must be positive, but got {count}")
    if blocks != math.prod(counts):
        raise op.mistake(f"'N' must match number of slices {math.prod(counts)}, but got {blocks}")
    if rank != len(counts):
        raise op.mistake(
            f"rank must be the same as '{name}' length {len(counts)}, but got rank {rank}"
        )
    paddings = paddings or (0,) * rank
    if len(paddings) != rank:
        raise op.mistake(f"'paddings' must be of length {rank}, but got {len(paddings)}")
    for axis, padding in enumerate(paddings):
        if padding < 0:
            raise op.mistake(f"'paddings' must be non-negative, but got {padding} at index {axis}")
    return counts, paddings


def _joined(op: Op, blocks: Sequence[Instruction]) -> Instruction:
    b, rows = op.b, list(blocks)
    first = rows[0].shape.dims
    for index, block in enumerate(rows):
        given = block.shape.dims
        if len(given) != len(first) or not all(map(b.same, first, given)):
            raise op.mistake(
                f"'inputs' must all have the same expected shape {list(first)}, but got "
                f"{list(given)} at index {index}"
            )
    counts, paddings = _grid(op, "num_concats", len(rows), len(first))
    for axis in reversed(range(len(counts))):
        count = counts[axis]
        rows = [b.concatenated(rows[n : n + count], axis) for n in range(0, len(rows), count)]
    (whole,) = rows
    for axis, padding in enumerate(paddings):
        size = whole.shape.dims[axis]
        if isinstance(size, int) and padding > size:
            raise op.mistake(
                "'paddings' must not exceed expected output shape dimension "
                f"{size} at index {axis}, but got {padding}"
            )
        whole = b.sliced(whole, axis, 0, size - padding)
    return whole


def _cut(op: Op, whole: Instruction) -> tuple[Value, ...]:
    b = op.b
    counts, paddings = _grid(op, "num_splits", len(op.node.outputs), whole.shape.rank)
    zero = b.constant(0, whole.shape.dtype)
    for axis, padding in enumerate(paddings):
        whole = b.padded(whole, axis, 0, padding, zero)
    rows = [whole]
    for axis, count in enumerate(counts):
        size = _block(op, whole.shape.dims[axis], count)
        rows = [b.sliced(row, axis, n * size, (n + 1) * size) for row in rows for n in range(count)]
    return tuple(rows)


def _block(op: Op, size: Size, count: int) -> int:
    if not isinstance(size, int) or size % count:
        raise op.mistake(f"a size of {size} must be evenly divisible by 'num_splits' {count}")
    return size // count


def _assign(op: Op) -> tuple[Value, ...]:
    return write(op, _joined(op, op.tensors(1)))


RULES: dict[str, Rule] = {
    "AssignVariableXlaConcatND": _assign,
    "ReadVariableXlaSplitND": lambda op: _cut(op, read(op)),
    "XlaConcatND": lambda op: _joined(op, op.tensors()),
    "XlaSplitND": lambda op: _cut(op, op.tensor(0)),
}
