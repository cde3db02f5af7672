# SPDX-License-Identifier: Apache-2.0
"""Images: colour spaces and adjustments; and fake quantisation.

Source: TensorFlow's `kernels/image/` and `kernels/fake_quant_ops_functor.h`.
"""

from __future__ import annotations

from typing import NamedTuple

from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Value
from ingot.frontends.tensorflow.lowering.math_ops.reduction import mean
from ingot.hlo.instruction import Instruction


def _channels(b: TensorBuilder, image: Instruction) -> list[Instruction]:
    last = image.shape.rank - 1
    return [b.sliced(image, last, n, n + 1) for n in range(3)]


def _to_hsv(b: TensorBuilder, image: Instruction) -> tuple[Instruction, Instruction, Instruction]:
    red, green, blue = _channels(b, image)
    value = b.maximum(b.maximum(red, green), blue)
    low = b.minimum(b.minimum(red, green), blue)
    spread = b.subtract(value, low)
    zero = b.zeros(value.shape)
    saturation = b.select(b.compared("GT", value, 0), b.divide(spread, value), zero)
    unit = b.divide(b.like(1, spread.shape), b.binary("multiply", spread, 6))
    hue_red = b.multiply(unit, b.subtract(green, blue))
    hue_green = b.binary("add", b.multiply(unit, b.subtract(blue, red)), 2 / 6)
    hue_blue = b.binary("add", b.multiply(unit, b.subtract(red, green)), 4 / 6)
    hue = b.select(b.compare(green, value, direction="EQ"), hue_green, hue_blue)
    hue = b.select(b.compare(red, value, direction="EQ"), hue_red, hue)
    hue = b.select(b.compared("GT", spread, 0), hue, zero)
    hue = b.select(b.compared("LT", hue, 0), b.binary("add", hue, 1), hue)
    return hue, saturation, value


def _shares(b: TensorBuilder, hue: Instruction) -> list[Instruction]:
    """Return how far red, green and blue of a hue are from the least to the greatest channel."""
    turn = b.binary("multiply", hue, 6)
    zero, one = b.zeros(hue.shape), b.like(1, hue.shape)
    parts = (
        b.binary("add", b.abs(b.binary("add", turn, -3)), -1),
        b.binary("add", b.negate(b.abs(b.binary("add", turn, -2))), 2),
        b.binary("add", b.negate(b.abs(b.binary("add", turn, -4))), 2),
    )
    return [b.clamp(zero, part, one) for part in parts]


def _from_hsv(
    b: TensorBuilder, hue: Instruction, saturation: Instruction, value: Instruction
) -> Instruction:
    one = b.like(1, hue.shape)
    colours = [
        b.multiply(b.add(b.multiply(b.binary("add", share, -1), saturation), one), value)
        for share in _shares(b, hue)
    ]
    return b.concatenated(colours, hue.shape.rank - 1)


def _rgb_to_hsv(op: Op) -> Value:
    return op.b.concatenated(_to_hsv(op.b, op.tensor(0)), op.rank(0) - 1)


def _hsv_to_rgb(op: Op) -> Value:
    return _from_hsv(op.b, *_channels(op.b, op.tensor(0)))


def _adjust_hue(op: Op) -> Value:
    """The least and the greatest channel stay, also where the greatest is not positive."""
    b, image = op.b, op.tensor(0)
    hue, _, value = _to_hsv(b, image)
    red, green, blue = _channels(b, image)
    low = b.minimum(b.minimum(red, green), blue)
    moved = b.binary("add", hue, b.convert_to(op.tensor(1), hue.shape.dtype))
    wrapped = b.subtract(moved, b.floor(moved))
    spread = b.subtract(value, low)
    colours = [b.add(low, b.multiply(share, spread)) for share in _shares(b, wrapped)]
    return b.concatenated(colours, hue.shape.rank - 1)


def _adjust_saturation(op: Op) -> Value:
    b = op.b
    hue, saturation, value = _to_hsv(b, op.tensor(0))
    scaled = b.binary("multiply", saturation, b.convert_to(op.tensor(1), hue.shape.dtype))
    held = b.clamp(b.zeros(hue.shape), scaled, b.like(1, hue.shape))
    return _from_hsv(b, hue, held, value)


def _adjust_contrast(op: Op) -> Value:
    """(x - mean) * factor + mean, the mean taken over height and width."""
    b = op.b
    image, rank = op.tensor(0), op.rank(0)
    average = mean(b, image, (rank - 3, rank - 2), True)
    centred = b.binary("subtract", image, average)
    scaled = b.binary("multiply", centred, b.convert_to(op.tensor(1), image.shape.dtype))
    return b.binary("add", scaled, average)


