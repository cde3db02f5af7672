# SPDX-License-Identifier: Apache-2.0
"""Uniformly quantised integers: value = (integer - zero point) * scale, per tensor or per axis.

Integers are brought from one scale to another in f32, rounded half up, as XLA does; TensorFlow's
own kernels multiply by a fixed-point factor there, which can differ by one where a value lies
half-way. Source: TensorFlow's `kernels/uniform_quant_ops/`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.formats.hlo_proto.structures import read_labels
from ingot.frontends.building.products import dot
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Size, Sizes, Value
from ingot.frontends.tensorflow.lowering.nn_ops.windows import Layout, paddings
from ingot.frontends.tensorflow.lowering.xla_ops.instructions import proto
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import F32, F64, S32, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.window import WindowDimension
from ingot.support.records import record

_LEAST, _MOST = -128, 127
_STEPS = 255.0


_Factor = tuple[Instruction, tuple[int, ...]]
"""A scale for the whole result, or scales along these of its axes."""


@record
class _Scale:
    """Scales and zero points of one tensor, f32, and the least and greatest integer."""

    op: Op
    scales: Instruction
    zeros: Instruction
    axis: int
    least: int
    most: int

    @staticmethod
    def of(op: Op, first: int, prefix: str = "") -> _Scale:
        """Read scales and zero points from operands `first` on, the rest from attributes."""
        axis = int(op.attribute(f"{prefix}quantization_axis", -1))
        limits = (int(op.attribute(f"{prefix}quantization_{end}_val", 0)) for end in ("min", "max"))
        scales, zeros = (op.b.convert_to(op.tensor(first + n), F32) for n in range(2))
        return _Scale(op, scales, zeros, axis, *limits)

    def _spread(self, x: Instruction, dims: Sizes) -> Instruction:
        return self.op.b.spread(x, dims, (self.axis,) if x.shape.rank else ())

    def to_float(self, x: Instruction) -> Instruction:
        """Return the numbers that integers stand for."""
        b, wide = self.op.b, self.op.b.convert_to(x, F32)
        dims = wide.shape.dims
        centred = b.subtract(wide, self._spread(self.zeros, dims))
        return b.multiply(centred, self._spread(self.scales, dims))

    def rounded(self, x: Instruction) -> Instruction:
        """Return whole numbers, f32, for numbers: not held inside the limits yet."""
        b, dims = self.op.b, x.shape.dims
        inverse = b.divide(b.like(1, self.scales.shape), self.scales)
        steps = b.floor(b.binary("add", b.multiply(x, self._spread(inverse, dims)), 0.5))
        return b.add(steps, self._spread(self.zeros, dims))

    def held(self, steps: Instruction, element: DType) -> Instruction:
        """Hold whole numbers inside the limits and store them."""
        b = self.op.b
        low, high = (b.like(end, steps.shape) for end in (self.least, self.most))
        return b.convert_to(b.minimum(b.maximum(steps, low), high), element)

    def less_zero(self, steps: Instruction) -> Instruction:
        """Take the zero point away."""
        return self.op.b.subtract(steps, self._spread(self.zeros, steps.shape.dims))


def _quantize(op: Op) -> Value:
    scale = _Scale.of(op, 1)
    return scale.held(scale.rounded(op.b.convert_to(op.tensor(0), F32)), op.result())


def _dequantize(op: Op) -> Value:
    return op.b.convert_to(_Scale.of(op, 1).to_float(op.tensor(0)), op.result())


def _requantize(op: Op) -> Value:
    source, target = _Scale.of(op, 1, "input_"), _Scale.of(op, 3, "output_")
    return target.held(target.rounded(source.to_float(op.tensor(0))), op.result())


def _add(op: Op) -> Value:
    """Both operands are brought to the result's scale, then added."""
    target = _Scale.of(op, 6, "output_")
    sides = [
        target.rounded(_Scale.of(op, 2 + 2 * n, prefix).to_float(op.tensor(n)))
        for n, prefix in enumerate(("lhs_", "rhs_"))
    ]
    left, right = op.b.together(*sides)
    return target.held(target.less_zero(op.b.add(left, right)), op.result())


def _integers(op: Op, number: int, scale: _Scale) -> Instruction:
    """Return operand `number` without its zero point, s32."""
    return op.b.convert_to(scale.less_zero(op.b.convert_to(op.tensor(number), F32)), S32)


