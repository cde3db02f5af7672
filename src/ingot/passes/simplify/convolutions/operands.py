# SPDX-License-Identifier: Apache-2.0
"""Convolutions whose filter is larger than the image: sliced, or swapped with the image.

Elements of the filter that meet only padding are sliced off. A 3x3 filter with padding 1 over an
image of one pixel is a 1x1 filter, its middle: deep layers of networks for large images are like
that when the images are small. Products of the filter with padding, which is 0, are left out, also
where an element of the filter is infinite or NaN.

Else sums over the input's elements take the place of sums over the kernel's, most of which meet
padding only. Both are then read backwards: window element k at result p meets input i where
`p * stride + k * window dilation = i * base dilation + low`, and counting both from their ends
exchanges their roles.

Invariant: the same products of elements are summed for each result.
Source: XLA's ConvOperandSwapper (xla/hlo/transforms/simplifiers/conv_operand_swapper.cc).
"""

from __future__ import annotations

import math

from ingot.analysis.direct_convolution import has_many_phases
from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.contraction import ConvolutionAttributes, ConvolutionLabels
from ingot.hlo.rewrite.op_pass import expander
from ingot.hlo.window import WindowDimension, window_elements
from ingot.llvm.machine_model import L2_BYTES
from ingot.passes.simplify.convolutions.canonicalizer import has_known_sizes, spatial_dimensions
from ingot.support.records import replace

MIN_FACTOR = 2
"""A kernel must have at least this many times the input's positions; with equally many, swapping
gains nothing."""

MIN_USES, MIN_USES_FROM_MEMORY = 8, 32
"""Products saved for each element of a kernel from which on swapping pays: the kernel is read
backwards and often transposed. The first number is for kernels that the L2 cache holds. (64 to 128
features, 2x2 by 3x3: 2 uses 0.26 times as fast, 18 uses 1.5; 384 to 384: 18 uses 0.55, 36 uses 1.5.
Emerald Rapids, one thread, 2026-11-27.)"""

_OF_KERNEL = str.maketrans("io", "fb")
_OF_INPUT = str.maketrans("fb", "io")
_OF_RESULT = str.maketrans("fb", "bf")


@expander("conv-operand-swapper", "convolution")
def conv_operand_swapper(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Makes the larger operand of a convolution its input."""
    return _swapped(op, build) if _pays(op) else op


def _pays(convolution: Instruction) -> bool:
    given = convolution.as_(ConvolutionAttributes)
    groups = given.feature_group_count * given.batch_group_count
    # Phases that become features (`phases`) leave a small kernel.
    if groups != 1 or has_many_phases(convolution):
        return False
    if not has_known_sizes(convolution):
        return False
    positions = math.prod(_extents(convolution))
    elements = window_elements(given.window)
    if elements < MIN_FACTOR * positions:
        return False
    features = convolution.shape.static_dims[given.labels.output.index("f")]
    results = math.prod(convolution.shape.static_dims) // features
    kernel = convolution.operands[1].shape
    size = math.prod(kernel.static_dims) * kernel.dtype.bytes
    uses = MIN_USES if size <= L2_BYTES else MIN_USES_FROM_MEMORY
    return results * (elements - positions) >= uses * elements


def _extents(convolution: Instruction) -> list[int]:
    """Return the sizes of the input's spatial dimensions."""
    labels = convolution.as_(ConvolutionAttributes).labels
    _, *spatial, _ = labels.dimensions(labels.lhs, "bf")
    dims = convolution.operands[0].shape.static_dims
    return [dims[dimension] for dimension in spatial]


def _swapped(convolution: Instruction, build: Builder) -> Instruction:
    """Return the same convolution with its kernel as the input."""
    given = convolution.as_(ConvolutionAttributes)
    labels = given.labels
    kernel, input = convolution.operands[1], convolution.operands[0]
    forwards = [str(number) for number, one in enumerate(given.window) if not one.reversal]
    if forwards:
        kernel = build.reverse(
            kernel, dimensions=tuple(sorted(labels.rhs.index(number) for number in forwards))
        )
    exchanged = ConvolutionLabels(
        labels.rhs.translate(_OF_KERNEL),
        labels.lhs.translate(_OF_INPUT),
        labels.output.translate(_OF_RESULT),
    )
    attributes = replace(
        given,
        window=tuple(map(_exchanged, given.window, _extents(convolution))),
        dim_labels=str(exchanged),
        operand_precision=given.operand_precision[::-1],
    )
    return convolution.computation.add(
        "convolution",
        (kernel, input),
        attributes,
        shape=convolution.shape,
        name=convolution.name,
        metadata=convolution.metadata,
    )


def _exchanged(one: WindowDimension, extent: int) -> WindowDimension:
    """Return a dimension of the window that slides the input over the kernel, read backwards."""
    more = (extent - 1) * one.base_dilation - (one.size - 1) * one.window_dilation
    return replace(
        one,
        size=extent,
        low=one.low + more,
        high=one.high + more,
        base_dilation=one.window_dilation,
        window_dilation=one.base_dilation,
        reversal=True,
    )


@expander("convolution-filter-slicer", "convolution")
def convolution_filter_slicer(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Slices off the elements of filters that meet padding only."""
    given = op.as_(ConvolutionAttributes)
    labels, filter = given.labels, op.operands[1]
    window, box = list(given.window), [(0, size, 1) for size in filter.shape.dims]
    _, *filters, _ = labels.dimensions(labels.rhs, "io")
    for number, (one, extent, count) in enumerate(spatial_dimensions(op)):
        if not isinstance(extent, int) or not isinstance(count, int):
            continue
        seen = [k for k in range(one.size) if _meets_input(one, k, extent, count)]
        if seen:
            start, limit = seen[0], seen[-1] + 1
            window[number] = _part(one, start, limit)
            if one.reversal:
                start, limit = one.size - limit, one.size - start
            box[filters[number]] = (start, limit, 1)
    if tuple(window) == given.window:
        return op
    return op.computation.add(
        "convolution",
        (op.operands[0], build.slice(filter, slice=tuple(box))),
        replace(given, window=tuple(window)),
        shape=op.shape,
        name=op.name,
        metadata=op.metadata,
    )


def _meets_input(one: WindowDimension, element: int, extent: int, count: int) -> bool:
    """Whether an element of the window lies on the input in one of `count` windows.

    Between elements of a dilated input there is padding too; such elements are kept.
    """
    offset = element * one.window_dilation - one.low
    first = max(0, -(offset // one.stride))
    last = (extent - 1) * one.base_dilation
    return first < count and first * one.stride + offset <= last


def _part(one: WindowDimension, start: int, limit: int) -> WindowDimension:
    """Return the window of elements `start` to `limit`, over the same input."""
    low = one.low - start * one.window_dilation
    high = one.high - (one.size - limit) * one.window_dilation
    return replace(one, size=limit - start, low=low, high=high)
