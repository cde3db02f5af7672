# SPDX-License-Identifier: Apache-2.0
"""`convert` and `bitcast-convert` of register values, between any two element types.

Floats go to integers by truncation, held within range, NaN to 0; integers wrap; anything goes to
pred by comparison with zero. A minifloat is read and written as f32, exactly, and from f64 it is
rounded once; integers narrower than a byte go through s8 or u8.
"""

from __future__ import annotations

from ingot.emit.values.types import (
    is_minifloat,
    is_narrow,
    is_sub_byte,
    narrow,
    register_type,
    round_to,
    widen,
    wrap,
)
from ingot.hlo.dtype import F16, F32, F64, PRED, DType, dtype
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.math import minifloat
from ingot.llvm.math.saturating import to_integer
from ingot.llvm.types import vector
from ingot.llvm.values import Value


def convert(
    f: FunctionBuilder, value: Value, source: DType, target: DType, has_f16c: bool
) -> Value:
    """Return `value` of element type `source` as `target`."""
    if source is target:
        return value
    if is_minifloat(source) and target is PRED:
        return minifloat.is_not_zero(f, value, source.name)
    if is_minifloat(source):
        return convert(f, minifloat.widen(f, value, source.name), F32, target, has_f16c)
    if target.name == minifloat.UPPER_HALF and source is F16:
        return minifloat.narrow_f16(f, narrow(f, value, F16, has_f16c))
    if is_minifloat(target):
        single = value if source is F64 else convert(f, value, source, F32, has_f16c)
        return minifloat.narrow(f, single, target.name)
    if is_sub_byte(target):
        return _to_sub_byte(f, value, source, target, has_f16c)
    if source is PRED or target is PRED:
        return _with_pred(f, value, source, target)
    to = vector(register_type(target), value.type.lanes)
    if source.is_float:
        return _from_float(f, value, target, to, has_f16c)
    if target.is_float:
        converted = f.sitofp(value, to) if source.is_signed else f.uitofp(value, to)
        # Every float but the minifloats holds all integers of a byte.
        return converted if source.bits <= 8 else round_to(f, converted, target, has_f16c)
    return _between_integers(f, value, source, to)


def _with_pred(f: FunctionBuilder, value: Value, source: DType, target: DType) -> Value:
    zero = f.zero(vector(register_type(target), value.type.lanes))
    if target is PRED:
        if source.is_float:
            return f.fcmp("une", value, f.zero(value.type))
        return f.icmp("ne", value, f.zero(value.type))
    if target.is_float:
        return f.select(value, f.const(zero.type, 1.0), zero)
    return f.zext(value, zero.type)


def _to_sub_byte(
    f: FunctionBuilder, value: Value, source: DType, target: DType, has_f16c: bool
) -> Value:
    byte = dtype("s8" if target.is_signed else "u8")
    whole = convert(f, value, source, byte, has_f16c)
    if not source.is_float:
        return wrap(f, whole, target)
    sign = "s" if target.is_signed else "u"
    most = (1 << (target.bits - target.is_signed)) - 1
    held = f.intrinsic(f"llvm.{sign}min", whole.type, [whole, f.const(whole.type, most)])
    least = ~most if target.is_signed else 0
    return f.intrinsic(f"llvm.{sign}max", whole.type, [held, f.const(whole.type, least)])


def _from_float(
    f: FunctionBuilder, value: Value, target: DType, to: lt.Type, has_f16c: bool
) -> Value:
    if is_narrow(target):
        return round_to(f, value, target, has_f16c)
    if target.is_float:
        if value.type.element.bits < to.element.bits:
            return f.fpext(value, to)
        return value if value.type is to else f.fptrunc(value, to)
    return to_integer(f, value, to, is_signed=target.is_signed)


def _between_integers(f: FunctionBuilder, value: Value, source: DType, to: lt.Type) -> Value:
    have, want = value.type.element.bits, to.element.bits
    if have == want:
        return value
    if have > want:
        return f.trunc(value, to)
    return f.sext(value, to) if source.is_signed else f.zext(value, to)


def bitcast_convert(
    f: FunctionBuilder, value: Value, source: DType, target: DType, has_f16c: bool
) -> Value:
    """Return the bits of `value` as an element of a type of the same width."""
    lanes = value.type.lanes
    if source is PRED or is_narrow(source):
        value = narrow(f, value, source, has_f16c)
    if target is PRED or is_narrow(target):
        return widen(f, value, target, has_f16c)
    to = vector(register_type(target), lanes)
    return wrap(f, value if value.type is to else f.bitcast(value, to), target)
