# SPDX-License-Identifier: Apache-2.0
"""Non-maximum suppression of every class of a batch of images, and the best boxes of all classes.

Source: TensorFlow's `kernels/image/non_max_suppression_op.cc`.
"""

from __future__ import annotations

import numpy as np

from ingot.frontends.building.indexing import take
from ingot.frontends.building.sorting import sort_by_first
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Value
from ingot.frontends.tensorflow.lowering.image_ops.suppression import (
    Suppression,
    corners_of,
    greatest_likeness,
    most_boxes,
    overlap,
    sides_of,
)
from ingot.hlo.dtype import F32, S32
from ingot.hlo.instruction import Instruction


def _combined(op: Op) -> tuple[Value, ...]:
    """Boxes `[batch, n, 1 or classes, 4]`, scores `[batch, n, classes]`; each class by itself.

    The best of all classes of an image are its result: boxes, scores, classes, and how many.
    """
    b = op.b
    boxes, scores = op.tensor(0), op.tensor(1)
    batch, count, classes = scores.shape.dims
    each, total = op.fixed(most_boxes(op, 2), "max_output_size_per_class"), most_boxes(op, 3)
    if isinstance(count, int):
        each = min(each, count)
    how = Suppression(each, F32, greatest_likeness(op, 4), b.convert_to(op.tensor(5), F32))
    kinds = b.transposed(boxes, (0, 2, 1, 3))
    kinds = b.spread(kinds, (batch, classes, count, 4))
    rows = b.reshape_to(kinds, (batch * classes, count, 4))
    flat = b.reshape_to(b.transposed(scores, (0, 2, 1)), (batch * classes, count))
    found = how.chosen(b, flat, sides_of(b, rows), overlap)
    width = classes * each
    # The boxes that are chosen, class by class, then the best of them.
    whole = (batch, width)
    values = b.reshape_to(found.scores, whole)
    corners = [
        b.reshape_to(take(b, part, found.indices, 1, 1), whole) for part in corners_of(b, rows)
    ]
    kind = b.reshape_to(b.iota_of(F32, (batch, classes, each), 1), whole)
    ordered = sort_by_first(b, [values, kind, *corners], 1, descending=True)
    most = op.fixed(total, "max_total_size")
    if op.attribute("pad_per_class", False):
        most = min(most, op.fixed(op.size(2, "max_output_size_per_class") * classes, "classes"))
    parts = [_padded_to(b, b.element_of(ordered, n), most) for n in range(6)]
    there = b.compared("GT", parts[0], -np.inf)
    values, kind, *corners = (b.select(there, part, b.zeros(part.shape)) for part in parts)
    if op.attribute("clip_boxes", True):
        corners = [b.clamp(b.zeros(c.shape), c, b.like(1, c.shape)) for c in corners]
    stacked = b.concatenated([b.reshape_to(c, (*c.shape.dims, 1)) for c in corners], 2)
    return stacked, values, kind, b.reduced("add", b.convert_to(there, S32), (1,))


def _padded_to(b: TensorBuilder, rows: Instruction, most: int) -> Instruction:
    """Return rows cut to `most`, or filled up with minus infinity."""
    size = rows.shape.dims[1]
    assert isinstance(size, int)
    filled = b.padded(rows, 1, 0, max(most - size, 0), b.constant(-np.inf, F32))
    return b.sliced(filled, 1, 0, most)


RULES: dict[str, Rule] = {"CombinedNonMaxSuppression": _combined}
