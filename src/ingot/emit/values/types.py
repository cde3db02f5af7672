# SPDX-License-Identifier: Apache-2.0
"""How element types lie in memory and in registers.

Invariant: a register value is exactly representable in its element type. Narrow floats (bf16, f16)
are held as f32 and rounded after every op, so results do not depend on what fused; pred is i1 in
registers and a byte in memory. Conversions between f32 and narrow floats are `llvm.math.half`'s.
A complex number is an integer of its bits, real part lowest: kernels move it, take it apart
(`complex_part`) and put it together (`complex_of`); what computes on it was made real by the
complex expander.
"""

from __future__ import annotations

from ingot.hlo.dtype import BF16, C64, C128, F16, F32, F64, PRED, DType
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.math import half
from ingot.llvm.types import Type, vector
from ingot.llvm.values import Value
from ingot.support.diagnostics import UnsupportedError

_INTEGER = {8: lt.I8, 16: lt.I16, 32: lt.I32, 64: lt.I64}
_COMPLEX = {C64: lt.I64, C128: lt.I128}


def memory_type(element: DType) -> Type:
    """Return the LLVM type of one element in memory.

    Raises:
        UnsupportedError: there is no code for the type.
    """
    if element is PRED:
        return lt.I8
    if element is F32:
        return lt.F32
    if element is F64:
        return lt.F64
    if is_narrow(element):
        return lt.I16
    if element.is_integer or is_minifloat(element):
        return _INTEGER[max(8, element.bits)]
    if element in _COMPLEX:
        return _COMPLEX[element]
    raise UnsupportedError(
        f"there is no code for element type {element}",
        code="INGOT0320",
        hint="convert to f32, f64, bf16, f16, c64, c128, pred or an integer of 8 to 64 bits first",
    )


def register_type(element: DType) -> Type:
    """Return the LLVM type that holds one element in computation."""
    if element is PRED:
        return lt.I1
    if is_narrow(element):
        return lt.F32
    return memory_type(element)


def is_narrow(element: DType) -> bool:
    """Whether the type is computed in f32 and rounded."""
    return element is BF16 or element is F16


def is_minifloat(element: DType) -> bool:
    """Whether the type is a float of 8 bits or fewer, held as its bits."""
    return element.is_float and element.bits <= 8


def is_sub_byte(element: DType) -> bool:
    """Whether elements are fewer than 8 bits in a byte of their own."""
    return element.bits < 8 and element is not PRED


def wrap(f: FunctionBuilder, value: Value, element: DType) -> Value:
    """Return an `i8` with its low bits as an element of a type narrower than a byte."""
    if not is_sub_byte(element):
        return value
    if not element.is_signed:
        return f.and_(value, f.const(value.type, (1 << element.bits) - 1))
    unused = f.const(value.type, 8 - element.bits)
    return f.ashr(f.shl(value, unused), unused)


def widen(f: FunctionBuilder, value: Value, element: DType, has_f16c: bool) -> Value:
    """Return the register value of a value loaded from memory.

    The unused bits of a type narrower than a byte may hold anything in memory.
    """
    if element is PRED:
        return f.icmp("ne", value, f.zero(value.type))
    if is_narrow(element):
        return half.widen(f, f.bitcast(value, _float_type(value, element)), has_f16c)
    return wrap(f, value, element)


def narrow(f: FunctionBuilder, value: Value, element: DType, has_f16c: bool) -> Value:
    """Return the value in memory of a value in a register."""
    lanes = value.type.lanes
    if element is PRED:
        return f.zext(value, vector(lt.I8, lanes))
    if element is BF16:
        # Register values are rounded: the lower half is zero.
        bits = f.bitcast(value, vector(lt.I32, lanes))
        return f.trunc(f.lshr(bits, f.const(bits.type, 16)), vector(lt.I16, lanes))
    if element is F16:
        return f.bitcast(half.narrow(f, value, lt.F16, has_f16c), vector(lt.I16, lanes))
    return value


def accumulator_type(type: Type) -> Type:
    """Return the type in memory of an accumulator of a register type: a truth value is a byte."""
    return lt.I8 if type is lt.I1 else type


def round_to(f: FunctionBuilder, value: Value, element: DType, has_f16c: bool) -> Value:
    """Return a float `value` rounded to `element` (nearest even, once), held as an f32 or f64.

    Types that are not narrow floats are returned as they are. `has_f16c`: the target has
    instructions that convert f16.
    """
    if not is_narrow(element):
        return value
    to = _float_type(value, element).element
    rounds = half.narrow_f64 if value.type.element is lt.F64 else half.narrow
    return half.widen(f, rounds(f, value, to, has_f16c), has_f16c)


def round_result(f: FunctionBuilder, value: Value, element: DType, has_f16c: bool) -> Value:
    """Return the result of arithmetic on an element type as `round_to` does.

    Its NaN is one of its operands or made by the op: nothing stands in the lower half.
    """
    if element is BF16 and value.type.element is lt.F32:
        return half.round_to_bf16(f, value)
    return round_to(f, value, element, has_f16c)


def _float_type(value: Value, element: DType) -> Type:
    return value.type.with_element(lt.F16 if element is F16 else lt.BF16)


def complex_part(f: FunctionBuilder, value: Value, number: int) -> Value:
    """Return the real (`number` 0) or imaginary (1) parts of complex register values."""
    parts = f.bitcast(value, vector(part_type(value), 2 * value.type.lanes))
    return f.shuffle(parts, parts, range(number, parts.type.lanes, 2))


def complex_of(f: FunctionBuilder, real: Value, imaginary: Value) -> Value:
    """Return the complex register values of real and imaginary parts."""
    lanes = real.type.lanes
    order = [source for lane in range(lanes) for source in (lane, lanes + lane)]
    if lanes == 1:
        pair = f.undef(vector(real.type, 2))
        parts = f.insert(f.insert(pair, real, 0), imaginary, 1)
    else:
        parts = f.shuffle(real, imaginary, order)
    whole = lt.I128 if real.type.element is lt.F64 else lt.I64
    return f.bitcast(parts, vector(whole, lanes))


def part_type(value: Value) -> Type:
    """Return the type of the parts of complex register values."""
    return lt.F64 if value.type.element is lt.I128 else lt.F32
