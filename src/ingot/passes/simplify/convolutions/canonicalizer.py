# SPDX-License-Identifier: Apache-2.0
"""The convolution canonicalizer: layouts that kernels read and write in whole vectors.

In memory, output features come last in kernel and result; the input ends in its features, or, for
a gradient's sum over batch and space, in what the result has next to its features. Other layouts
get transposes, which other passes move or cancel (`movers`); those of a filter's gradient bring
its operands into the order of images with channels last, which its driver takes. A reversed kernel
is read backwards. Sums over nothing are zero. One-dimensional convolutions get padded inputs and
reversed filters (`analysis.conv1d`): the rest is a product, which saves much more than these copies
cost.

A window as large as the image gives a product of matrices too: nothing slides, and the window's
dimensions are summed over. Such are the filter gradient of a 1x1 convolution and a layer that sees
the whole image. So does a 1x1 convolution between an argument and a result that have channels
first: the filter times the matrix of each image, which stays as it lies.

Invariant: the same products are summed for each result.
Source: the ideas are XLA's ConvCanonicalization (xla/service/cpu/conv_canonicalization.cc) and
SimplifyConvToDot (algebraic_simplifier.cc).

Example:
    f32[2,4,1] convolution(f32[5,2,3], f32[5,4,3]), window={size=3}, dim_labels=fb0_io0->bf0
    is f32[2,4] dot with the contracting dimensions {0,2} on both sides
"""

from __future__ import annotations

import math

from ingot.analysis.conv1d import is_conv1d
from ingot.analysis.filter_gradient import filter_labels, is_of_filter
from ingot.hlo.builder import Builder
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait
from ingot.hlo.module import Module
from ingot.hlo.opset.contraction import ConvolutionAttributes, ConvolutionLabels
from ingot.hlo.rewrite.op_pass import in_order, op_pass
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.window import Window, WindowDimension
from ingot.support.graphs import reachable
from ingot.support.records import replace

MIN_POSITIONS = 32
"""Positions of an image from which on a 1x1 convolution in place is a product of each image.

Against channels last, with a copy before and one behind, 64 to 256 channels of 28x28 took 0.67 of
the time, 256 to 64 0.72, 24 to 144 of 56x56 0.46, 3 to 64 of 112x112 0.2, 2048 to 512 of 7x7 0.97;
64 to 128 of 5x5 1.03, 128 to 128 of one position 1.3 (AVX-512, one thread, 2026-11-30)."""


@op_pass("convolution-canonicalizer", "convolution", ensures=frozenset({"native-convolutions"}))
def convolution_canonicalizer(op: Instruction, module: Module, context: PassContext) -> bool:
    """Transposes the operands and results of convolutions into the form that kernels take."""
    return in_order(op, lambda: _canonicalize(op))


def _canonicalize(convolution: Instruction) -> bool:
    computation = convolution.computation
    build = Builder(computation, convolution.metadata)
    if 0 in (*convolution.operands[0].shape.dims, *convolution.operands[1].shape.dims):
        computation.replace(convolution, build.full(0, convolution.shape))
        return True
    product = product_of_whole_image(convolution, build) or _product_in_place(convolution, build)
    if product is not None:
        computation.replace(convolution, product)
        return True
    given = convolution.as_(ConvolutionAttributes)
    labels = given.labels
    is_gradient = is_of_filter(convolution)
    wanted = filter_labels(len(given.window)) if is_gradient else canonical_labels(labels)
    lhs, rhs = convolution.operands
    if is_conv1d(convolution):
        lhs, kernel, window = _as_product(build, lhs, rhs, given)
    else:
        kernel, window = unreversed(rhs, given)
    if wanted == labels and (lhs, kernel) == convolution.operands:
        return False
    attributes = replace(given, dim_labels=str(wanted), window=window)
    operands = (
        reordered(build, lhs, labels.lhs, wanted.lhs),
        reordered(build, kernel, labels.rhs, wanted.rhs),
    )
    dims = tuple(convolution.shape.dims[labels.output.index(letter)] for letter in wanted.output)
    made = computation.add(
        "convolution",
        operands,
        attributes,
        # Sums may be of a wider type than the operands.
        shape=convolution.shape.with_dims(dims),
        name=convolution.name,
        metadata=convolution.metadata,
    )
    computation.replace(convolution, reordered(build, made, wanted.output, labels.output))
    return True


def _as_product(
    build: Builder, input: Instruction, filter: Instruction, given: ConvolutionAttributes
) -> tuple[Instruction, Instruction, Window]:
    """Return the padded input, the filter in order, and the window that is left."""
    (one,) = given.window
    if one.low or one.high:
        edges = [(0, 0, 0)] * input.shape.rank
        edges[given.labels.lhs.index("0")] = (one.low, one.high, 0)
        input = build.pad(input, build.constant(0, input.shape.dtype), padding=tuple(edges))
    if one.reversal:
        filter = build.reverse(filter, dimensions=(given.labels.rhs.index("0"),))
    return input, filter, (replace(one, low=0, high=0, reversal=False),)


