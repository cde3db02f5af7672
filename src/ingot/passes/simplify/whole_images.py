# SPDX-License-Identifier: Apache-2.0
"""Convolutions whose window is as large as the image: products of matrices.

Part of `convolution-canonicalizer`. The filter gradient of a 1x1 convolution is one, and a layer
that sees the whole image: nothing slides, and the window's dimensions are summed over.

Invariant: the same products are summed for each result.
Source: the idea is SimplifyConvToDot of XLA's algebraic_simplifier.cc.

Example:
    f32[2,4,1] convolution(f32[5,2,3], f32[5,4,3]), window={size=3}, dim_labels=fb0_io0->bf0
    is f32[2,4] dot with the contracting dimensions {0,2} on both sides
"""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.contraction import ConvolutionAttributes
from ingot.hlo.window import WindowDimension


def product_of_whole_image(convolution: Instruction, build: Builder) -> Instruction | None:
    """Return a convolution as a dot; None if its window slides, or covers one element only."""
    given = convolution.as_(ConvolutionAttributes)
    image, kernel = convolution.operands
    labels, covered = given.labels, _covered(convolution)
    if not any(given.window[number].size > 1 for number in covered or ()):
        return None
    digits = [str(number) for number in covered or ()]
    points = {str(number) for number, _ in enumerate(given.window)}.difference(digits)
    # Along the others the kernel has one element.
    kept = [letter for letter in labels.rhs if letter not in points]
    dims = {letter: kernel.shape.dims[labels.rhs.index(letter)] for letter in kept}
    kernel = build.reshape_to(kernel, tuple(dims.values()))
    free = [letter for letter in labels.lhs if letter not in ("f", *digits)]
    sizes = (*(image.shape.dims[labels.lhs.index(letter)] for letter in free), dims["o"])
    made = build.dot(
        image,
        kernel,
        shape=convolution.shape.with_dims(sizes),
        lhs_contracting_dims=tuple(map(labels.lhs.index, ("f", *digits))),
        rhs_contracting_dims=tuple(map(kept.index, ("i", *digits))),
        operand_precision=given.operand_precision,
    )
    result = [*free, "f"]
    order = tuple(result.index(letter) for letter in labels.output if letter not in digits)
    if order != tuple(range(len(order))):
        made = build.transpose(made, dimensions=order)
    return build.reshape_to(made, convolution.shape.dims)


def _covered(convolution: Instruction) -> list[int] | None:
    """Return the numbers of the spatial dimensions that the window covers and does not leave.

    None if it slides with more than one element along another one.
    """
    given = convolution.as_(ConvolutionAttributes)
    if given.feature_group_count * given.batch_group_count != 1:
        return None
    labels, dims = given.labels.lhs, convolution.operands[0].shape.dims
    covered: list[int] = []
    for number, one in enumerate(given.window):
        extent = dims[labels.index(str(number))]
        if one.size == extent and one == WindowDimension(one.size, one.stride):
            covered.append(number)
        elif (one.size, one.stride, one.low, one.high, one.base_dilation) != (1, 1, 0, 0, 1):
            return None
    return covered