def _centred(op: Op) -> tuple[list[Instruction], list[_Scale]]:
    """Return both operands without their zero points, and how they are scaled."""
    scales = [_Scale.of(op, 2 + 2 * n, prefix) for n, prefix in enumerate(("lhs_", "rhs_"))]
    return [_integers(op, n, scale) for n, scale in enumerate(scales)], scales


def _scaled(op: Op, total: Instruction, factors: Sequence[_Factor]) -> Instruction:
    """Multiply whole numbers by scales, each for the whole tensor or along axes of the result."""
    b, made = op.b, op.b.convert_to(total, F32)
    for factor, axes in factors:
        made = b.multiply(made, b.spread(factor, made.shape.dims, axes[: factor.shape.rank]))
    return made


def _dot(op: Op) -> Value:
    """Products of centred integers are summed exactly, then brought to the result's scale."""
    sides, (left, right) = _centred(op)
    total = dot(op.b, sides[0], sides[1], ((1,), (0,)))
    made = _scaled(op, total, [(left.scales, (1,)), (right.scales, (1,))])
    target = _Scale.of(op, 6, "output_")
    return target.held(target.rounded(made), op.result())


def _dot_hybrid(op: Op) -> Value:
    """Floats, quantised by row, times integers; the result is floats."""
    left, rows = _quantized_rows(op, 0)
    right = _Scale.of(op, 2, "rhs_")
    total = dot(op.b, left, _integers(op, 1, right), ((1,), (0,)))
    return _scaled(op, total, [(rows, (0,)), (right.scales, (1,))])


def _quantized_rows(op: Op, batch: int) -> tuple[Instruction, Instruction]:
    """Return operand 0 as integers without zero points, and a scale for each item of `batch`.

    The range of an item, widened to hold 0, becomes -128 to 127, with 0 at a whole number.
    """
    b, x = op.b, op.tensor(0)
    axes = [axis for axis in range(x.shape.rank) if axis != batch]
    least, most = (
        b.convert_to(b.binary(fold, b.reduced(fold, x, axes), 0.0), F64)
        for fold in ("minimum", "maximum")
    )
    span = b.subtract(most, least)
    scale = b.convert_to(b.binary("divide", span, _STEPS), F32)
    inverse = b.convert_to(b.divide(b.like(_STEPS, span.shape), span), F32)
    ranged = b.and_(b.compared("NE", scale, 0), b.emit("is-finite", inverse))
    one, none = b.like(1, scale.shape), b.zeros(scale.shape)
    scale, inverse = b.select(ranged, scale, one), b.select(ranged, inverse, none)
    zero = b.select(ranged, _zero_point(b, b.convert_to(scale, F64), least, most), none)
    dims, batch_axes = x.shape.dims, (batch,)
    spread = b.spread(zero, dims, batch_axes)
    steps = b.floor(b.binary("add", b.multiply(x, b.spread(inverse, dims, batch_axes)), 0.5))
    low, high = (b.like(end, x.shape) for end in (_LEAST, _MOST))
    held = b.minimum(b.maximum(b.add(steps, spread), low), high)
    return b.convert_to(b.subtract(held, spread), S32), scale


def _zero_point(
    b: TensorBuilder, scale: Instruction, least: Instruction, most: Instruction
) -> Instruction:
    """Return which integer stands for 0, f32: from the end of the range that errs less."""
    ends = [b.divide(end, scale) for end in (least, most)]
    from_least, from_most = (
        b.binary("add", b.negate(steps), end)
        for steps, end in zip(ends, (_LEAST, _MOST), strict=True)
    )
    errors = [
        b.binary("add", b.abs(steps), abs(end))
        for steps, end in zip(ends, (_LEAST, _MOST), strict=True)
    ]
    chosen = b.select(b.compare(*errors, direction="LT"), from_least, from_most)
    rounded = b.emit("round-nearest-afz", chosen)
    low, high = (b.like(end, chosen.shape) for end in (_LEAST, _MOST))
    return b.convert_to(b.minimum(b.maximum(rounded, low), high), F32)


