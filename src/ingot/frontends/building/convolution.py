# SPDX-License-Identifier: Apache-2.0
"""Convolutions and their gradients, each one HLO `convolution`, in any layout of dimensions.

The gradient for the image is a convolution of the spread-out gradient with the mirrored filter;
the one for the filter is a convolution of the image with the gradient, batch and channels swapped.
Invariant: a front end says where dimensions are in `ConvolutionPlan`; no tensor is transposed here,
except a grouped filter, whose groups move from its output to its input channels.

Source: TensorFlow's `core/kernels/conv_grad_ops.h`; XLA's `tf2xla/kernels/conv_op_helpers.cc`.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.frontends.building.arrays import ArrayBuilder, Size, Sizes
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.window import Window, WindowDimension
from ingot.support.records import record

FixSize = Callable[[Size], int]
"""Returns a size as a number, or raises the front end's error for a symbolic one.

For padding behind an image it may return a greater number: the result is cut to its sizes.
"""


@record
class ConvolutionPlan:
    """The numbers of one convolution.

    Attributes:
        kernel: the filter's spatial sizes.
        strides: distance between neighbouring windows, per spatial dimension.
        dilations: distance between neighbouring elements of a window.
        pads: zeros before and after the image.
        groups: into how many groups the channels are divided.
        channels_first: whether images are `[batch, channels, *space]`; else channels are last.
        outputs_first: whether filters are `[outputs, inputs, *space]`; else
            `[*space, inputs, outputs]`.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    groups: int
    channels_first: bool
    outputs_first: bool

    @property
    def _digits(self) -> str:
        return "".join(str(number) for number in range(len(self.kernel)))

    def _image_labels(self, batch: str, channel: str) -> str:
        """Return HLO dimension labels of an image, with these letters for batch and channel."""
        middle = channel + self._digits if self.channels_first else self._digits + channel
        return batch + middle

    def _filter_labels(self, inputs: str, outputs: str) -> str:
        """Return HLO dimension labels of a filter, with these letters for its channels."""
        if self.outputs_first:
            return outputs + inputs + self._digits
        return self._digits + inputs + outputs

    def _space(self, dims: Sizes) -> Sizes:
        """Return the spatial sizes of an image."""
        first = 2 if self.channels_first else 1
        return dims[first : first + len(self.kernel)]

    def _window(self) -> Window:
        return tuple(
            WindowDimension(size, stride, *pad, window_dilation=dilation)
            for size, stride, pad, dilation in zip(
                self.kernel, self.strides, self.pads, self.dilations, strict=True
            )
        )

    def result_sizes(self, image: Sizes, outputs: Size) -> Sizes:
        """Return the sizes of the result for images of these sizes and a number of channels."""
        sizes = zip(self._window(), self._space(image), strict=True)
        space = [dimension.count(size) for dimension, size in sizes]
        inner = (outputs, *space) if self.channels_first else (*space, outputs)
        return (image[0], *inner)

    def forward(
        self,
        b: ArrayBuilder,
        image: Instruction,
        kernel: Instruction,
        element: DType | None = None,
    ) -> Instruction:
        """Return the convolution, of type `element` or by default that of the image."""
        window = self._window()
        outputs = kernel.shape.dims[0 if self.outputs_first else -1]
        shape = image.shape.with_dims(self.result_sizes(image.shape.dims, outputs))
        labels = self._image_labels("b", "f")
        return b.emit(
            "convolution",
            image,
            kernel,
            window=window,
            dim_labels=f"{labels}_{self._filter_labels('i', 'o')}->{labels}",
            feature_group_count=self.groups,
            shape=shape.with_dtype(element or shape.dtype),
        )

    def image_gradient(
        self,
        b: ArrayBuilder,
        image: Sizes,
        kernel: Instruction,
        gradient: Instruction,
        fixed: FixSize,
        element: DType | None = None,
    ) -> Instruction:
        """Return the gradient for an image of the sizes `image`; also a transposed convolution.

        Its element type is `element`, by default that of the gradient.
        """
        shape = gradient.shape.with_dims(image).with_dtype(element or gradient.shape.dtype)
        if 0 in gradient.shape.dims or 0 in image:
            return b.zeros(shape)
        if self.groups > 1:
            kernel = self._by_input_groups(b, kernel)
        window: list[WindowDimension] = []
        first = 2 if self.channels_first else 1
        dims = list(image)
        spaces = zip(self._space(image), self._space(gradient.shape.dims), strict=True)
        for number, (size, count) in enumerate(spaces):
            stride, dilation = self.strides[number], self.dilations[number]
            reach = (self.kernel[number] - 1) * dilation + 1
            low = reach - 1 - self.pads[number][0]
            spread = (count - 1) * stride + 1
            exact = size + reach - 1 - low - spread
            # So many windows leave out fewer elements than this at the end of an image.
            left_out = max(stride, dilation) - 1
            is_counted = isinstance(count, int) and not isinstance(size, int)
            high = reach - 1 - self.pads[number][1] + left_out if is_counted else fixed(exact)
            dims[first + number] = size + (high - exact)
            window.append(
                WindowDimension(self.kernel[number], 1, low, high, stride, dilation, reversal=True)
            )
        labels = self._image_labels("b", "f")
        made = b.emit(
            "convolution",
            gradient,
            kernel,
            window=tuple(window),
            dim_labels=f"{labels}_{self._filter_labels('o', 'i')}->{labels}",
            feature_group_count=self.groups,
            shape=shape.with_dims(tuple(dims)),
        )
        return b.cut(made, image)

    def _by_input_groups(self, b: ArrayBuilder, kernel: Instruction) -> Instruction:
        """Return a filter of `inner` inputs and `groups * part` outputs with the groups moved.

        It has `groups * inner` inputs and `part` outputs.
        """
        rank = kernel.shape.rank
        first = 0 if self.outputs_first else rank - 2
        dims = kernel.shape.dims
        before, after = dims[:first], dims[first + 2 :]
        outer, inner = dims[first : first + 2]
        if not self.outputs_first:
            outer, inner = inner, outer
        part = dim_math.floordiv(outer, self.groups)
        order = list(range(rank + 1))
        if self.outputs_first:  # [groups, part, inner, ..] to [part, groups, inner, ..]
            split, joined = (self.groups, part, inner), (part, self.groups * inner)
            order[first], order[first + 1] = order[first + 1], order[first]
        else:  # [.., inner, groups, part] to [.., groups, inner, part]
            split, joined = (inner, self.groups, part), (self.groups * inner, part)
            order[first], order[first + 1] = order[first + 1], order[first]
        apart = b.transposed(b.reshape_to(kernel, (*before, *split, *after)), order)
        return b.reshape_to(apart, (*before, *joined, *after))

    def filter_gradient(
        self,
        b: ArrayBuilder,
        image: Instruction,
        kernel: Sizes,
        gradient: Instruction,
        fixed: FixSize,
    ) -> Instruction:
        """Return the gradient for a filter of the sizes `kernel`."""
        if 0 in gradient.shape.dims or 0 in image.shape.dims or 0 in kernel:
            return b.zeros(gradient.shape.with_dims(kernel))
        window: list[WindowDimension] = []
        spaces = zip(self._space(image.shape.dims), self._space(gradient.shape.dims), strict=True)
        for number, (size, count) in enumerate(spaces):
            stride, dilation = self.strides[number], self.dilations[number]
            low = self.pads[number][0]
            reach = (fixed(count) - 1) * stride + 1
            needed = reach + (self.kernel[number] - 1) * dilation
            high = needed - fixed(size) - low
            window.append(WindowDimension(fixed(count), dilation, low, high, 1, stride))
        sides = f"{self._image_labels('f', 'b')}_{self._image_labels('i', 'o')}"
        return b.emit(
            "convolution",
            image,
            gradient,
            window=tuple(window),
            dim_labels=f"{sides}->{self._filter_labels('b', 'f')}",
            batch_group_count=self.groups,
        )
