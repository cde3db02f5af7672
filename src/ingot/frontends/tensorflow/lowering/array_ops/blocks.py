# SPDX-License-Identifier: Apache-2.0
"""Space, depth and batch: ops that move blocks of an image between dimensions.

Each is reshape, transpose, reshape. Source: TensorFlow's op documentation.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Size, Sizes, Value
from ingot.hlo import dim as dim_math
from ingot.hlo.instruction import Instruction

_LANES = 4
"""Channels that are adjacent in the data format NCHW_VECT_C."""


def _divided(op: Op, size: Size, block: int) -> Size:
    found = dim_math.exact_quotient(size, block)
    if found is None:
        raise op.error(f"a dimension of size {size} is not a multiple of the block {block}")
    return found


def _data_format(op: Op) -> str:
    layout = str(op.attribute("data_format", "NHWC"))
    if layout not in ("NHWC", "NCHW", "NCHW_VECT_C"):
        raise op.error(f"data format {layout} has no lowering", "use NHWC")
    return layout


def _channels_last(op: Op) -> Instruction:
    """Return operand 0, an image of the op's data format, with its channels last."""
    x, b, layout = op.tensor(0), op.b, _data_format(op)
    if layout == "NHWC":
        return x
    if layout == "NCHW":
        return b.transposed(x, (0, 2, 3, 1))
    batch, groups, height, width, lanes = x.shape.dims
    x = b.transposed(x, (0, 2, 3, 1, 4))
    return b.reshape_to(x, (batch, height, width, groups * lanes))


def _in_data_format(op: Op, x: Instruction) -> Instruction:
    """Return `x`, an image with its channels last, in the op's data format."""
    b, layout = op.b, _data_format(op)
    if layout == "NHWC":
        return x
    if layout == "NCHW":
        return b.transposed(x, (0, 3, 1, 2))
    batch, height, width, depth = x.shape.dims
    x = b.reshape_to(x, (batch, height, width, _divided(op, depth, _LANES), _LANES))
    return b.transposed(x, (0, 3, 1, 2, 4))


def _depth_to_space(op: Op) -> Value:
    x, b = _channels_last(op), op.b
    block = int(op.attribute("block_size"))
    batch, height, width, depth = x.shape.dims
    rest = _divided(op, depth, block * block)
    x = b.reshape_to(x, (batch, height, width, block, block, rest))
    x = b.transposed(x, (0, 1, 3, 2, 4, 5))
    return _in_data_format(op, b.reshape_to(x, (batch, height * block, width * block, rest)))


def _space_to_depth(op: Op) -> Value:
    x, b = _channels_last(op), op.b
    block = int(op.attribute("block_size"))
    batch, height, width, depth = x.shape.dims
    rows, columns = _divided(op, height, block), _divided(op, width, block)
    x = b.reshape_to(x, (batch, rows, block, columns, block, depth))
    x = b.transposed(x, (0, 1, 3, 2, 4, 5))
    return _in_data_format(op, b.reshape_to(x, (batch, rows, columns, depth * block * block)))


def space_to_batch(
    op: Op, x: Instruction, blocks: Sequence[int], pairs: Sequence[tuple[Size, Size]]
) -> Instruction:
    """Pad, then move the positions within blocks of dimensions 1.. to the batch."""
    b = op.b
    zero = b.constant(0, x.shape.dtype)
    for axis, (low, high) in enumerate(pairs, 1):
        x = b.padded(x, axis, low, high, zero)
    count, rest = len(blocks), x.shape.dims[1 + len(blocks) :]
    batch, *sides = x.shape.dims[: 1 + count]
    outer = [_divided(op, size, block) for size, block in zip(sides, blocks, strict=True)]
    split = [part for pair in zip(outer, blocks, strict=True) for part in pair]
    x = b.reshape_to(x, (batch, *split, *rest))
    order = [2 * n + 2 for n in range(count)] + [0] + [2 * n + 1 for n in range(count)]
    x = b.transposed(x, [*order, *range(2 * count + 1, x.shape.rank)])
    return b.reshape_to(x, (batch * dim_math.product(blocks), *outer, *rest))


def batch_to_space(
    op: Op, x: Instruction, blocks: Sequence[int], pairs: Sequence[tuple[Size, Size]]
) -> Instruction:
    """Move the batch into blocks of dimensions 1.., then crop."""
    b = op.b
    count, rest = len(blocks), x.shape.dims[1 + len(blocks) :]
    batch, *sides = x.shape.dims[: 1 + count]
    left = _divided(op, batch, int(str(dim_math.product(blocks))))
    x = b.reshape_to(x, (*blocks, left, *sides, *rest))
    order = [count] + [dimension for n in range(count) for dimension in (count + 1 + n, n)]
    x = b.transposed(x, [*order, *range(2 * count + 1, x.shape.rank)])
    whole: Sizes = tuple(size * block for size, block in zip(sides, blocks, strict=True))
    x = b.reshape_to(x, (left, *whole, *rest))
    for axis, (low, high) in enumerate(pairs, 1):
        x = b.sliced(x, axis, low, x.shape.dims[axis] - high)
    return x


def _pairs(op: Op, number: int, what: str) -> list[tuple[Size, Size]]:
    flat = op.sizes(number, what)
    return list(zip(flat[::2], flat[1::2], strict=True))


def _space_to_batch_nd(op: Op) -> Value:
    blocks = op.integers(1, "block shape")
    return space_to_batch(op, op.tensor(0), blocks, _pairs(op, 2, "paddings"))


def _batch_to_space_nd(op: Op) -> Value:
    return batch_to_space(op, op.tensor(0), op.integers(1, "block shape"), _pairs(op, 2, "crops"))


def _space_to_batch(op: Op) -> Value:
    block = int(op.attribute("block_size"))
    return space_to_batch(op, op.tensor(0), (block, block), _pairs(op, 1, "paddings"))


def _batch_to_space(op: Op) -> Value:
    block = int(op.attribute("block_size"))
    return batch_to_space(op, op.tensor(0), (block, block), _pairs(op, 1, "crops"))


RULES: dict[str, Rule] = {
    "BatchToSpace": _batch_to_space,
    "BatchToSpaceND": _batch_to_space_nd,
    "DepthToSpace": _depth_to_space,
    "SpaceToBatch": _space_to_batch,
    "SpaceToBatchND": _space_to_batch_nd,
    "SpaceToDepth": _space_to_depth,
}