def unreversed(kernel: Instruction, given: ConvolutionAttributes) -> tuple[Instruction, Window]:
    """Return the operand of a reversed kernel, and the window that reads it backwards."""
    letters = given.labels.rhs
    if kernel.opcode != "reverse" or any(letters[d] in "io" for d in kernel.attributes.dimensions):
        return kernel, given.window
    backwards = {int(letters[number]) for number in kernel.attributes.dimensions}
    window = tuple(
        replace(one, reversal=one.reversal != (number in backwards))
        for number, one in enumerate(given.window)
    )
    return kernel.operands[0], window


def canonical_labels(labels: ConvolutionLabels) -> ConvolutionLabels:
    """Return the labels of the form that kernels take."""
    digits = "".join(str(number) for number in range(len(labels.lhs) - 2))
    output = labels.output if labels.output[-1] == "f" else f"b{digits}f"
    rhs = labels.rhs if labels.rhs[-1] == "o" else f"{digits}io"
    lhs = labels.lhs
    dense_along_batch = lhs[-1] == "b" and output[-2:] == "bf"
    if lhs[-1] != "f" and not dense_along_batch:
        lhs = f"b{digits}f"
    return ConvolutionLabels(lhs, rhs, output)


def has_known_sizes(convolution: Instruction) -> bool:
    """Whether all sizes of a convolution are known, and none is 0."""
    items = (convolution, *convolution.operands)
    sizes = [size for item in items for size in item.shape.dims]
    return 0 not in sizes and not any(isinstance(size, Dim) for size in sizes)


def spatial_dimensions(
    convolution: Instruction,
) -> list[tuple[WindowDimension, int | Dim, int | Dim]]:
    """Return the window of each spatial dimension, the input's size and the result's."""
    given = convolution.as_(ConvolutionAttributes)
    image = dict(zip(given.labels.lhs, convolution.operands[0].shape.dims, strict=True))
    result = dict(zip(given.labels.output, convolution.shape.dims, strict=True))
    digits = (str(number) for number, _ in enumerate(given.window))
    return [
        (one, image[digit], result[digit]) for one, digit in zip(given.window, digits, strict=True)
    ]


def reordered(build: Builder, value: Instruction, labels: str, wanted: str) -> Instruction:
    """Return a value with its dimensions in the order of other labels."""
    if labels == wanted:
        return value
    return build.transpose(value, dimensions=tuple(labels.index(letter) for letter in wanted))


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


def _product_in_place(convolution: Instruction, build: Builder) -> Instruction | None:
    """Return a 1x1 convolution of images with channels first as a dot of the filter and each image.

    None if another convolution or the program wants channels last, or it is none of 1x1.
    """
    given = convolution.as_(ConvolutionAttributes)
    image, kernel = convolution.operands
    digits = "".join(str(number) for number, _ in enumerate(given.window))
    is_first = given.labels.lhs == given.labels.output == f"bf{digits}"
    if not is_first or not has_known_sizes(convolution) or _covered(convolution) is None:
        return None
    batch, features, *sizes = image.shape.static_dims
    positions = math.prod(sizes)
    if positions < MIN_POSITIONS or not _is_alone(convolution):
        return None
    kernel = reordered(build, kernel, given.labels.rhs, f"oi{digits}")
    outputs = kernel.shape.dims[0]
    filters = build.reshape_to(kernel, (outputs, features))
    made = build.dot(
        build.broadcast_to(filters, (batch, outputs, features), (1, 2)),
        build.reshape_to(image, (batch, features, positions)),
        shape=convolution.shape.with_dims((batch, outputs, positions)),
        lhs_batch_dims=(0,),
        rhs_batch_dims=(0,),
        lhs_contracting_dims=(2,),
        rhs_contracting_dims=(1,),
        operand_precision=given.operand_precision[::-1],
    )
    return build.reshape_to(made, convolution.shape.dims)


def _is_alone(convolution: Instruction) -> bool:
    """Whether an image is an argument, and no window slides over it, or what becomes of it.

    Those that do are faster with channels last.
    """
    image = convolution.operands[0]
    module = image.computation.module
    if image.opcode != "parameter" or module is None or image.computation is not module.entry:
        return False

    def made_of(value: Instruction) -> list[Instruction]:
        goes_on = value in (image, convolution) or value.has(Trait.ELEMENTWISE)
        return list(value.users) if goes_on else []

    return not any(
        hasattr(value.attributes, "window") and value is not convolution
        for value in reachable([image], made_of)
    )


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
