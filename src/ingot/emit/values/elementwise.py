# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops on register values: one table row per opcode, any lane count.

Semantics follow the StableHLO specification where LLVM leaves things undefined: division by zero,
shifts out of range, conversions out of range. A sum of a product is one fma where the target says
so (`TargetSpec.contracts`). Transcendental functions come from `llvm.math`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingot.emit.values import division, quotients
from ingot.emit.values.conversions import bitcast_convert, convert
from ingot.emit.values.types import complex_of, complex_part, round_result
from ingot.hlo.dtype import F16, PRED, DType
from ingot.kernel.expr import EXACT, Expr
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.math import MATH, half
from ingot.llvm.types import vector
from ingot.llvm.values import Value
from ingot.support.diagnostics import UnsupportedError

Row = Callable[["Op"], Value]


class Op:
    """One elementwise op being emitted: builder, operand values, element types, attributes."""

    __slots__ = ("args", "attributes", "dtype", "expr", "f", "fma", "is_constant_divisor", "source")

    def __init__(
        self,
        f: FunctionBuilder,
        args: tuple[Value, ...],
        expr: Expr,
        fma: bool,
    ) -> None:
        """Gather what a row needs of `expr`."""
        self.f = f
        self.args = args
        self.expr = expr
        self.attributes: Any = expr.payload
        self.dtype: DType = expr.dtype
        self.source: DType = expr.args[0].dtype if expr.args else expr.dtype
        self.is_constant_divisor = bool(expr.args) and _is_constant_divisor(expr.args[-1])
        self.fma = fma

    @property
    def x(self) -> Value:
        """The first operand."""
        return self.args[0]

    @property
    def y(self) -> Value:
        """The second operand."""
        return self.args[1]

    def const(self, value: Any) -> Value:
        """Return a constant of the first operand's type."""
        return self.f.const(self.x.type, value)


def emit_op(f: FunctionBuilder, expr: Expr, args: tuple[Value, ...], fma: bool) -> Value:
    """Emit an elementwise expression and return its value.

    Args:
        f: the function that it is added to.
        expr: the expression; its own operands are not looked at.
        args: the values of its operands, of equal lane counts.
        fma: whether products are fused with additions.

    Raises:
        UnsupportedError: INGOT0321 no row for the opcode.
    """
    op = Op(f, args, expr, fma)
    row = ROWS.get(expr.op)
    if row is not None:
        value = row(op)
    elif expr.op in MATH:
        value = MATH[expr.op](f, *args, fma=fma)
    else:
        raise UnsupportedError(f"there is no code for {expr.op}", code="INGOT0321")
    return value if expr.op in EXACT else round_result(f, value, expr.dtype, fma)


def _float_or_int(float_name: str, int_name: str, pred_name: str) -> Row:
    def row(op: Op) -> Value:
        if op.dtype is PRED:
            return getattr(op.f, pred_name)(op.x, op.y)
        if op.dtype.is_float:
            return getattr(op.f, float_name)(op.x, op.y)
        return getattr(op.f, int_name)(op.x, op.y)

    return row


def _is_constant_divisor(divisor: Expr) -> bool:
    """Whether LLVM divides lanes by shifts or by products that vectors have."""
    if divisor.op != "constant" or not divisor.dtype.is_integer:
        return False
    return divisor.dtype.bits < 64 or int(divisor.payload.value).bit_count() == 1


def _divide(op: Op) -> Value:
    if op.dtype.is_float:
        if op.fma and op.x.type.lanes > 1 and quotients.is_safe(op.expr):
            return quotients.divide(op.f, op.x, op.expr)
        return op.f.div(op.x, op.y)
    return division.divide(op.f, op.x, op.y, op.dtype, op.is_constant_divisor)


def _remainder(op: Op) -> Value:
    if op.dtype.is_float:
        return MATH["remainder"](op.f, op.x, op.y, fma=op.fma)
    return division.remainder(op.f, op.x, op.y, op.dtype, op.is_constant_divisor)


def _power(op: Op) -> Value:
    if op.dtype.is_float:
        return MATH["power"](op.f, op.x, op.y, fma=op.fma)
    return _integer_power(op)


def _integer_power(op: Op) -> Value:
    """Square and multiply over the exponent's bits; negative exponents give 1/x truncated."""
    f = op.f
    one, zero = op.const(1), op.const(0)
    result, base, exponent = one, op.x, op.y
    for _ in range(op.dtype.bits):
        odd = f.icmp("ne", f.and_(exponent, one), zero)
        result = f.select(odd, f.mul(result, base), result)
        base = f.mul(base, base)
        exponent = f.lshr(exponent, one)
    if not op.dtype.is_signed:
        return result
    minus_one = op.const(-1)
    odd = f.icmp("ne", f.and_(op.y, one), zero)
    of_minus_one = f.select(odd, minus_one, one)
    inverse = f.select(f.icmp("eq", op.x, minus_one), of_minus_one, zero)
    inverse = f.select(f.icmp("eq", op.x, one), one, inverse)
    return f.select(f.icmp("slt", op.y, zero), inverse, result)


