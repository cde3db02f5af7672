# SPDX-License-Identifier: Apache-2.0
"""The functions that a WebAssembly module needs besides those of `glue`.

They are arithmetic of 128 bits, which LLVM calls by the names of its runtime library (for the
reduction of large angles), moves of memory, and the caller's allocator: `S_allocate` and `S_free`.

Source: LLVM's compiler-rt, `multi3.c`, `ashlti3.c`, `lshrti3.c`.
"""

from __future__ import annotations

from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I1, I32, I64, PTR, VOID
from ingot.llvm.values import FunctionRef, Value

MEMORY_FUNCTIONS = ("allocate", "free")
_ALIGNMENT = 64


def emit_memory_functions(
    module: ModuleBuilder, symbol: str, allocate: FunctionRef, free: FunctionRef
) -> None:
    """Add `ptr S_allocate(i32 bytes)`, null if there is no memory, and `void S_free(ptr)`."""
    f = module.function(f"{symbol}_allocate", PTR, [("bytes", I32)])
    f.ret(f.call(allocate, [f.const(I64, _ALIGNMENT), f.zext(f.params[0], I64)]))
    f = module.function(f"{symbol}_free", VOID, [("data", PTR)])
    f.call(free, [f.params[0]])
    f.ret()


def emit_wide_arithmetic(module: ModuleBuilder) -> None:
    """Add `__multi3`, `__ashlti3` and `__lshrti3`; each writes two words of 64 bits."""
    words = [("result", PTR), ("low", I64), ("high", I64)]
    f = module.function("__multi3", VOID, [*words, ("other_low", I64), ("other_high", I64)])
    result, low, high, other_low, other_high = f.params
    product, carried = _product(f, low, other_low)
    crossed = f.add(f.mul(low, other_high), f.mul(high, other_low))
    _store(f, result, product, f.add(carried, crossed))
    for name, is_left in (("__ashlti3", True), ("__lshrti3", False)):
        f = module.function(name, VOID, [*words, ("count", I32)])
        _shift(f, is_left)


def emit_memory_moves(module: ModuleBuilder) -> None:
    """Add `memmove` as kernels call it: its size has 64 bits. It is one instruction."""
    f = module.function("memmove", PTR, [("target", PTR), ("source", PTR), ("bytes", I64)])
    f.intrinsic("llvm.memmove", VOID, [*f.params, f.const(I1, False)])
    f.ret(f.params[0])


def _store(f: FunctionBuilder, result: Value, low: Value, high: Value) -> None:
    f.store(low, result, 8)
    f.store(high, f.gep(result, 8), 8)
    f.ret()


def _product(f: FunctionBuilder, a: Value, b: Value) -> tuple[Value, Value]:
    """Return the low and the high word of a product of two words."""
    half, mask = f.const(I64, 32), f.const(I64, 0xFFFFFFFF)
    a0, a1, b0, b1 = (f.and_(a, mask), f.lshr(a, half), f.and_(b, mask), f.lshr(b, half))
    low, first, second, high = (f.mul(a0, b0), f.mul(a1, b0), f.mul(a0, b1), f.mul(a1, b1))
    middle = f.add(f.add(f.lshr(low, half), f.and_(first, mask)), f.and_(second, mask))
    carried = f.add(f.add(f.lshr(first, half), f.lshr(second, half)), f.lshr(middle, half))
    return f.or_(f.shl(middle, half), f.and_(low, mask)), f.add(high, carried)


def _shift(f: FunctionBuilder, is_left: bool) -> None:
    result, low, high, short_count = f.params
    near, far = (low, high) if is_left else (high, low)
    shift, back = (f.shl, f.lshr) if is_left else (f.lshr, f.shl)
    count = f.zext(short_count, I64)
    none, bits = f.const(I64, 0), f.const(I64, 64)

    def written(first: Value, second: Value) -> None:
        _store(f, result, *((first, second) if is_left else (second, first)))

    f.if_(f.icmp("eq", count, none), lambda: written(near, far))
    is_far = f.icmp("uge", count, bits)
    f.if_(is_far, lambda: written(none, shift(near, f.sub(count, bits))))
    moved = f.or_(shift(far, count), back(near, f.sub(bits, count)))
    written(shift(near, count), moved)
