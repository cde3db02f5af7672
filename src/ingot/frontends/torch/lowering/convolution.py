# SPDX-License-Identifier: Apache-2.0
"""Convolutions of one to three dimensions, transposed ones, and their gradients.

Images are `[batch, channels, *space]`; that channels are last in memory is a matter of layouts.
Source: PyTorch's `aten/src/ATen/native/Convolution.cpp`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.building.arrays import wider
from ingot.frontends.building.convolution import ConvolutionPlan, FixSize
from ingot.frontends.torch.lowering.guards import guarded
from ingot.frontends.torch.lowering.op import Op
from ingot.frontends.torch.lowering.table import RuleTable
from ingot.frontends.torch.sizes import Size, Sizes
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")


def _fixed(op: Op) -> FixSize:
    return lambda size: op.known(size, "the size of the image or filter")


def _plan(
    op: Op,
    kernel: Sizes,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
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
        groups,
        channels_first=True,
        outputs_first=True,
    )


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
    groups: int,
) -> Instruction:
    """A transposed convolution is the gradient of one for its image; halves sum in f32."""
    del output_padding  # the result's sizes say it
    b = op.b
    plan = _plan(op, weight.shape.dims, stride, padding, dilation, groups)
    shape = op.shape.with_dtype(wider(op.dtype))
    if 0 in (*x.shape.dims, *weight.shape.dims, *shape.dims):
        made = b.zeros(shape)
    elif transposed:
        made = plan.image_gradient(b, op.dims, weight, x, _fixed(op), shape.dtype)
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
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Instruction | None, ...]:
    """Gradients for image, filter and bias, each where the mask says so.

    Output padding as large as the stride leaves room for more windows than the image has elements.
    """
    del bias_sizes
    b, fixed = op.b, _fixed(op)
    plan = _plan(op, weight.shape.dims, stride, padding, dilation, groups)
    found: list[Instruction | None] = [None, None, None]
    if output_mask[0]:
        if not transposed:
            found[0] = plan.image_gradient(b, x.shape.dims, weight, gradient, fixed)
        elif 0 in gradient.shape.dims:
            found[0] = b.zeros(x.shape)
        else:
            image = plan.forward(b, gradient, weight)
            for axis, size in enumerate(x.shape.dims if any(output_padding) else ()):
                image = b.sliced(image, axis, 0, size)
            found[0] = image
    if output_mask[1]:
        image, other = (gradient, x) if transposed else (x, gradient)
        found[1] = plan.filter_gradient(b, image, weight.shape.dims, other, fixed)
    if output_mask[2]:
        axes = tuple(axis for axis in range(gradient.shape.rank) if axis != 1)
        found[2] = b.summed(gradient, axes)
    return tuple(found)
