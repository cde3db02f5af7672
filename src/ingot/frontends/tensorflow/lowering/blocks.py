"""Space, depth and batch: ops that move blocks of an image between dimensions.

Each is reshape, transpose, reshape. Source: TensorFlow's op documentation.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.tensorflow.lowering.op import Op, Rule
from ingot.frontends.tensorflow.lowering.values import Size, Sizes, Value
from ingot.hlo import dim as dim_math
from ingot.hlo.instruction import Instruction


def _divided(op: Op, size: Size, block: int) -> Size:
    found = dim_math.exact_quotient(size, block)
    if found is None:
        raise op.error(f"a dimension of size {size} is not a multiple of the block {block}")
    return found


def _channels_last(op: Op) -> bool:
    layout = str(op.attribute("data_format", "NHWC"))
    if layout not in ("NHWC", "NCHW"):
        raise op.error(f"data format {layout} has no lowering", "use NHWC")
    return layout == "NHWC"


def _depth_to_space(op: Op) -> Value:
    x, b = op.tensor(0), op.b
    block = int(op.attribute("block_size"))
    last = _channels_last(op)
    x = x if last else b.transposed(x, (0, 2, 3, 1))
    batch, height, width, depth = x.shape.dims
    rest = _divided(op, depth, block * block)
    x = b.reshape_to(x, (batch, height, width, block, block, rest))
    x = b.transposed(x, (0, 1, 3, 2, 4, 5))
    x = b.reshape_to(x, (batch, height * block, width * block, rest))
    return x if last else b.transposed(x, (0, 3, 1, 2))


def _space_to_depth(op: Op) -> Value:
    x, b = op.tensor(0), op.b
    block = int(op.attribute("block_size"))
    last = _channels_last(op)
    x = x if last else b.transposed(x, (0, 2, 3, 1))
    batch, height, width, depth = x.shape.dims
    rows, columns = _divided(op, height, block), _divided(op, width, block)
    x = b.reshape_to(x, (batch, rows, block, columns, block, depth))
    x = b.transposed(x, (0, 1, 3, 2, 4, 5))
    x = b.reshape_to(x, (batch, rows, columns, depth * block * block))
    return x if last else b.transposed(x, (0, 3, 1, 2))


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
    order = [count] + [place for n in range(count) for place in (count + 1 + n, n)]
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
