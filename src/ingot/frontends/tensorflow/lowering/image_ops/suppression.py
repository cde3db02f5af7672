# SPDX-License-Identifier: Apache-2.0
"""Non-maximum suppression: boxes are taken by falling score unless they overlap one taken before.

A loop takes one box at a time, of every row of scores at once. The result is padded to the greatest
number of boxes, or as large as the number that is chosen. Source: TensorFlow's
`kernels/image/non_max_suppression_op.cc`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ingot.frontends.building.extremes import arg_extreme
from ingot.frontends.building.indexing import take
from ingot.frontends.tensorflow.lowering.context.computed_sizes import computed_size
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Size, Value
from ingot.hlo.dtype import F32, S32, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.semantics.assertions import emit_assertion
from ingot.support.records import record

Similar = Callable[[TensorBuilder, list[Instruction], Instruction], Instruction]
"""How like each box is to one box of its row (`s32[rows]`), from the values that describe boxes."""


def corners_of(b: TensorBuilder, boxes: Instruction) -> list[Instruction]:
    """Return the four numbers of boxes `[rows, n, 4]`, each `[rows, n]`."""
    dims = boxes.shape.dims[:2]
    return [b.reshape_to(b.sliced(boxes, 2, n, n + 1), dims) for n in range(4)]


def sides_of(b: TensorBuilder, boxes: Instruction) -> list[Instruction]:
    """Return top, left, bottom, right of boxes, whichever corners they are given by."""
    first, second, third, fourth = corners_of(b, boxes)
    return [
        b.minimum(first, third), b.minimum(second, fourth),
        b.maximum(first, third), b.maximum(second, fourth),
    ]  # fmt: skip


def _area(b: TensorBuilder, sides: list[Instruction]) -> Instruction:
    top, left, bottom, right = sides
    return b.multiply(b.subtract(bottom, top), b.subtract(right, left))


def overlap(b: TensorBuilder, sides: list[Instruction], best: Instruction) -> Instruction:
    """Return the intersection over the union of each box with the best of its row."""
    index = b.reshape_to(best, (*best.shape.dims, 1))
    one = [b.spread(take(b, side, index, 1, 1), side.shape.dims) for side in sides]
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


def _given_overlap(b: TensorBuilder, overlaps: list[Instruction], best: Instruction) -> Instruction:
    """Return the column of the best box in a matrix of overlaps; there is one row of scores."""
    return b.transposed(take(b, overlaps[0], best, 1), (1, 0))


@record
class _Chosen:
    """What each row takes: indices and scores `[rows, most]`, and how many, `s32[rows]`.

    After the last one stand index 0 and score minus infinity.
    """

    indices: Instruction
    scores: Instruction
    counts: Instruction


@record
class Suppression:
    """How boxes are chosen: at most `most` of each row.

    Attributes:
        most: greatest number of boxes.
        element: the type in which likenesses are compared.
        threshold: greatest likeness to a box that is taken, `f32[]`.
        least: boxes of this score (`f32[]`) or a lower one are not taken.
        sigma: how softly scores fall with likeness, `f32[]`; 0 or None: boxes are only dropped.
    """

    most: Size
    element: DType
    threshold: Instruction
    least: Instruction
    sigma: Instruction | None = None

    def chosen(
        self, b: TensorBuilder, scores: Instruction, boxes: list[Instruction], similar: Similar
    ) -> _Chosen:
        """Choose boxes by scores, `f32[rows, n]`, which are not NaN where they count."""
        rows, count = scores.shape.dims
        into = Shape.array(S32, (rows, self.most))
        none = _Chosen(
            b.zeros(into),
            b.like(-np.inf, into.with_dtype(F32)),
            b.zeros(Shape.array(S32, (rows,))),
        )
        if 0 in (rows, count, self.most):
            return none
        given = [self.threshold, self.least, b.scalar(self.most, S32)]
        given += [] if self.sigma is None else [self.sigma]
        scores = _above(b, scores, self.least)
        found = b.loop(
            [b.constant(0, S32), scores, none.indices, none.scores, none.counts, *given, *boxes],
            _goes_on,
            lambda b, state: self._step(b, state, similar),
        )
        return _Chosen(*found[2:5])

    def _step(
        self, b: TensorBuilder, state: list[Instruction], similar: Similar
    ) -> list[Instruction]:
        step, scores, indices, values, counts, *rest = state
        boxes = rest[3 if self.sigma is None else 4 :]
        top = b.reduced("maximum", scores, (1,))
        some = b.compared("GT", top, -np.inf)
        best = b.select(some, arg_extreme(b, scores, 1, True), b.zeros(counts.shape))
        column, zero = (*top.shape.dims, 1), b.constant(0, S32)
        indices, values = (
            b.emit("dynamic-update-slice", into, b.reshape_to(part, column), zero, step)
            for into, part in ((indices, best), (values, top))
        )
        likeness = b.convert_to(b.convert_to(similar(b, boxes, best), self.element), F32)
        scores = self._lowered(b, scores, likeness, rest)
        number = b.iota_of(S32, scores.shape.dims, 1)
        taken = b.compared("EQ", number, b.spread(best, number.shape.dims, (0,)))
        scores = b.select(taken, b.like(-np.inf, scores.shape), scores)
        counts = b.add(counts, b.convert_to(some, S32))
        return [b.binary("add", step, 1), scores, indices, values, counts, *rest]

    def _lowered(
        self, b: TensorBuilder, scores: Instruction, likeness: Instruction, rest: list[Instruction]
    ) -> Instruction:
        """Return scores after a box was taken."""
        threshold, least = rest[:2]
        out = b.compared("GT", likeness, b.spread(threshold, likeness.shape.dims))
        if self.sigma is not None:
            is_soft = b.compared("GT", rest[3], 0)
            scale = b.divide(b.constant(-0.5, F32), rest[3])
            weight = b.exponential(b.binary("multiply", b.multiply(likeness, likeness), scale))
            fallen = _above(b, b.multiply(scores, weight), least)
            is_soft = b.spread(is_soft, scores.shape.dims)
            scores = b.select(is_soft, fallen, scores)
            out = b.and_(out, b.not_(is_soft))
        return b.select(out, b.like(-np.inf, scores.shape), scores)


def _goes_on(b: TensorBuilder, state: list[Instruction]) -> Instruction:
    step, scores, most = state[0], state[1], state[7]
    some = b.reduced("or", b.compared("GT", scores, -np.inf), (0, 1))
    return b.and_(some, b.compare(step, most, direction="LT"))


def _above(b: TensorBuilder, scores: Instruction, least: Instruction) -> Instruction:
    """Return scores, minus infinity where they are not above the least."""
    high = b.compared("GT", scores, b.spread(least, scores.shape.dims))
    return b.select(high, scores, b.like(-np.inf, scores.shape))


def most_boxes(op: Op, number: int) -> Size:
    """Return an operand that is a greatest number of boxes."""
    most = op.size(number, "max_output_size")
    if isinstance(most, int) and most < 0:
        raise op.mistake(f"output size must be non-negative, got {most}")
    return most


def greatest_likeness(op: Op, number: int, name: str = "iou_threshold") -> Instruction:
    """Return an operand that is a greatest likeness, which must be in [0, 1]."""
    b, threshold = op.b, op.b.convert_to(op.tensor(number), F32)
    inside = b.and_(b.compared("GE", threshold, 0), b.compared("LE", threshold, 1))
    emit_assertion(b, inside, f"{name} must be in [0, 1]")
    return threshold


def _row(op: Op, how: Suppression, given: bool = False) -> _Chosen:
    """Choose by operands 0 and 1: boxes `[n, 4]` (or overlaps `[n, n]`) and scores `[n]`."""
    b, boxes, scores = op.b, op.b.convert_to(op.tensor(0), F32), op.b.convert_to(op.tensor(1), F32)
    scores = b.reshape_to(scores, (1, *scores.shape.dims))
    if given:
        return how.chosen(b, scores, [boxes], _given_overlap)
    sides = sides_of(b, b.reshape_to(boxes, (1, *boxes.shape.dims)))
    return how.chosen(b, scores, sides, overlap)


def _exact(op: Op, part: Instruction, count: Instruction) -> Instruction:
    """Return the only row of `part`, without what stands after its first `count` elements."""
    b = op.b
    flat = b.reshape_to(part, part.shape.dims[1:])
    size = computed_size(op.frame, b.reshape_to(count, ()))
    return b.emit("dynamic-slice", flat, b.constant(0, S32), dynamic_slice_sizes=(size,))


def _lowest(op: Op, element: DType) -> Instruction:
    """Return the lowest finite number of a type, f32."""
    return op.b.convert_to(op.b.constant(np.finfo(element.numpy).min, element), F32)


def _version_1(op: Op) -> Value:
    """boxes, scores, greatest number; the threshold is an attribute."""
    b = op.b
    threshold = b.constant(float(op.attribute("iou_threshold", 0.5)), F32)
    found = _row(op, Suppression(most_boxes(op, 2), F32, threshold, _lowest(op, F32)))
    return _exact(op, found.indices, found.counts)


def _version_2(op: Op) -> Value:
    """boxes, scores, greatest number, overlap threshold."""
    element = op.dtype(0)
    how = Suppression(most_boxes(op, 2), element, greatest_likeness(op, 3), _lowest(op, element))
    found = _row(op, how)
    return _exact(op, found.indices, found.counts)


def _scored(op: Op, sigma: Instruction | None = None) -> _Chosen:
    """boxes, scores, greatest number, overlap threshold, score threshold."""
    least = op.b.convert_to(op.tensor(4), F32)
    return _row(
        op, Suppression(most_boxes(op, 2), op.dtype(0), greatest_likeness(op, 3), least, sigma)
    )


def _version_3(op: Op) -> Value:
    found = _scored(op)
    return _exact(op, found.indices, found.counts)


def _version_4(op: Op) -> tuple[Value, ...]:
    found = _scored(op)
    count = op.b.reshape_to(found.counts, ())
    if op.attribute("pad_to_max_output_size", False):
        return op.b.reshape_to(found.indices, found.indices.shape.dims[1:]), count
    return _exact(op, found.indices, found.counts), count


def _version_5(op: Op) -> tuple[Value, ...]:
    """As version 4, with scores that fall softly; the fallen scores are the second result."""
    b = op.b
    sigma = b.convert_to(op.tensor(5), F32)
    emit_assertion(b, b.compared("GE", sigma, 0), "soft_nms_sigma_val must be non-negative")
    found = _scored(op, sigma)
    scores = b.convert_to(found.scores, op.result(1))
    count = b.reshape_to(found.counts, ())
    if not op.attribute("pad_to_max_output_size", False):
        indices = _exact(op, found.indices, count)
        zero, sizes = b.constant(0, S32), indices.shape.dims
        flat = b.reshape_to(scores, scores.shape.dims[1:])
        return indices, b.emit("dynamic-slice", flat, zero, dynamic_slice_sizes=sizes), count
    dims = scores.shape.dims[1:]
    padded = b.select(b.compared("EQ", scores, -np.inf), b.zeros(scores.shape), scores)
    return b.reshape_to(found.indices, dims), b.reshape_to(padded, dims), count


def _with_overlaps(op: Op) -> Value:
    """overlaps, scores, greatest number, overlap threshold, score threshold."""
    threshold, least = (op.b.convert_to(op.tensor(n), F32) for n in (3, 4))
    found = _row(op, Suppression(most_boxes(op, 2), F32, threshold, least), given=True)
    return _exact(op, found.indices, found.counts)


RULES: dict[str, Rule] = {
    "NonMaxSuppression": _version_1,
    "NonMaxSuppressionV2": _version_2,
    "NonMaxSuppressionV3": _version_3,
    "NonMaxSuppressionV4": _version_4,
    "NonMaxSuppressionV5": _version_5,
    "NonMaxSuppressionWithOverlaps": _with_overlaps,
}
