"""Uniformly quantised integers: value = (integer - zero point) * scale, per tensor or per axis.

Integers are brought from one scale to another in f32, rounded half up, as XLA does; TensorFlow's
own kernels multiply by a fixed-point factor there, which can differ by one where a value lies
half-way. Source: TensorFlow's `kernels/uniform_quant_ops/`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.frontends.tensorflow.lowering.matmul import dot
from ingot.frontends.tensorflow.lowering.op import Op, Rule
from ingot.frontends.tensorflow.lowering.values import Sizes, Value
from ingot.hlo.dtype import F32, S32, DType
from ingot.hlo.instruction import Instruction


@dataclass(frozen=True, slots=True)
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


def _dot(op: Op) -> Value:
    """Products of centred integers are summed exactly, then brought to the result's scale."""
    b = op.b
    scales = [_Scale.of(op, 2 + 2 * n, prefix) for n, prefix in enumerate(("lhs_", "rhs_"))]
    target = _Scale.of(op, 6, "output_")
    sides = [
        b.convert_to(scale.less_zero(b.convert_to(op.tensor(n), F32)), S32)
        for n, scale in enumerate(scales)
    ]
    total = b.convert_to(dot(b, sides[0], sides[1], ((1,), (0,))), F32)
    factors = (
        b.spread(scale.scales, total.shape.dims, (1,) if scale.scales.shape.rank else ())
        for scale in scales
    )
    for factor in factors:
        total = b.multiply(total, factor)
    return target.held(target.rounded(total), op.result())


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
    "UniformQuantizedDot": _dot,
    "UniformRequantize": _requantize,
}