def _convolved(op: Op, left: Instruction, right: Instruction, labels: str) -> Instruction:
    """Convolve whole numbers; an absent zero point is what pads."""
    image, kernel, _ = labels.replace("->", "_").split("_")
    rank = left.shape.rank - 2
    kernel_sizes = [right.shape.static_dims[kernel.index(str(n))] for n in range(rank)]
    sizes = [left.shape.dims[image.index(str(n))] for n in range(rank)]
    strides, base, dilations = (
        tuple(op.attribute(name) or (1,) * rank)
        for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    )
    pads: Sequence[tuple[int, int]]
    if op.attribute("padding") == "EXPLICIT":
        flat = [int(size) for size in op.attribute("explicit_padding")]
        pads = list(zip(flat[::2], flat[1::2], strict=True))
    else:
        layout = Layout(rank + 2, channels_first=True)
        spread = tuple((n - 1) * step + 1 if n else n for n, step in zip(sizes, base, strict=True))
        pads = paddings(op, layout, spread, kernel_sizes, strides, dilations)
    window = tuple(
        WindowDimension(size, stride, *pad, spacing, dilation)
        for size, stride, pad, spacing, dilation in zip(
            kernel_sizes, strides, pads, base, dilations, strict=True
        )
    )
    return op.b.emit(
        "convolution",
        left,
        right,
        window=window,
        dim_labels=labels,
        feature_group_count=int(op.attribute("feature_group_count", 1)),
        batch_group_count=int(op.attribute("batch_group_count", 1)),
    )


def _labels(op: Op, rank: int) -> str:
    """Return HLO's text of the node's dimension numbers; the default has channels first."""
    numbers = proto(op, "dimension_numbers", "UniformQuantizedConvolutionDimensionNumbersAttr")
    if numbers:
        return read_labels(numbers)
    digits = "".join(map(str, range(rank - 2)))
    return f"bf{digits}_oi{digits}->bf{digits}"


def _convolution(op: Op) -> Value:
    """As `_dot`: exact sums, brought to the result's scale."""
    sides, (left, right) = _centred(op)
    labels = _labels(op, op.rank(0))
    total = _convolved(op, sides[0], sides[1], labels)
    channel = labels.partition("->")[2].index("f")
    made = _scaled(op, total, [(left.scales, (channel,)), (right.scales, (channel,))])
    target = _Scale.of(op, 6, "output_")
    return target.held(target.rounded(made), op.result())


def _convolution_hybrid(op: Op) -> Value:
    """Floats, quantised by image, convolved with integers; the result is floats."""
    labels = _labels(op, op.rank(0))
    left, images = _quantized_rows(op, labels.index("b"))
    right = _Scale.of(op, 2, "rhs_")
    total = _convolved(op, left, _integers(op, 1, right), labels)
    batch, channel = (labels.partition("->")[2].index(letter) for letter in "bf")
    groups = int(op.attribute("batch_group_count", 1))
    of_images = _of_groups(op.b, images, groups, total.shape.dims[channel])
    if channel > batch:
        of_images = op.b.transposed(of_images, (1, 0))
    factors = [(of_images, tuple(sorted((batch, channel)))), (right.scales, (channel,))]
    return _scaled(op, total, factors)


def _of_groups(b: TensorBuilder, images: Instruction, groups: int, channels: Size) -> Instruction:
    """Return `[channels, batch]` of `[groups * batch]`: a channel sees the images of its group."""
    batch = dim_math.floordiv(images.shape.dims[0], groups)
    rows = b.reshape_to(images, (groups, 1, batch))
    each = dim_math.floordiv(channels, groups)
    return b.reshape_to(b.spread(rows, (groups, each, batch)), (channels, batch))


def _clip(op: Op) -> Value:
    """Integers between two integers, per tensor or per axis."""
    b, x = op.b, op.tensor(0)
    axis = int(op.attribute("quantization_axis", -1))
    low, high = (
        b.spread(end, x.shape.dims, (axis,) if end.shape.rank else ()) for end in op.tensors(1, 3)
    )
    return b.minimum(b.maximum(x, low), high)


RULES: dict[str, Rule] = {
    "UniformDequantize": _dequantize,
    "UniformQuantize": _quantize,
    "UniformQuantizedAdd": _add,
    "UniformQuantizedClipByValue": _clip,
    "UniformQuantizedConvolution": _convolution,
    "UniformQuantizedConvolutionHybrid": _convolution_hybrid,
    "UniformQuantizedDot": _dot,
    "UniformQuantizedDotHybrid": _dot_hybrid,
    "UniformRequantize": _requantize,
}
