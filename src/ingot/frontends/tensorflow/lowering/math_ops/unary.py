# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops of one operand, and the gradients of those that have an op of their own.

Most rows are an HLO opcode; the rest are a few instructions, written as TensorFlow's kernels
compute them. Gradient ops take (y, dy) or, where noted, (x, dy).
"""

from __future__ import annotations

from ingot.frontends.building.complex_parts import complex_of, pairs_of
from ingot.frontends.building.products import conjugate
from ingot.frontends.tensorflow.lowering.context.op import OfTwo, Op, Rule, of_operand, of_operands
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Value
from ingot.hlo.dtype import C64, F32, F64, PRED
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.semantics.assertions import emit_assertion

OPCODES = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh",
    "Atanh": "atanh", "Ceil": "ceil", "ComplexAbs": "abs", "Cos": "cosine", "Cosh": "cosh",
    "Erf": "erf", "Erfc": "erfc", "Exp": "exponential", "Expm1": "exponential-minus-one",
    "Floor": "floor", "Imag": "imag", "Invert": "not", "Log": "log", "Log1p": "log-plus-one",
    "LogicalNot": "not", "Neg": "negate", "PopulationCount": "popcnt", "Real": "real",
    "Rint": "round-nearest-even", "Rsqrt": "rsqrt", "Sigmoid": "logistic", "Sign": "sign",
    "Sin": "sine", "Sinh": "sinh", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
}  # fmt: skip


def _opcode(opcode: str) -> Rule:
    return lambda op: op.b.emit(opcode, op.tensor(0))


def _zero_stays(compute: OfTwo) -> Rule:
    """Compute from (y, dy), but 0 where dy is 0, whatever y is: an infinite y gives no NaN."""

    def rule(op: Op) -> Value:
        b, y, dy = op.b, op.tensor(0), op.tensor(1)
        return b.select(b.compared("EQ", dy, 0), b.zeros(dy.shape), compute(b, y, dy))

    return rule


def _population_count(op: Op) -> Value:
    return op.b.convert_to(op.b.popcnt(op.tensor(0)), op.result())


def _round(b: TensorBuilder, x: Instruction) -> Instruction:
    return b.round_nearest_even(x) if x.shape.dtype.is_float else x


def _reciprocal(b: TensorBuilder, x: Instruction) -> Instruction:
    return b.divide(b.like(1, x.shape), x)


def _angle(b: TensorBuilder, x: Instruction) -> Instruction:
    return b.atan2(b.imag(x), b.real(x))


def _atan(b: TensorBuilder, x: Instruction) -> Instruction:
    return b.atan2(x, b.like(1, x.shape))


def _is_nan(b: TensorBuilder, x: Instruction) -> Instruction:
    return b.compare(x, x, direction="NE")


def _is_inf(b: TensorBuilder, x: Instruction) -> Instruction:
    return b.compared("EQ", b.abs(x), float("inf"))


def softplus(b: TensorBuilder, x: Instruction) -> Instruction:
    """log(1 + exp(x)), without overflow and exact at both ends."""
    zero = b.zeros(x.shape)
    return b.add(b.maximum(x, zero), b.log_plus_one(b.exponential(b.negate(b.abs(x)))))


def _softsign(b: TensorBuilder, x: Instruction) -> Instruction:
    return b.divide(x, b.binary("add", b.abs(x), 1))


def _inverse_gradient(b: TensorBuilder, y: Instruction, dy: Instruction) -> Instruction:
    y = conjugate(b, y)
    return b.negate(b.multiply(b.multiply(dy, y), y))


def _sqrt_gradient(b: TensorBuilder, y: Instruction, dy: Instruction) -> Instruction:
    return b.divide(b.binary("multiply", dy, 0.5), conjugate(b, y))


def _rsqrt_gradient(b: TensorBuilder, y: Instruction, dy: Instruction) -> Instruction:
    y = conjugate(b, y)
    cube = b.multiply(b.multiply(y, y), y)
    return b.multiply(b.binary("multiply", dy, -0.5), cube)


def _sigmoid_gradient(b: TensorBuilder, y: Instruction, dy: Instruction) -> Instruction:
    return b.multiply(b.multiply(dy, y), b.subtract(b.like(1, y.shape), y))


def _tanh_gradient(b: TensorBuilder, y: Instruction, dy: Instruction) -> Instruction:
    return b.multiply(dy, b.subtract(b.like(1, y.shape), b.multiply(y, y)))


def _softplus_gradient(b: TensorBuilder, dy: Instruction, x: Instruction) -> Instruction:
    return b.multiply(dy, b.logistic(x))


def _softsign_gradient(b: TensorBuilder, dy: Instruction, x: Instruction) -> Instruction:
    bottom = b.binary("add", b.abs(x), 1)
    return b.divide(dy, b.multiply(bottom, bottom))


def _reinterpret(op: Op) -> Value:
    """Bitcast: to a narrower type adds a last dimension, to a wider one takes it away."""
    operand, target = op.tensor(0), op.element("type")
    source = operand.shape.dtype
    dims = operand.shape.dims
    if source.bits > target.bits:
        dims = (*dims, source.bits // target.bits)
    elif source.bits < target.bits:
        dims = dims[:-1]
    shape = operand.shape.with_dtype(target).with_dims(dims)
    if source is target:
        return operand
    if source.is_complex == target.is_complex:
        return op.b.emit("bitcast-convert", operand, shape=shape)
    return _bits_of_parts(op.b, operand, shape)


def _bits_of_parts(b: TensorBuilder, operand: Instruction, shape: Shape) -> Instruction:
    """Return complex numbers as real ones or the reverse: HLO's bitcast-convert does neither."""
    if operand.shape.dtype.is_complex:
        return b.reinterpret(pairs_of(b, operand), shape)
    part = F32 if shape.dtype is C64 else F64
    return complex_of(b, b.reinterpret(operand, Shape.array(part, (*shape.dims, 2))))


