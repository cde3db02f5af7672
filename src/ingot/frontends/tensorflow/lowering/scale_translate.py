# SPDX-License-Identifier: Apache-2.0
"""`ScaleAndTranslate`: images resampled by a filter, scaled and moved by run-time numbers.

A pixel of the result is a weighted sum of the source pixels inside the filter's radius (its span).
Scales are run-time values, and so is the length of a span: a loop takes one source pixel of every
span at a time. Source: TensorFlow's `kernels/image/scale_and_translate_op.cc`,
`sampling_kernels.h`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi

import numpy as np

from ingot.frontends.building.indexing import take
from ingot.frontends.building.products import dot
from ingot.frontends.tensorflow.lowering.op import Op, Rule
from ingot.frontends.tensorflow.lowering.resizing import fixed_targets
from ingot.frontends.tensorflow.lowering.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.values import Value
from ingot.hlo.dtype import F32, S32
from ingot.hlo.instruction import Instruction
from ingot.semantics.assertions import emit_assertion

Filter = Callable[[TensorBuilder, Instruction], Instruction]


def _polynomial(b: TensorBuilder, x: Instruction, factors: tuple[float, ...]) -> Instruction:
    """Return a polynomial, greatest power first."""
    total = b.like(factors[0], x.shape)
    for factor in factors[1:]:
        total = b.binary("add", b.multiply(total, x), factor)
    return total


def _cubic(near: tuple[float, ...], far: tuple[float, ...]) -> Filter:
    """Return the filter made of two cubic polynomials, below 1 and below 2."""

    def filtered(b: TensorBuilder, x: Instruction) -> Instruction:
        outer = b.select(b.compared("GE", x, 2), b.zeros(x.shape), _polynomial(b, x, far))
        return b.select(b.compared("GE", x, 1), outer, _polynomial(b, x, near))

    return filtered


def _lanczos(radius: int) -> Filter:
    def filtered(b: TensorBuilder, x: Instruction) -> Instruction:
        angle = b.binary("multiply", x, pi)
        waves = b.multiply(b.sine(angle), b.sine(b.binary("divide", angle, radius)))
        found = b.divide(b.binary("multiply", waves, radius), b.multiply(angle, angle))
        found = b.select(b.compared("LE", x, 1e-3), b.like(1, x.shape), found)
        return b.select(b.compared("GT", x, radius), b.zeros(x.shape), found)

    return filtered


def _gaussian(b: TensorBuilder, x: Instruction) -> Instruction:
    found = b.exponential(b.binary("multiply", b.multiply(x, x), -2))
    return b.select(b.compared("GE", x, 1.5), b.zeros(x.shape), found)


def _box(b: TensorBuilder, x: Instruction) -> Instruction:
    edge = b.select(b.compared("EQ", x, 0.5), b.like(0.5, x.shape), b.zeros(x.shape))
    return b.select(b.compared("LT", x, 0.5), b.like(1, x.shape), edge)


def _triangle(b: TensorBuilder, x: Instruction) -> Instruction:
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


@dataclass(frozen=True, slots=True)
class _Spans:
    """The source pixels of each pixel along an axis.

    Attributes:
        sample: where it lies in the source, `f32[target]`.
        first: its first source pixel, `s32[target]`.
        last: its last one; one that lies outside the image has none.
        stretch: how much wider the filter is made, `f32[]`.
        count: no span is longer, `s32[]`.
    """

    sample: Instruction
    first: Instruction
    last: Instruction
    stretch: Instruction
    count: Instruction

    def weights(self, b: TensorBuilder, kind: Filter, source: Instruction) -> Instruction:
        """Return the weights, not divided by their sum yet, of source pixels (`[target, ...]`)."""
        dims = source.shape.dims
        sample, first, last = (
            b.spread(part, dims, (0,)) for part in (self.sample, self.first, self.last)
        )
        centre = b.binary("add", b.convert_to(source, F32), 0.5)
        distance = b.binary("divide", b.abs(b.subtract(centre, sample)), self.stretch)
        inside = b.and_(b.compared("GE", source, first), b.compared("LE", source, last))
        return b.select(inside, kind(b, distance), b.zeros(distance.shape))


def _spans(op: Op, axis: int, operand: int, size: int, target: int) -> _Spans:
    """Return the spans along image axis 0 or 1; scales are operand `operand`, then moves."""
    b = op.b
    scale, move = (
        b.reshape_to(b.sliced(op.tensor(operand + n), 0, axis, axis + 1), ()) for n in range(2)
    )
    emit_assertion(b, b.compared("GT", scale, 0), "Scale must be greater than zero.")
    inverse = b.divide(b.constant(1, F32), scale)
    shift = b.negate(b.multiply(inverse, move))
    one = b.constant(1, F32)
    stretch = b.maximum(inverse, one) if op.attribute("antialias", True) else one
    radius = b.binary("multiply", stretch, _filter(op)[0])
    dims = (target,)
    centre = b.binary("add", b.iota_of(F32, dims, 0), 0.5)
    sample = b.add(b.multiply(centre, b.spread(inverse, dims)), b.spread(shift, dims))
    reach = b.spread(radius, dims)
    first = b.ceil(b.binary("add", b.subtract(sample, reach), -0.5))
    last = b.floor(b.binary("add", b.add(sample, reach), -0.5))
    ends = b.zeros(first.shape), b.like(size - 1, first.shape)
    first, last = (b.convert_to(b.clamp(ends[0], end, ends[1]), S32) for end in (first, last))
    outside = b.or_(b.compared("LT", sample, 0), b.compared("GT", sample, size))
    first = b.select(outside, b.zeros(first.shape), first)
    last = b.select(outside, b.like(-1, last.shape), last)
    count = b.binary("add", b.binary("multiply", b.convert_to(b.ceil(radius), S32), 2), 1)
    return _Spans(sample, first, last, stretch, b.minimum(count, b.constant(size, S32)))


def _filter(op: Op) -> tuple[float, Filter]:
    name = str(op.attribute("kernel_type", "lanczos3"))
    if name not in _FILTERS:
        raise op.error(f"Unrecognized kernel type: {name}")
    return _FILTERS[name]


def _inverse(b: TensorBuilder, total: Instruction) -> Instruction:
    """Return 1 over sums of weights, or 0 where there are none."""
    tiny = b.compared("LT", b.abs(total), 1000 * float(np.finfo(np.float32).tiny))
    return b.select(tiny, b.zeros(total.shape), b.divide(b.like(1, total.shape), total))


def _resampled(op: Op, image: Instruction, axis: int, spans: _Spans) -> Instruction:
    """Return the image's axis as long as there are spans, one source pixel of each at a time."""
    kind = _filter(op)[1]
    dims, target = image.shape.dims, spans.sample.shape.dims
    size = dims[axis]
    into = image.shape.with_dims((*dims[:axis], *target, *dims[axis + 1 :]))
    b = op.b

    def goes_on(b: TensorBuilder, state: list[Instruction]) -> Instruction:
        return b.compare(state[0], state[-1], direction="LT")

    def step(b: TensorBuilder, state: list[Instruction]) -> list[Instruction]:
        number, made, total, image, *rest = state
        inner = _Spans(rest[0], rest[1], rest[2], rest[3], rest[4])
        source = b.add(inner.first, b.spread(number, target))
        weights = inner.weights(b, kind, source)
        last = b.like(size - 1, source.shape)
        # A pixel past the end of its span counts with weight 0, as in TensorFlow: NaN is seen.
        pixels = take(b, image, b.minimum(source, last), axis)
        term = b.multiply(pixels, b.spread(weights, pixels.shape.dims, (axis,)))
        exists = b.spread(b.compared("LE", source, last), term.shape.dims, (axis,))
        term = b.select(exists, term, b.zeros(term.shape))
        return [b.binary("add", number, 1), b.add(made, term), b.add(total, weights), image, *rest]

    zeros = b.zeros(into), b.zeros(spans.sample.shape)
    parts = (spans.sample, spans.first, spans.last, spans.stretch, spans.count)
    _, made, total, *_ = b.loop([b.constant(0, S32), *zeros, image, *parts], goes_on, step)
    return b.multiply(made, b.spread(_inverse(b, total), made.shape.dims, (axis,)))


