# SPDX-License-Identifier: Apache-2.0
"""Convolutions and their gradients, each one HLO `convolution`.

The gradient for the input is a convolution of the spread-out gradient with the mirrored filter;
the one for the filter is a convolution of the input with the gradient, batch and channels swapped.
Source: TensorFlow's `core/kernels/conv_grad_ops.h`; XLA's `tf2xla/kernels/conv_op_helpers.cc`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.frontends.tensorflow.lowering.op import Op, Rule
from ingot.frontends.tensorflow.lowering.values import Sizes, Value
from ingot.frontends.tensorflow.lowering.windows import Layout, paddings
from ingot.hlo import dim as dim_math
from ingot.hlo.instruction import Instruction
from ingot.hlo.window import WindowDimension

_SIZE = "size of image and filter"


@dataclass(frozen=True, slots=True)
class _Convolution:
    """The numbers of one convolution node; `kernel` are the filter's spatial sizes."""

    layout: Layout
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    groups: int

    @staticmethod
    def of(op: Op, image: Sizes, kernel: Sizes, groups: int) -> _Convolution:
        layout = Layout.of(op, len(image))
        taps = tuple(op.fixed(size, _SIZE) for size in kernel[:-2])
        strides = layout.pick(op, "strides")
        dilations = layout.pick(op, "dilations")
        sizes = layout.sizes(image)
        pads = paddings(op, layout, sizes, taps, strides, dilations)
        return _Convolution(layout, taps, strides, dilations, pads, groups)

    @property
    def filter_digits(self) -> str:
        """The filter's spatial labels."""
        return "".join(str(number) for number in range(len(self.kernel)))


def _groups(op: Op, image: Sizes, kernel: Sizes) -> int:
    """Return the number of groups: image channels over the filter's."""
    channel = Layout.of(op, len(image)).channel
    found = dim_math.exact_quotient(image[channel], kernel[-2])
    if not isinstance(found, int) or found < 1:
        raise op.mismatch(0, 1)
    return found


def _forward(op: Op, image: Instruction, kernel: Instruction, groups: int) -> Instruction:
    plan = _Convolution.of(op, image.shape.dims, kernel.shape.dims, groups)
    window = tuple(
        WindowDimension(size, stride, *pad, window_dilation=dilation)
        for size, stride, pad, dilation in zip(
            plan.kernel, plan.strides, plan.pads, plan.dilations, strict=True
        )
    )
    labels = plan.layout.labels("b", "f")
    return op.b.emit(
        "convolution",
        image,
        kernel,
        window=window,
        dim_labels=f"{labels}_{plan.filter_digits}io->{labels}",
        feature_group_count=groups,
    )


def _input_gradient(
    op: Op, image: Sizes, kernel: Instruction, gradient: Instruction, groups: int
) -> Instruction:
    b = op.b
    if 0 in gradient.shape.dims:
        return b.zeros(gradient.shape.with_dims(image))
    plan = _Convolution.of(op, image, kernel.shape.dims, groups)
    *taps, inner, outer = kernel.shape.dims
    if groups > 1:
        # [.., inner, groups * part] to [.., groups * inner, part]: groups of the result's channels.
        rank = len(taps)
        part = dim_math.floordiv(outer, groups)
        kernel = b.reshape_to(kernel, (*taps, inner, groups, part))
        kernel = b.transposed(kernel, (*range(rank), rank + 1, rank, rank + 2))
        kernel = b.reshape_to(kernel, (*taps, groups * inner, part))
    window: list[WindowDimension] = []
    sizes = zip(plan.layout.sizes(image), plan.layout.sizes(gradient.shape.dims), strict=True)
    for number, (size, count) in enumerate(sizes):
        stride, dilation = plan.strides[number], plan.dilations[number]
        reach = (plan.kernel[number] - 1) * dilation + 1
        low = reach - 1 - plan.pads[number][0]
        spread = (count - 1) * stride + 1
        high = op.fixed(size + reach - 1 - low - spread, _SIZE)
        window.append(
            WindowDimension(plan.kernel[number], 1, low, high, stride, dilation, reversal=True)
        )
    labels = plan.layout.labels("b", "f")
    return b.emit(
        "convolution",
        gradient,
        kernel,
        window=tuple(window),
        dim_labels=f"{labels}_{plan.filter_digits}oi->{labels}",
        feature_group_count=groups,
    )


def _filter_gradient(
    op: Op, image: Instruction, kernel: Sizes, gradient: Instruction, groups: int
) -> Instruction:
    if 0 in gradient.shape.dims:
        return op.b.zeros(gradient.shape.with_dims(kernel))
    plan = _Convolution.of(op, image.shape.dims, kernel, groups)
    window: list[WindowDimension] = []
    sizes = zip(
        plan.layout.sizes(image.shape.dims), plan.layout.sizes(gradient.shape.dims), strict=True
    )
    for number, (size, count) in enumerate(sizes):
        stride, dilation = plan.strides[number], plan.dilations[number]
        low = plan.pads[number][0]
        reach = (op.fixed(count, _SIZE) - 1) * stride + 1
        needed = reach + (plan.kernel[number] - 1) * dilation
        high = needed - op.fixed(size, _SIZE) - low
        window.append(WindowDimension(op.fixed(count, _SIZE), dilation, low, high, 1, stride))
    image_labels = plan.layout.labels("f", "b")
    gradient_labels = plan.layout.labels("i", "o")
    return op.b.emit(
        "convolution",
        image,
        gradient,
        window=tuple(window),
        dim_labels=f"{image_labels}_{gradient_labels}->{plan.filter_digits}bf",
        batch_group_count=groups,
    )


def _convolution(op: Op) -> Value:
    image, kernel = op.tensor(0), op.tensor(1)
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
    """Input sizes, filter, gradient."""
    image, kernel = op.sizes(0, "input sizes"), op.tensor(1)
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
