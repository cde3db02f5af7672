"""How element types lie in memory and in registers.

Invariant: a register value is exactly representable in its element type. Narrow floats (bf16, f16)
are held as f32 and rounded after every op, so results do not depend on what fused; pred is i1 in
registers and a byte in memory.
"""

from __future__ import annotations

from ingot.hlo.dtype import BF16, F16, F32, F64, PRED, DType
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import Type, vector
from ingot.llvm.values import Value
from ingot.support.diagnostics import UnsupportedError

_INTEGER = {8: lt.I8, 16: lt.I16, 32: lt.I32, 64: lt.I64}


def memory_type(element: DType) -> Type:
    """Return the LLVM type of one element in memory.

    Raises:
        UnsupportedError: the CPU backend has no code for the type.
    """
    if element is PRED:
        return lt.I8
    if element is F32:
        return lt.F32
    if element is F64:
        return lt.F64
    if element is F16:
        return lt.F16
    if element is BF16:
        return lt.I16
    if element.is_integer and element.bits in _INTEGER:
        return _INTEGER[element.bits]
    raise UnsupportedError(
        f"the CPU backend has no code for element type {element}",
        code="INGOT0320",
        hint="convert to f32, f64, bf16, f16, pred or an integer of 8 to 64 bits first",
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


def widen(f: FunctionBuilder, value: Value, element: DType) -> Value:
    """Return the register value of what was loaded from memory."""
    lanes = value.type.lanes
    if element is PRED:
        return f.icmp("ne", value, f.zero(value.type))
    if element is F16:
        return f.fpext(value, vector(lt.F32, lanes))
    if element is BF16:
        wide = f.zext(value, vector(lt.I32, lanes))
        shifted = f.shl(wide, f.const(wide.type, 16))
        return f.bitcast(shifted, vector(lt.F32, lanes))
    return value


def narrow(f: FunctionBuilder, value: Value, element: DType) -> Value:
    """Return what is stored in memory for a register value."""
    lanes = value.type.lanes
    if element is PRED:
        return f.zext(value, vector(lt.I8, lanes))
    if element is F16:
        return f.fptrunc(value, vector(lt.F16, lanes))
    if element is BF16:
        bits = f.bitcast(value, vector(lt.I32, lanes))
        return f.trunc(f.lshr(bits, f.const(bits.type, 16)), vector(lt.I16, lanes))
    return value


def round_to(f: FunctionBuilder, value: Value, element: DType) -> Value:
    """Return an f32 value rounded to a narrow float type (nearest even), still as f32."""
    lanes = value.type.lanes
    if element is F16:
        return f.fpext(f.fptrunc(value, vector(lt.F16, lanes)), value.type)
    if element is not BF16:
        return value
    # Round to nearest even on the bits; NaN keeps its sign and becomes quiet.
    bits = f.bitcast(value, vector(lt.I32, lanes))
    one = f.const(bits.type, 1)
    lowest = f.and_(f.lshr(bits, f.const(bits.type, 16)), one)
    rounded = f.add(bits, f.add(lowest, f.const(bits.type, 0x7FFF)))
    quiet = f.or_(bits, f.const(bits.type, 0x400000))
    chosen = f.select(f.fcmp("uno", value, value), quiet, rounded)
    kept = f.and_(chosen, f.const(bits.type, -65536))
    return f.bitcast(kept, value.type)