def _extremum(word: str) -> Row:
    def row(op: Op) -> Value:
        f = op.f
        if op.dtype is PRED:
            return f.or_(op.x, op.y) if word == "max" else f.and_(op.x, op.y)
        if op.dtype.is_float and op.x.type.lanes == 1 and f.module.vector_bits >= 512:
            return _scalar_extremum(f, word, op.x, op.y)
        if op.dtype.is_float:
            # IEEE's, with +0 above -0; next to a constant LLVM needs no more than one vmaxps and
            # one blend for NaN.
            return f.intrinsic(f"llvm.{word}imum", op.x.type, [op.x, op.y])
        sign = "s" if op.dtype.is_signed else "u"
        return f.intrinsic(f"llvm.{sign}{word}", op.x.type, [op.x, op.y])

    return row


def _scalar_extremum(f: FunctionBuilder, word: str, x: Value, y: Value) -> Value:
    """Return what `llvm.maximum` gives, with half its instructions: vrange orders zeros itself."""
    register = vector(x.type, 128 // x.type.bits)
    kind = f.const(lt.I32, _RANGE[word])
    inside = [f.insert(f.undef(register), value, 0) for value in (x, y)]
    name = f"llvm.x86.avx512.mask.range.{'ss' if x.type is lt.F32 else 'sd'}"
    everywhere, rounding = f.const(lt.I8, 255), f.const(lt.I32, 4)
    found = f.intrinsic(name, register, [*inside, f.zero(register), everywhere, kind, rounding])
    return f.select(f.fcmp("uno", x, y), f.add(x, y), f.extract(found, 0))


_RANGE = {"max": 5, "min": 4}
"""The operation of vrange; the result keeps its sign (Intel's manual, VRANGESS)."""


def _shift(name: str) -> Row:
    def row(op: Op) -> Value:
        f = op.f
        bits = op.const(op.dtype.bits)
        inside = f.icmp("ult", op.y, bits)
        if name == "ashr":
            return f.ashr(op.x, f.select(inside, op.y, op.const(op.dtype.bits - 1)))
        # Poison where the amount is out of range, which is not chosen there.
        return f.select(inside, getattr(f, name)(op.x, op.y), op.const(0))

    return row


_FLOAT_PREDICATES = {"EQ": "oeq", "NE": "une", "GE": "oge", "GT": "ogt", "LE": "ole", "LT": "olt"}


def _compare(op: Op) -> Value:
    direction = op.attributes.direction
    if op.source.is_float and op.attributes.type != "TOTALORDER":
        return op.f.fcmp(_FLOAT_PREDICATES[direction], op.x, op.y)
    x, y = op.x, op.y
    signed = op.source.is_signed
    if op.source.is_float:
        x, y, signed = _total_order(op, x), _total_order(op, y), True
    word = direction.lower()
    if word not in ("eq", "ne"):
        word = ("s" if signed else "u") + word
    return op.f.icmp(word, x, y)


def _total_order(op: Op, value: Value) -> Value:
    """Return integers ordered as IEEE totalOrder orders the floats."""
    f = op.f
    bits = f.bitcast(value, vector(lt.I64 if op.source.bits == 64 else lt.I32, value.type.lanes))
    width = bits.type.element.bits
    sign = f.ashr(bits, f.const(bits.type, width - 1))
    return f.xor(bits, f.lshr(sign, f.const(bits.type, 1)))


def _clamp(op: Op) -> Value:
    low, value, high = op.args
    f = op.f
    if op.dtype.is_float:
        # The order of +0 and -0, and NaN of any operand, as maximum and minimum have them.
        raised = f.intrinsic("llvm.maximum", value.type, [low, value])
        return f.intrinsic("llvm.minimum", value.type, [raised, high])
    if op.dtype is PRED:
        return f.and_(f.or_(low, value), high)
    sign = "s" if op.dtype.is_signed else "u"
    raised = f.intrinsic(f"llvm.{sign}max", value.type, [low, value])
    return f.intrinsic(f"llvm.{sign}min", value.type, [raised, high])


def _abs(op: Op) -> Value:
    if op.dtype.is_float:
        return op.f.intrinsic("llvm.fabs", op.x.type, [op.x])
    return op.f.abs(op.x) if op.dtype.is_signed else op.x


def _sign(op: Op) -> Value:
    f = op.f
    if op.dtype.is_float:
        one = f.intrinsic("llvm.copysign", op.x.type, [op.const(1.0), op.x])
        passes = f.fcmp("ueq", op.x, op.const(0.0))
        return f.select(passes, op.x, one)
    zero, one = op.const(0), op.const(1)
    if not op.dtype.is_signed:
        return f.select(f.icmp("eq", op.x, zero), zero, one)
    negative = f.select(f.icmp("slt", op.x, zero), op.const(-1), one)
    return f.select(f.icmp("eq", op.x, zero), zero, negative)


def _leading_zeros(op: Op) -> Value:
    return op.f.intrinsic("llvm.ctlz", op.x.type, [op.x, op.f.const(lt.I1, False)])


def _is_finite(op: Op) -> Value:
    magnitude = op.f.intrinsic("llvm.fabs", op.x.type, [op.x])
    return op.f.fcmp("olt", magnitude, op.const(float("inf")))


def _real(op: Op) -> Value:
    return complex_part(op.f, op.x, 0) if op.source.is_complex else op.x


def _imag(op: Op) -> Value:
    return complex_part(op.f, op.x, 1) if op.source.is_complex else op.const(0.0)


def _reduce_precision(op: Op) -> Value:
    """Round to fewer exponent and mantissa bits. Source: XLA's EmitReducePrecisionIR."""
    f = op.f
    # An f16 is in its own bits here, for its denormals.
    x = half.narrow(f, op.x, lt.F16, op.fma) if op.dtype is F16 else op.x
    integer, mantissa, exponent = {
        lt.F16: (lt.I16, 10, 5), lt.F32: (lt.I32, 23, 8), lt.F64: (lt.I64, 52, 11),
    }[x.type.element]  # fmt: skip
    bits_type = vector(integer, x.type.lanes)
    keep, keep_exponent = op.attributes.mantissa_bits, op.attributes.exponent_bits
    if keep >= mantissa and keep_exponent >= exponent:
        return f.rounded(op.x)

    def number(value: int) -> Value:
        return f.const(bits_type, value)

    bits = f.bitcast(x, bits_type)
    if keep < mantissa:
        dropped = mantissa - keep
        lowest = f.and_(f.lshr(bits, number(dropped)), number(1))
        bits = f.add(bits, f.add(lowest, number((1 << (dropped - 1)) - 1)))
        bits = f.and_(bits, number(-(1 << dropped)))
    if keep_exponent < exponent:
        mask = ((1 << exponent) - 1) << mantissa
        bias, small_bias = (1 << (exponent - 1)) - 1, (1 << (keep_exponent - 1)) - 1
        most, least = (bias + small_bias) << mantissa, (bias - small_bias) << mantissa
        sign = f.and_(bits, number(-(1 << (mantissa + exponent))))
        field = f.and_(bits, number(mask))
        bits = f.select(f.icmp("ugt", field, number(most)), f.or_(sign, number(mask)), bits)
        bits = f.select(f.icmp("ule", field, number(least)), sign, bits)
    result = f.bitcast(bits, x.type)
    if op.dtype is F16:
        result = half.widen(f, result, op.fma)
    return f.select(f.fcmp("uno", op.x, op.x), op.x, result)


ROWS: dict[str, Row] = {
    "abs": _abs,
    "add": _float_or_int("contracted_add", "add", "or_"),
    "and": lambda op: op.f.and_(op.x, op.y),
    "bitcast-convert": lambda op: bitcast_convert(op.f, op.x, op.source, op.dtype, op.fma),
    "clamp": _clamp,
    "compare": _compare,
    "complex": lambda op: complex_of(op.f, op.x, op.y),
    "convert": lambda op: convert(op.f, op.x, op.source, op.dtype, op.fma),
    "copy": lambda op: op.x,
    "count-leading-zeros": _leading_zeros,
    "divide": _divide,
    "imag": _imag,
    "is-finite": _is_finite,
    "maximum": _extremum("max"),
    "minimum": _extremum("min"),
    "multiply": _float_or_int("contractible_mul", "mul", "and_"),
    "negate": lambda op: op.f.neg(op.x),
    "not": lambda op: op.f.not_(op.x),
    "or": lambda op: op.f.or_(op.x, op.y),
    "popcnt": lambda op: op.f.intrinsic("llvm.ctpop", op.x.type, [op.x]),
    "power": _power,
    "real": _real,
    "reduce-precision": _reduce_precision,
    "remainder": _remainder,
    "select": lambda op: op.f.select(*op.args),
    "shift-left": _shift("shl"),
    "shift-right-arithmetic": _shift("ashr"),
    "shift-right-logical": _shift("lshr"),
    "sign": _sign,
    "subtract": _float_or_int("contracted_sub", "sub", "xor"),
    "xor": lambda op: op.f.xor(op.x, op.y),
}
