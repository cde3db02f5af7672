"""Non-maximum suppression: boxes are taken by falling score unless they overlap one taken before.

A loop takes one box at a time. The result is padded to the greatest number of boxes, or as large as
the number that is chosen. Source: TensorFlow's
`kernels/image/non_max_suppression_op.cc`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ingot.frontends.tensorflow.lowering.computed_sizes import computed_size
from ingot.frontends.tensorflow.lowering.op import Op, Rule
from ingot.frontends.tensorflow.lowering.reduction import arg_extreme
from ingot.frontends.tensorflow.lowering.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.values import Value
from ingot.hlo.dtype import F32, S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

Sides = tuple[Instruction, Instruction, Instruction, Instruction]


def _sides(b: TensorBuilder, boxes: Instruction) -> Sides:
    """Return top, left, bottom, right of boxes `[n, 4]`, whichever corners they are given by."""
    n = boxes.shape.dims[0]
    first, second, third, fourth = (
        b.reshape_to(b.sliced(boxes, 1, k, k + 1), (n,)) for k in range(4)
    )
    return (
        b.minimum(first, third), b.minimum(second, fourth),
        b.maximum(first, third), b.maximum(second, fourth),
    )  # fmt: skip


def _area(b: TensorBuilder, sides: Sides) -> Instruction:
    top, left, bottom, right = sides
    return b.multiply(b.subtract(bottom, top), b.subtract(right, left))


def _overlap(b: TensorBuilder, sides: Sides, one: Sides) -> Instruction:
    """Return the intersection over the union of each box with one box (spread)."""
    top, left = (b.maximum(*pair) for pair in zip(sides[:2], one[:2], strict=True))
    bottom, right = (b.minimum(*pair) for pair in zip(sides[2:], one[2:], strict=True))
    zero = b.zeros(top.shape)
    common = b.multiply(
        b.maximum(b.subtract(bottom, top), zero), b.maximum(b.subtract(right, left), zero)
    )
    areas = _area(b, sides), _area(b, one)
    share = b.divide(common, b.subtract(b.add(*areas), common))
    flat = b.or_(b.compared("LE", areas[0], 0), b.compared("LE", areas[1], 0))
    return b.select(flat, zero, share)


def _loop_step(most: int) -> tuple[Callable[..., Instruction], Callable[..., list[Instruction]]]:
    def goes_on(b: TensorBuilder, state: list[Instruction]) -> Instruction:
        scores, _, count, *_ = state
        some = b.reduced("or", b.compared("GT", scores, -np.inf), (0,))
        return b.and_(some, b.compared("LT", count, most))

    def step(b: TensorBuilder, state: list[Instruction]) -> list[Instruction]:
        scores, chosen, count, threshold, *rest = state
        sides: Sides = (rest[0], rest[1], rest[2], rest[3])
        best = arg_extreme(b, scores, 0, True)
        row = b.reshape_to(best, (1,))
        chosen = b.emit("dynamic-update-slice", chosen, row, count)
        one = tuple(
            b.spread(b.emit("dynamic-slice", side, best, dynamic_slice_sizes=(1,)), side.shape.dims)
            for side in sides
        )
        share = _overlap(b, sides, (one[0], one[1], one[2], one[3]))
        out = b.compare(share, b.spread(threshold, share.shape.dims), direction="GT")
        index = b.iota_of(S32, scores.shape.dims, 0)
        out = b.or_(out, b.compare(index, b.spread(best, index.shape.dims), direction="EQ"))
        scores = b.select(out, b.like(-np.inf, scores.shape), scores)
        return [scores, chosen, b.binary("add", count, 1), threshold, *sides]

    return goes_on, step


def _suppressed(op: Op) -> tuple[Instruction, Instruction]:
    """boxes, scores, greatest number, overlap threshold, score threshold."""
    b = op.b
    (most,) = op.integers(2, "max_output_size")
    if most < 0:
        raise op.error(f"max_output_size must be non-negative, got {most}")
    boxes, scores = (b.convert_to(op.tensor(n), F32) for n in range(2))
    overlap, least = (b.convert_to(op.tensor(n), F32) for n in (3, 4))
    chosen = b.zeros(Shape.array(S32, (most,)))
    if most == 0 or scores.shape.size == 0:
        return chosen, b.constant(0, S32)
    high = b.compared("GT", scores, b.spread(least, scores.shape.dims))
    scores = b.select(high, scores, b.like(-np.inf, scores.shape))
    state = [scores, chosen, b.constant(0, S32), overlap, *_sides(b, boxes)]
    found = b.loop(state, *_loop_step(most))
    return found[1], found[2]


def _exact(op: Op) -> tuple[Value, Value]:
    """Return the chosen boxes without padding, and how many they are."""
    chosen, count = _suppressed(op)
    size = computed_size(op.frame, count)
    zero = op.b.constant(0, S32)
    return op.b.emit("dynamic-slice", chosen, zero, dynamic_slice_sizes=(size,)), count


def _version_4(op: Op) -> tuple[Value, ...]:
    return _suppressed(op) if op.attribute("pad_to_max_output_size", False) else _exact(op)


RULES: dict[str, Rule] = {
    "NonMaxSuppressionV3": lambda op: _exact(op)[:1],
    "NonMaxSuppressionV4": _version_4,
}
