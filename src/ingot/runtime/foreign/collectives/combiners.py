# SPDX-License-Identifier: Apache-2.0
"""Combiners: native functions that fold two parts of devices, element by element.

Each is `void f(ptr target, ptr a, ptr b, i64 bytes)`: target = a op b, with the operands in this
order and one rounding, as a kernel of that op has it. The target may be `a`. Each is a library of
its own, made when a program first needs it. What has none is exchanged, and a kernel folds it
(`semantics.device_groups.is_combined_by_exchange`).
"""

from __future__ import annotations

from functools import cache

from ingot.hlo.dtype import DType, dtype
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import Library, link_object
from ingot.llvm.math.half import narrow, widen
from ingot.llvm.target import TargetSpec
from ingot.llvm.values import Value

_SYMBOL = "ingot_combine"
_FLOATS = {"bf16": lt.BF16, "f16": lt.F16, "f32": lt.F32, "f64": lt.F64}
_PARTS = {"c64": "f32", "c128": "f64"}
"""Types whose sums are those of their parts."""
_INTEGERS = {1: lt.I8, 2: lt.I16, 4: lt.I32, 8: lt.I64}
"""By bytes: a predicate is a byte."""
_METHODS = {"add": "add", "multiply": "mul", "and": "and_", "or": "or_", "xor": "xor"}
_EXTREMA = {"maximum": "max", "minimum": "min"}
_VECTOR_BYTES = 128


def combiner(opcode: str, element: str) -> int:
    """Return the address of the function for an opcode and an element type of HLO."""
    return _library(opcode, _PARTS.get(element, element)).address(_SYMBOL)


@cache
def _library(opcode: str, element: str) -> Library:
    module, target = ModuleBuilder(f"ingot_{opcode}_{element}"), TargetSpec.host()
    params = [("target", lt.PTR), ("a", lt.PTR), ("b", lt.PTR), ("bytes", lt.I64)]
    f = module.function(_SYMBOL, lt.VOID, params)
    _emit(f, opcode, dtype(element), target.has_f16c)
    f.ret()
    return link_object([compile_object(module.text(), target)], {})


def _emit(f: FunctionBuilder, opcode: str, element: DType, has_f16c: bool) -> None:
    """Emit a loop over vectors and one over the elements that are left."""
    target, a, b, size = f.params
    type, width = _FLOATS.get(element.name) or _INTEGERS[element.bytes], element.bytes
    whole = f.and_(size, f.const(lt.I64, -_VECTOR_BYTES))

    def loop(of: lt.Type, low: Value, high: Value, step: int) -> None:
        def body(at: Value) -> list[Value]:
            left, right = (f.load(of, f.gep(base, at), width) for base in (a, b))
            f.store(_combined(f, opcode, element, left, right, has_f16c), f.gep(target, at), width)
            return []

        f.for_range(high, body, start=low, step=step)

    loop(lt.vector(type, _VECTOR_BYTES // width), f.const(lt.I64, 0), whole, _VECTOR_BYTES)
    loop(type, whole, size, width)


def _combined(
    f: FunctionBuilder, opcode: str, element: DType, left: Value, right: Value, has_f16c: bool
) -> Value:
    """Return `left op right`, rounded once: of 16-bit floats as f32, which loses nothing."""
    half = left.type.element if element.is_float and element.bits == 16 else None
    if half is not None:
        left, right = (widen(f, each, has_f16c) for each in (left, right))
    if opcode in _METHODS:
        result = getattr(f, _METHODS[opcode])(left, right)
    else:
        word = _EXTREMA[opcode]
        sign = "s" if element.is_signed else "u"
        name = f"llvm.{word}imum" if element.is_float else f"llvm.{sign}{word}"
        result = f.intrinsic(name, left.type, [left, right])
    return result if half is None else narrow(f, result, half, has_f16c)
