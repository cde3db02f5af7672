# SPDX-License-Identifier: Apache-2.0
"""Convolutions to few features: one product for all taps, whose results are shifted and added.

A convolution to one to three features (the last layer of a decoder, of super-resolution, of a
segmentation) leaves most lanes of vectors of features empty. The products of all elements of the
filter (taps) with all pixels are one matrix product, [taps * features, channels] by [channels,
pixels]: no lane is empty. A result is the sum over the taps of the products at its pixel, shifted.

Times beside convolutions that sum tap by tap: 0.5 to 0.8 for 3x3, 5x5 and 7x7 filters, 8 to 128
channels, 28x28 to 128x128 pixels, channels first or last (AVX-512, one thread, 2026-11-30).

Invariant: the same products are summed for each result. Narrow floats are summed in f32.
"""

from __future__ import annotations

import math
from itertools import product

from ingot.hlo.builder import Builder
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import wider
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.contraction import ConvolutionAttributes
from ingot.hlo.rewrite.op_pass import expander
from ingot.hlo.window import WindowDimension, window_elements
from ingot.passes.simplify.convolutions.canonicalizer import reordered, spatial_dimensions

MAX_FEATURES = 3
"""Four features fill vectors of four lanes."""

MIN_CHANNELS = 8
"""Channels at least."""

MAX_TAPS = 49
"""Taps at most: each is an operand of the sum, which is compiled in proportion."""

MAX_PRODUCTS = 3
"""Products of a pixel for each of its channels at most: they are written to memory."""


@expander("convolution-taps", "convolution")
def convolution_taps(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Makes a convolution to few features a product with all taps at once."""
    if any(0 in value.shape.dims for value in (op, *op.operands)):
        return op
    return _by_taps(op, build) if _pays(op) else op


def _pays(convolution: Instruction) -> bool:
    given = convolution.as_(ConvolutionAttributes)
    labels, taps = given.labels, window_elements(given.window)
    channels = convolution.operands[0].shape.dims[labels.lhs.index("f")]
    features = convolution.shape.dims[labels.output.index("f")]
    if given.feature_group_count * given.batch_group_count != 1:
        return False
    if not isinstance(channels, int) or not isinstance(features, int):
        return False
    return (
        0 < features <= MAX_FEATURES
        and channels >= MIN_CHANNELS
        and 1 < taps <= MAX_TAPS
        and taps * features <= MAX_PRODUCTS * channels
        and all(_covers(*sizes) for sizes in spatial_dimensions(convolution))
    )


def _covers(one: WindowDimension, pixels: int | Dim, results: int | Dim) -> bool:
    """Whether a window slides over nearly all pixels, one by one, so that each product is used."""
    unused = pixels - results
    if one.stride != 1 or one.base_dilation != 1 or not isinstance(unused, int):
        return False
    return not isinstance(results, int) or 4 * unused <= results


def _by_taps(convolution: Instruction, build: Builder) -> Instruction:
    """Return the sum of the products of all taps, each shifted to its results."""
    given = convolution.as_(ConvolutionAttributes)
    labels = given.labels
    digits = "".join(str(number) for number in range(len(given.window)))
    filter = reordered(build, convolution.operands[1], labels.rhs, f"{digits}oi")
    *window, features, channels = filter.shape.static_dims
    filter = build.reshape_to(filter, (math.prod(window) * features, channels))
    pixels = labels.lhs.replace("f", "")
    image = convolution.operands[0].shape.dims
    dims = tuple(image[labels.lhs.index(label)] for label in pixels)
    dtype = convolution.shape.dtype
    products = build.dot(
        filter,
        convolution.operands[0],
        shape=convolution.shape.with_dims((filter.shape.dims[0], *dims)).with_dtype(wider(dtype)),
        lhs_contracting_dims=(1,),
        rhs_contracting_dims=(labels.lhs.index("f"),),
        operand_precision=given.operand_precision[::-1],
    )
    products = build.reshape_to(products, (math.prod(window), features, *dims))
    summed = _shifted_sum(build, products, convolution, pixels)
    return build.convert_to(reordered(build, summed, f"f{pixels}", labels.output), dtype)


def _shifted_sum(
    build: Builder, products: Instruction, convolution: Instruction, pixels: str
) -> Instruction:
    """Return [features, pixels...], the sum of products [taps, features, pixels...]."""
    sizes = spatial_dimensions(convolution)
    edges, boxes = [(0, 0, 0)] * products.shape.rank, [(0, size, 1) for size in products.shape.dims]
    axes = [2 + pixels.index(str(number)) for number, _ in enumerate(sizes)]
    for axis, (one, _, _) in zip(axes, sizes, strict=True):
        edges[axis] = (one.low, one.high, 0)
    padded = build.pad(products, 0, padding=tuple(edges))
    total: Instruction | None = None
    for tap, elements in enumerate(product(*(range(one.size) for one, _, _ in sizes))):
        boxes[0] = (tap, tap + 1, 1)
        for axis, element, (one, _, results) in zip(axes, elements, sizes, strict=True):
            offset = (one.size - 1 - element if one.reversal else element) * one.window_dilation
            boxes[axis] = (offset, offset + results, 1)
        part = build.slice(padded, slice=tuple(boxes))
        part = build.reshape_to(part, part.shape.dims[1:])
        total = part if total is None else build.add(total, part)
    assert total is not None
    return total