def _nudged(
    b: TensorBuilder, low: Instruction, high: Instruction, bits: int, narrow: bool
) -> tuple[Instruction, Instruction, Instruction]:
    """Return (lowest, highest, scale) moved so that zero is a quantised value.

    Each operation rounds as TensorFlow's `fake_quant_ops_functor.h`: a symmetric range is halfway
    between two zero points.
    """
    first, last = (1.0 if narrow else 0.0), float(2**bits - 1)
    scale = b.binary("divide", b.subtract(high, low), last - first)
    zero = b.subtract(b.like(first, low.shape), b.divide(low, scale))
    nudged = b.emit("round-nearest-afz", zero)
    nudged = b.clamp(b.like(first, low.shape), nudged, b.like(last, low.shape))
    lowest = b.multiply(b.subtract(b.like(first, low.shape), nudged), scale)
    highest = b.multiply(b.subtract(b.like(last, low.shape), nudged), scale)
    return lowest, highest, scale


class _Limits(NamedTuple):
    """What numbers are quantised to, of the shape of what is quantised.

    Attributes:
        lowest: the smallest number.
        highest: the largest number.
        scale: the step between two numbers.
        is_empty: pred, whether the range was given as 0 to 0: everything becomes 0 then; None for
            a range that attributes give, which TensorFlow checks.
    """

    lowest: Instruction
    highest: Instruction
    scale: Instruction
    is_empty: Instruction | None


def _limits(op: Op, first: int) -> _Limits:
    b = op.b
    x = op.tensor(first)
    is_empty: Instruction | None = None
    if len(op) > first + 1:
        low, high = op.tensor(first + 1), op.tensor(first + 2)
        nothing = b.zeros(low.shape)
        both = (b.compare(end, nothing, direction="EQ") for end in (low, high))
        is_empty = b.spread(b.and_(*both), x.shape.dims)
    else:
        low, high = (b.scalar(float(op.attribute(name)), x.shape.dtype) for name in ("min", "max"))
    bits, narrow = int(op.attribute("num_bits", 8)), bool(op.attribute("narrow_range", False))
    lowest, highest, scale = (
        b.spread(part, x.shape.dims) for part in _nudged(b, low, high, bits, narrow)
    )
    return _Limits(lowest, highest, scale, is_empty)


def _fake_quantised(op: Op) -> Value:
    b, x = op.b, op.tensor(0)
    lowest, highest, scale, is_empty = _limits(op, 0)
    per_step = b.divide(b.like(1, x.shape), scale)
    zero = b.floor(b.binary("add", b.multiply(b.negate(lowest), per_step), 0.5))
    held = b.subtract(b.clamp(lowest, x, highest), lowest)
    steps = b.subtract(b.multiply(held, per_step), zero)
    found = b.multiply(b.floor(b.binary("add", steps, 0.5)), scale)
    return found if is_empty is None else b.select(is_empty, b.zeros(x.shape), found)


def _fake_quantised_gradient(op: Op) -> Value | tuple[Value, ...]:
    """Gradient, inputs[, min, max]: passed on inside the range, given to the limits outside."""
    b = op.b
    gradient, x = op.tensor(0), op.tensor(1)
    lowest, highest, _, is_empty = _limits(op, 1)
    below = b.compare(x, lowest, direction="LT")
    above = b.compare(x, highest, direction="GT")
    zero = b.zeros(x.shape)
    # A NaN is in no range.
    from_lowest = b.compare(x, lowest, direction="GE")
    to_highest = b.compare(x, highest, direction="LE")
    inside = b.select(b.and_(from_lowest, to_highest), gradient, zero)
    if is_empty is None:
        return inside
    inside = b.select(is_empty, gradient, inside)
    rank = op.rank(2)
    axes = tuple(range(x.shape.rank - rank))
    return (
        inside,
        b.reduced("add", b.select(below, gradient, zero), axes),
        b.reduced("add", b.select(above, gradient, zero), axes),
    )


RULES: dict[str, Rule] = {
    "AdjustContrastv2": _adjust_contrast,
    "AdjustHue": _adjust_hue,
    "AdjustSaturation": _adjust_saturation,
    **dict.fromkeys(
        ("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel"),
        _fake_quantised,
    ),
    **dict.fromkeys(
        (
            "FakeQuantWithMinMaxArgsGradient",
            "FakeQuantWithMinMaxVarsGradient",
            "FakeQuantWithMinMaxVarsPerChannelGradient",
        ),
        _fake_quantised_gradient,
    ),
    "HSVToRGB": _hsv_to_rgb,
    "RGBToHSV": _rgb_to_hsv,
}
