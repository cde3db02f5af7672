"""Grids of equal blocks: tensors and variables put together from shards, and cut into them.

Block n of a grid `[g0, g1, ...]` is at n's digits, the last one fastest. A grid may reach over the
tensor's end by a padding, which is cut off when blocks are joined and is zeros when they are cut.
Source: TensorFlow's `compiler/tf2xla/kernels/sharding_util_ops.cc`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.tensorflow.lowering.op import Op, Rule
from ingot.frontends.tensorflow.lowering.values import Size, Value
from ingot.frontends.tensorflow.lowering.variables import read, write
from ingot.hlo.instruction import Instruction


def _numbers(op: Op, name: str, rank: int) -> tuple[int, ...]:
    return tuple(int(value) for value in op.attribute(name, ()) or ()) or (0,) * rank


def _joined(op: Op, blocks: Sequence[Instruction]) -> Instruction:
    b = op.b
    counts = _numbers(op, "num_concats", 0)
    rows = list(blocks)
    for axis in reversed(range(len(counts))):
        count = counts[axis]
        rows = [b.concatenated(rows[n : n + count], axis) for n in range(0, len(rows), count)]
    (whole,) = rows
    for axis, padding in enumerate(_numbers(op, "paddings", len(counts))):
        whole = b.sliced(whole, axis, 0, whole.shape.dims[axis] - padding)
    return whole


def _cut(op: Op, whole: Instruction) -> tuple[Value, ...]:
    b = op.b
    counts = _numbers(op, "num_splits", 0)
    if len(counts) != whole.shape.rank:
        raise op.error(f"num_splits {list(counts)} of a tensor of rank {whole.shape.rank}")
    zero = b.constant(0, whole.shape.dtype)
    for axis, padding in enumerate(_numbers(op, "paddings", len(counts))):
        whole = b.padded(whole, axis, 0, padding, zero)
    rows = [whole]
    for axis, count in enumerate(counts):
        size = _block(op, whole.shape.dims[axis], count)
        rows = [b.sliced(row, axis, n * size, (n + 1) * size) for row in rows for n in range(count)]
    return tuple(rows)


def _block(op: Op, size: Size, count: int) -> int:
    if not isinstance(size, int) or size % count:
        raise op.error(f"a size of {size} does not divide into {count} blocks")
    return size // count


def _assign(op: Op) -> tuple[Value, ...]:
    return write(op, _joined(op, op.tensors(1)))


RULES: dict[str, Rule] = {
    "AssignVariableXlaConcatND": _assign,
    "ReadVariableXlaSplitND": lambda op: _cut(op, read(op)),
    "XlaConcatND": lambda op: _joined(op, op.tensors()),
    "XlaSplitND": lambda op: _cut(op, op.tensor(0)),
}
