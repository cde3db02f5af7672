# SPDX-License-Identifier: Apache-2.0
"""`ScaleAndTranslate`: images resampled by a filter, scaled and moved by run-time numbers.

A pixel of the result is a weighted sum of the source pixels inside the filter's radius (its span).
Scales are run-time values, and so is the length of a span: a loop takes one source pixel of every
span at a time. Source: TensorFlow's `kernels/image/scale_and_translate_op.cc`,
`sampling_kernels.h`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi

import numpy as np

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.frontends.building.products import dot
from ingot.frontends.building.sampling import Spans, Weigh, sampled_spans
from ingot.frontends.building.special_functions.special import polynomial
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Size, Value
from ingot.frontends.tensorflow.lowering.image_ops.resizing import target_sizes
from ingot.hlo.dtype import F32, S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.semantics.assertions import emit_assertion

Filter = Callable[[ArrayBuilder, Instruction], Instruction]


def _cubic(near: tuple[float, ...], far: tuple[float, ...]) -> Filter:
    """Return the filter made of two cubic polynomials, below 1 and below 2."""

    def filtered(b: ArrayBuilder, x: Instruction) -> Instruction:
        outer = b.select(b.compared("GE", x, 2), b.zeros(x.shape), polynomial(b, x, far))
        return b.select(b.compared("GE", x, 1), outer, polynomial(b, x, near))

    return filtered


def _lanczos(radius: int) -> Filter:
    def filtered(b: ArrayBuilder, x: Instruction) -> Instruction:
        angle = b.binary("multiply", x, pi)
        waves = b.multiply(b.sine(angle), b.sine(b.binary("divide", angle, radius)))
        found = b.divide(b.binary("multiply", waves, radius), b.multiply(angle, angle))
        found = b.select(b.compared("LE", x, 1e-3), b.like(1, x.shape), found)
        return b.select(b.compared("GT", x, radius), b.zeros(x.shape), found)

    return filtered


def _gaussian(b: ArrayBuilder, x: Instruction) -> Instruction:
    found = b.exponential(b.binary("multiply", b.multiply(x, x), -2))
    return b.select(b.compared("GE", x, 1.5), b.zeros(x.shape), found)


def _box(b: ArrayBuilder, x: Instruction) -> Instruction:
    edge = b.select(b.compared("EQ", x, 0.5), b.like(0.5, x.shape), b.zeros(x.shape))
    return b.select(b.compared("LT", x, 0.5), b.like(1, x.shape), edge)


def _triangle(b: ArrayBuilder, x: Instruction) -> Instruction:
    return b.maximum(b.subtract(b.like(1, x.shape), x), b.zeros(x.shape))


_FILTERS: dict[str, tuple[float, Filter]] = {
    "box": (1, _box),
    "gaussian": (1.5, _gaussian),
    "keyscubic": (2, _cubic((1.5, -2.5, 0, 1), (-0.5, 2.5, -4, 2))),
    "lanczos1": (1, _lanczos(1)),
    "lanczos3": (3, _lanczos(3)),
    "lanczos5": (5, _lanczos(5)),
    "mitchellcubic": (2, _cubic((7 / 6, -2, 0, 8 / 9), (-7 / 18, 2, -10 / 3, 16 / 9))),
    "triangle": (1, _triangle),
}
"""Radius and function of each filter; the function takes distances that are not negative."""


def _weigher(kind: Filter) -> Weigh:
    """Return what computes weights, not divided by their sum yet: 0 outside of a span.

    The values are where each pixel of the result lies in the source, its first and last source
    pixel, and how much wider the filter is made.
    """

    def weigh(b: ArrayBuilder, values: Sequence[Instruction], source: Instruction) -> Instruction:
        dims = source.shape.dims
        sample, first, last = (b.spread(part, dims, (0,)) for part in values[:3])
        centre = b.binary("add", b.convert_to(source, F32), 0.5)
        distance = b.binary("divide", b.abs(b.subtract(centre, sample)), values[3])
        inside = b.and_(b.compared("GE", source, first), b.compared("LE", source, last))
        return b.select(inside, kind(b, distance), b.zeros(distance.shape))

    return weigh


def _spans(op: Op, axis: int, operand: int, size: Size, target: Size) -> Spans:
    """Return the spans along image axis 0 or 1; scales are operand `operand`, then moves.

    All have the greatest length, as in TensorFlow: a NaN behind a shorter one is seen.
    """
    b = op.b
    scale, move = (
        b.reshape_to(b.sliced(op.tensor(operand + n), 0, axis, axis + 1), ()) for n in range(2)
    )
    emit_assertion(b, b.compared("GT", scale, 0), "Scale must be greater than zero.")
    inverse = b.divide(b.constant(1, F32), scale)
    shift = b.negate(b.multiply(inverse, move))
    one = b.constant(1, F32)
    stretch = b.maximum(inverse, one) if op.attribute("antialias", True) else one
    reach, kind = _filter(op)
    radius = b.binary("multiply", stretch, reach)
    dims = (target,)
    centre = b.binary("add", b.iota_of(F32, dims, 0), 0.5)
    sample = b.add(b.multiply(centre, b.spread(inverse, dims)), b.spread(shift, dims))
    around = b.spread(radius, dims)
    first = b.ceil(b.binary("add", b.subtract(sample, around), -0.5))
    last = b.floor(b.binary("add", b.add(sample, around), -0.5))
    ends = b.zeros(first.shape), b.like(size - 1, first.shape)
    first, last = (b.convert_to(b.clamp(ends[0], end, ends[1]), S32) for end in (first, last))
    above = b.compare(sample, b.like(size, sample.shape), direction="GT")
    outside = b.or_(b.compared("LT", sample, 0), above)
    first = b.select(outside, b.zeros(first.shape), first)
    last = b.select(outside, b.like(-1, last.shape), last)
    count = b.binary("add", b.binary("multiply", b.convert_to(b.ceil(radius), S32), 2), 1)
    count = b.minimum(count, b.scalar(size, S32))
    end = b.like(size - 1, last.shape)
    return Spans(first, end, count, (sample, first, last, stretch), _weigher(kind))


def _filter(op: Op) -> tuple[float, Filter]:
    name = str(op.attribute("kernel_type", "lanczos3"))
    if name not in _FILTERS:
        raise op.error(f"Unrecognized kernel type: {name}")
    return _FILTERS[name]


def _inverse(b: ArrayBuilder, total: Instruction) -> Instruction:
    """Return 1 over sums of weights, or 0 where there are none."""
    tiny = b.compared("LT", b.abs(total), 1000 * float(np.finfo(np.float32).tiny))
    return b.select(tiny, b.zeros(total.shape), b.divide(b.like(1, total.shape), total))


def _scaled(op: Op) -> Value:
    """images, size, scale, translation; rows first."""
    b, targets = op.b, target_sizes(op)
    image = b.convert_to(op.tensor(0), F32)
    for axis in range(2):
        size = op.dims(0)[axis + 1]
        spans = _spans(op, axis, 2, size, targets[axis])
        image = sampled_spans(b, image, axis + 1, spans)
        total = sampled_spans(b, b.like(1, Shape.array(F32, (size,))), 0, spans)
        total = b.spread(_inverse(b, total), image.shape.dims, (axis + 1,))
        image = b.multiply(image, total)
    return image


def _scaled_gradient(op: Op) -> Value:
    """Gradient, original image, scale, translation: the weights as a matrix, transposed."""
    b, made = op.b, op.tensor(0)
    for axis in range(2):
        size, target = (op.dims(n)[axis + 1] for n in (1, 0))
        spans = _spans(op, axis, 2, size, target)
        source = b.iota_of(S32, (target, size), 1)
        weights = spans.weigh(b, spans.values, source)
        total = _inverse(b, b.reduced("add", weights, (1,)))
        matrix = b.multiply(weights, b.spread(total, (target, size), (0,)))
        made = dot(b, made, matrix, ((1,), (0,)))
    return b.transposed(made, (0, 2, 3, 1))


RULES: dict[str, Rule] = {
    "ScaleAndTranslate": _scaled,
    "ScaleAndTranslateGrad": _scaled_gradient,
}
