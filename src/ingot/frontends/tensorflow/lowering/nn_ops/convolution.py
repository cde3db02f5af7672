# SPDX-License-Identifier: Apache-2.0
"""Convolutions and their gradients, each one HLO `convolution` (`building.convolution`).

Source: TensorFlow's `core/kernels/conv_grad_ops.h`.
"""

from __future__ import annotations

from ingot.frontends.building.convolution import ConvolutionPlan, FixSize
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Size, Sizes, Value
from ingot.frontends.tensorflow.lowering.nn_ops.windows import (
    Layout,
    check_windows,
    paddings,
    unlike,
)
from ingot.hlo import dim as dim_math
from ingot.hlo.instruction import Instruction

_SIZE = "size of image and filter"


def _plan(op: Op, image: Sizes, kernel: Sizes, groups: int) -> ConvolutionPlan:
    """Return the numbers of a node; images and filters have the sizes given."""
    layout = Layout.of(op, len(image))
    taps = tuple(_fixed(op)(size) for size in kernel[:-2])
    strides, dilations = layout.pick(op, "strides"), layout.pick(op, "dilations")
    pads = paddings(op, layout, layout.sizes(image), taps, strides, dilations)
    return ConvolutionPlan(
        taps, strides, dilations, pads, groups, layout.channels_first, outputs_first=False
    )


def _fixed(op: Op) -> FixSize:
    return lambda size: op.fixed(size, _SIZE)


def _groups(op: Op, image: Sizes, kernel: Sizes) -> int:
    """Return the number of groups: image channels over the filter's."""
    channel = Layout.of(op, len(image)).channel
    found = dim_math.exact_quotient(image[channel], kernel[-2])
    if not isinstance(found, int) or found < 1:
        raise op.mismatch(0, 1)
    return found


def _check_gradient(op: Op, plan: ConvolutionPlan, image: Sizes, outputs: Size) -> None:
    """Refuse a gradient (operand 2) that is not of the sizes of the convolution's result."""
    given, wanted = op.dims(2), plan.result_sizes(image, outputs)
    if unlike(given, wanted):
        shapes = (",".join(map(str, dims)) for dims in (given, wanted))
        raise op.error("out_backprop has shape [{}], and the result [{}]".format(*shapes))


def _forward(op: Op, image: Instruction, kernel: Instruction, groups: int) -> Instruction:
    plan = _plan(op, image.shape.dims, kernel.shape.dims, groups)
    sizes = Layout.of(op, image.shape.rank).sizes(image.shape.dims)
    reach = [(n - 1) * gap + 1 for n, gap in zip(plan.kernel, plan.dilations, strict=True)]
    check_windows(op, sizes, reach, plan.strides, plan.pads)
    return plan.forward(op.b, image, kernel)


def _input_gradient(
    op: Op, image: Sizes, kernel: Instruction, gradient: Instruction, groups: int
) -> Instruction:
    plan = _plan(op, image, kernel.shape.dims, groups)
    _check_gradient(op, plan, image, kernel.shape.dims[-1])
    return plan.image_gradient(op.b, image, kernel, gradient, _fixed(op))


def _filter_gradient(
    op: Op, image: Instruction, kernel: Sizes, gradient: Instruction, groups: int
) -> Instruction:
    plan = _plan(op, image.shape.dims, kernel, groups)
    _check_gradient(op, plan, image.shape.dims, kernel[-1])
    return plan.filter_gradient(op.b, image, kernel, gradient, _fixed(op))


def _convolution(op: Op) -> Value:
    image, kernel = op.tensor(0), op.tensor(1)
    if 0 in kernel.shape.dims:
        raise op.mistake("filter must not have zero elements")
    return _forward(op, image, kernel, _groups(op, image.shape.dims, kernel.shape.dims))


def _with_batch_dims(op: Op) -> Value:
    """The image has any number of batch dimensions."""
    b, image, kernel = op.b, op.tensor(0), op.tensor(1)
    count = int(op.attribute("batch_dims", 1))
    batch, rest = image.shape.dims[:count], image.shape.dims[count:]
    flat = b.reshape_to(image, (dim_math.product(batch), *rest))
    groups = _groups(op, flat.shape.dims, kernel.shape.dims)
    made = _forward(op, flat, kernel, groups)
    return b.reshape_to(made, (*batch, *made.shape.dims[1:]))


def _backprop_input(op: Op) -> Value:
    """Input sizes (of two dimensions: those of space alone), filter, gradient."""
    image, kernel = op.sizes(0, "input sizes"), op.tensor(1)
    if len(image) == 2:
        layout, channels = Layout.of(op, 4), kernel.shape.dims[-2]
        inner = (channels, *image) if layout.channels_first else (*image, channels)
        image = (op.dims(2)[0], *inner)
    return _input_gradient(op, image, kernel, op.tensor(2), _groups(op, image, kernel.shape.dims))


def _backprop_filter(op: Op) -> Value:
    """input, filter sizes, gradient."""
    image, kernel = op.tensor(0), op.sizes(1, "filter sizes")
    return _filter_gradient(op, image, kernel, op.tensor(2), _groups(op, image.shape.dims, kernel))


def _grouped(kernel: Sizes) -> Sizes:
    """Return a depthwise filter's sizes as a grouped one's: `[.., 1, channels * multiplier]`."""
    *taps, channels, multiplier = kernel
    return (*taps, 1, channels * multiplier)


def _depth(op: Op, kernel: Sizes) -> int:
    return op.fixed(kernel[-2], _SIZE)


def _depthwise(op: Op) -> Value:
    image, kernel = op.tensor(0), op.tensor(1)
    grouped = op.b.reshape_to(kernel, _grouped(kernel.shape.dims))
    return _forward(op, image, grouped, _depth(op, kernel.shape.dims))


def _depthwise_backprop_input(op: Op) -> Value:
    image, kernel = op.sizes(0, "input sizes"), op.tensor(1)
    grouped = op.b.reshape_to(kernel, _grouped(kernel.shape.dims))
    return _input_gradient(op, image, grouped, op.tensor(2), _depth(op, kernel.shape.dims))


def _depthwise_backprop_filter(op: Op) -> Value:
    kernel = op.sizes(1, "filter sizes")
    made = _filter_gradient(op, op.tensor(0), _grouped(kernel), op.tensor(2), _depth(op, kernel))
    return op.b.reshape_to(made, kernel)


RULES: dict[str, Rule] = {
    "Conv": _with_batch_dims,
    "Conv2D": _convolution,
    "Conv2DBackpropFilter": _backprop_filter,
    "Conv2DBackpropInput": _backprop_input,
    "Conv3D": _convolution,
    "Conv3DBackpropFilterV2": _backprop_filter,
    "Conv3DBackpropInputV2": _backprop_input,
    "DepthwiseConv2dNative": _depthwise,
    "DepthwiseConv2dNativeBackpropFilter": _depthwise_backprop_filter,
    "DepthwiseConv2dNativeBackpropInput": _depthwise_backprop_input,
}
