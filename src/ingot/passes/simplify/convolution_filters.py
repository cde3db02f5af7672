# SPDX-License-Identifier: Apache-2.0
"""Filters that are larger than the image: elements that meet only padding are sliced off.

A 3x3 filter with padding 1 over an image of one pixel is a 1x1 filter, its middle: deep layers of
networks for large images are like that when the images are small.

Invariant: all products with elements of the input are summed, as before. Products of the filter
with padding, which is 0, are left out, also where an element of the filter is infinite or NaN.
"""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.contraction import ConvolutionAttributes
from ingot.hlo.rewrite.op_pass import Expander
from ingot.hlo.window import WindowDimension
from ingot.support.records import record, replace


@record
class ConvolutionFilterSlicer(Expander):
    """Slices off the elements of filters that meet padding only."""

    name = "convolution-filter-slicer"
    concerns = frozenset({"convolution"})

    def expand(self, op: Instruction, build: Builder, module: Module) -> Instruction:
        """Return the convolution with the part of its filter that meets the input."""
        given = op.as_(ConvolutionAttributes)
        labels, filter = given.labels, op.operands[1]
        window, box = list(given.window), [(0, size, 1) for size in filter.shape.dims]
        _, *inputs, _ = labels.dimensions(labels.lhs, "bf")
        _, *filters, _ = labels.dimensions(labels.rhs, "io")
        _, *outputs, _ = labels.dimensions(labels.output, "bf")
        for number, one in enumerate(given.window):
            extent = op.operands[0].shape.dims[inputs[number]]
            count = op.shape.dims[outputs[number]]
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