def convert(b: TensorBuilder, operand: Instruction, op: Op) -> Instruction:
    """Cast to the output type: complex to real takes the real part, to bool compares with 0."""
    target = op.result()
    source = operand.shape.dtype
    if source.is_complex and not target.is_complex and target is not PRED:
        operand = b.real(operand)
    if target is PRED and source is not PRED:
        return b.compared("NE", operand, 0)
    return b.convert_to(operand, target)


def _cast(op: Op) -> Value:
    return convert(op.b, op.tensor(0), op)


def _complex(op: Op) -> Value:
    return op.b.complex(*op.b.together(op.tensor(0), op.tensor(1)))


def _check_numerics(op: Op) -> Value:
    operand = op.tensor(0)
    finite = op.b.emit("is-finite", operand)
    everywhere = op.b.reduced("and", finite, range(op.rank(0)))
    message = str(op.attribute("message", ""))
    emit_assertion(op.b, everywhere, f"{message} : Tensor had NaN or Inf values".lstrip(" :"))
    return operand


RULES: dict[str, Rule] = {
    **{name: _opcode(opcode) for name, opcode in OPCODES.items() if name != "PopulationCount"},
    "PopulationCount": _population_count,
    "Angle": of_operand(_angle),
    "Atan": of_operand(_atan),
    "Bitcast": _reinterpret,
    "Cast": _cast,
    "CheckNumerics": _check_numerics,
    "CheckNumericsV2": _check_numerics,
    "Complex": _complex,
    "Conj": of_operand(conjugate),
    "Inv": of_operand(_reciprocal),
    "InvGrad": _zero_stays(_inverse_gradient),
    "IsFinite": _opcode("is-finite"),
    "IsInf": of_operand(_is_inf),
    "IsNan": of_operand(_is_nan),
    "Reciprocal": of_operand(_reciprocal),
    "ReciprocalGrad": _zero_stays(_inverse_gradient),
    "Round": of_operand(_round),
    "RsqrtGrad": _zero_stays(_rsqrt_gradient),
    "SigmoidGrad": of_operands(_sigmoid_gradient),
    "Softplus": of_operand(softplus),
    "SoftplusGrad": of_operands(_softplus_gradient),
    "Softsign": of_operand(_softsign),
    "SoftsignGrad": of_operands(_softsign_gradient),
    "SqrtGrad": _zero_stays(_sqrt_gradient),
    "Square": of_operand(lambda b, x: b.multiply(x, x)),
    "TanhGrad": of_operands(_tanh_gradient),
}