def _scaled(op: Op) -> Value:
    """images, size, scale, translation; rows first."""
    image, targets = op.b.convert_to(op.tensor(0), F32), fixed_targets(op)
    for axis in range(2):
        size = op.fixed(op.dims(0)[axis + 1], "size of the image")
        spans = _spans(op, axis, 2, size, targets[axis])
        image = _resampled(op, image, axis + 1, spans)
    return image


def _scaled_gradient(op: Op) -> Value:
    """Gradient, original image, scale, translation: the weights as a matrix, transposed."""
    b, made = op.b, op.tensor(0)
    for axis in range(2):
        size, target = (op.fixed(op.dims(n)[axis + 1], "size of the image") for n in (1, 0))
        spans = _spans(op, axis, 2, size, target)
        source = b.iota_of(S32, (target, size), 1)
        weights = spans.weights(b, _filter(op)[1], source)
        total = _inverse(b, b.reduced("add", weights, (1,)))
        matrix = b.multiply(weights, b.spread(total, (target, size), (0,)))
        made = dot(b, made, matrix, ((1,), (0,)))
    return b.transposed(made, (0, 2, 3, 1))


RULES: dict[str, Rule] = {
    "ScaleAndTranslate": _scaled,
    "ScaleAndTranslateGrad": _scaled_gradient,
}
