# SPDX-License-Identifier: Apache-2.0
"""Convolutions of one to three dimensions, transposed ones, and their gradients.

Inputs are `[batch, channels, *space]`; layouts decide whether channels are last in memory.
Source: PyTorch's `aten/src/ATen/native/Convolution.cpp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from ingot.frontends.building.arrays import wider
from ingot.frontends.building.convolution import ConvolutionPlan, FixSize
from ingot.frontends.building.products import dot
from ingot.frontends.torch.fx.sizes import Size, Sizes
from ingot.frontends.torch.lowering.context.guards import guarded
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo import dim as dim_math
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")


def _fixed(op: Op) -> FixSize:
    return lambda size: op.known(size, "the size of the image or filter")


def _at_most(op: Op) -> FixSize:
    return lambda size: op.at_most(size, "the size of the image")


def _plan(
    op: Op,
    kernel: Sizes,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: Size,
) -> ConvolutionPlan:
    """Return the numbers of a convolution; a list of one number holds for all dimensions."""
    taps = tuple(map(_fixed(op), kernel[2:]))
    rank = len(taps)
    strides, pads, dilations = (
        tuple(map(_fixed(op), given)) * (rank if len(given) == 1 else 1)
        for given in (stride, padding, dilation)
    )
    return ConvolutionPlan(
        taps,
        strides,
        dilations,
        tuple((pad, pad) for pad in pads),
        op.known(groups, "the number of groups"),
        channels_first=True,
        outputs_first=True,
    )


def _with_channels(
    op: Op, x: Instruction, weight: Instruction, transposed: bool, groups: Size
) -> Instruction:
    """Return an input with as many channels as the filter has, if that is a number."""
    channels = weight.shape.dims[0] if transposed else weight.shape.dims[1] * groups
    return guarded(op.b, x, (x.shape.dims[0], channels, *x.shape.dims[2:]))


@RULES.rule("convolution")
def _convolution(
    op: Op,
    x: Instruction,
    weight: Instruction,
    bias: Instruction | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: Size,
) -> Instruction:
    """A transposed convolution is the gradient of one for its input; halves are summed in f32."""
    del output_padding  # the result's sizes say it
    b = op.b
    plan = _plan(op, weight.shape.dims, stride, padding, dilation, groups)
    shape = op.shape.with_dtype(wider(op.dtype))
    x = _with_channels(op, x, weight, transposed, groups)
    if 0 in (*x.shape.dims, *weight.shape.dims, *shape.dims):
        made = b.zeros(shape)
    elif transposed:
        made = plan.image_gradient(b, op.dims, weight, x, _at_most(op), shape.dtype)
    else:
        made = guarded(b, plan.forward(b, x, weight, shape.dtype), op.dims)
    if bias is not None:
        wide = b.convert_to(bias, shape.dtype)
        made = b.add(made, b.spread(wide, op.dims, (1,)))
    return b.convert_to(made, op.dtype)


@RULES.rule("convolution_backward")
def _convolution_backward(
    op: Op,
    gradient: Instruction,
    x: Instruction,
    weight: Instruction,
    bias_sizes: Sequence[Size] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: Size,
    output_mask: Sequence[bool],
) -> tuple[Instruction | None, ...]:
    """Return the gradients for input, filter and bias, each if the mask asks for it.

    With output padding as large as the stride there are more windows than input elements.
    """
    del output_padding
    b = op.b
    plan = _plan(op, weight.shape.dims, stride, padding, dilation, groups)
    found: list[Instruction | None] = [None, None, None]
    x = _with_channels(op, x, weight, transposed, groups)
    if output_mask[0]:
        if not transposed:
            found[0] = plan.image_gradient(b, x.shape.dims, weight, gradient, _at_most(op))
        elif 0 in gradient.shape.dims:
            found[0] = b.zeros(x.shape)
        else:
            found[0] = b.cut(plan.forward(b, gradient, weight), x.shape.dims)
    if output_mask[1]:
        image, other = (gradient, x) if transposed else (x, gradient)
        space = (*image.shape.dims[2:], *other.shape.dims[2:])
        if all(isinstance(size, int) for size in space) or 0 in (*image.shape.dims, *space):
            found[1] = plan.filter_gradient(b, image, weight.shape.dims, other, _fixed(op))
        elif plan.groups > 1 and plan.groups == image.shape.dims[1]:
            found[1] = _depthwise_gradient(op, plan, image, weight.shape.dims, other)
        else:
            found[1] = _filter_gradient(op, plan, image, weight.shape.dims, other)
    if output_mask[2]:
        assert bias_sizes is not None
        axes = tuple(axis for axis in range(gradient.shape.rank) if axis != 1)
        found[2] = guarded(b, b.summed(gradient, axes), tuple(bias_sizes))
    return tuple(found)


def _padded(op: Op, plan: ConvolutionPlan, image: Instruction, first: int) -> Instruction:
    """Return a padded image, whose spatial dimensions begin with `first`."""
    zero = op.b.scalar(0, image.shape.dtype)
    for axis, pads in enumerate(plan.pads, first):
        image = op.b.padded(image, axis, *pads, zero)
    return image


def _met(plan: ConvolutionPlan, axis: int, index: int, windows: Size) -> tuple[int, Size, int]:
    """Return start, limit and step of what element `index` of each window meets along an axis."""
    start, step = index * plan.dilations[axis], plan.strides[axis]
    return start, start + (windows - 1) * step + 1, step


def _filter_gradient(
    op: Op, plan: ConvolutionPlan, image: Instruction, kernel: Sizes, gradient: Instruction
) -> Instruction:
    """Return the gradient for a filter if the input has symbolic sizes.

    The window of a convolution would be as large as the gradient, but windows have static sizes. So
    it is one product of the gradient for each line of the filter along its last dimension, with the
    slices of the input that the line's elements meet, side by side. All elements in one product
    took about the same time, and as many copies of the input as the filter has elements.
    """
    b, groups, rank = op.b, plan.groups, len(plan.kernel)
    wide = wider(gradient.shape.dtype)
    channels_last = (0, *range(2, 2 + rank), 1)
    image, gradient = (b.transposed(x, channels_last) for x in (image, gradient))
    image = _padded(op, plan, image, 1)
    space = gradient.shape.dims[: 1 + rank]

    def grouped(x: Instruction) -> Instruction:
        return b.reshape_to(x, (*space, groups, 1, dim_math.floordiv(x.shape.dims[-1], groups)))

    def met(image: Instruction, axis: int, index: int) -> Instruction:
        return b.sliced(image, axis + 1, *_met(plan, axis, index, space[axis + 1]))

    summed, kept = tuple(range(1 + rank)), (1 + rank,)
    left = grouped(gradient)
    made: list[Instruction] = []
    for row in product(*map(range, plan.kernel[:-1])):
        line = image
        for axis, index in enumerate(row):
            line = met(line, axis, index)
        taps = [met(line, rank - 1, index) for index in range(plan.kernel[-1])]
        right = b.concatenated(
            [grouped(guarded(b, tap, (*space, tap.shape.dims[-1]))) for tap in taps], rank + 2
        )
        found = dot(b, left, right, (summed, summed), (kept, kept), wide)
        made.append(b.transposed(found, (0, 1, 2, 4, 3)))
    # [groups, 1, features, channels, taps]
    whole = b.reshape_to(b.concatenated(made, 4), kernel)
    return b.convert_to(whole, gradient.shape.dtype)


def _depthwise_gradient(
    op: Op, plan: ConvolutionPlan, image: Instruction, kernel: Sizes, gradient: Instruction
) -> Instruction:
    """Return the gradient for a filter of one channel a group if the input has symbolic sizes.

    Each element is a sum over products, which is fused: products of matrices (`_filter_gradient`)
    would have one row, and the input would be copied for each line of the filter.
    """
    b, groups, rank = op.b, plan.groups, len(plan.kernel)
    image = _padded(op, plan, image, 2)
    batch, features, *space = gradient.shape.dims
    apart = (batch, groups, dim_math.floordiv(features, groups), *space)
    gradient = b.reshape_to(gradient, apart)
    found: list[Instruction] = []
    for taps in product(*map(range, plan.kernel)):
        met = image
        for axis, index in enumerate(taps):
            met = b.sliced(met, axis + 2, *_met(plan, axis, index, space[axis]))
        met = guarded(b, met, (batch, groups, *space))
        products = b.multiply(gradient, b.spread(met, apart, (0, 1, *range(3, 3 + rank))))
        total = b.summed(products, (0, *range(3, 3 + rank)))
        found.append(b.reshape_to(total, (*total.shape.dims, 1)))
    return b.reshape_to(b.concatenated(found, 2), kernel)
