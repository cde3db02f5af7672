# SPDX-License-Identifier: Apache-2.0
"""The allocator of an artifact: the C library's, or one of its own.

`glue` uses it. WebAssembly has no C library: its module grows its memory, and keeps freed blocks in
a list for requests that fit. `S_allocate` and `S_free` are that allocator for the caller, too, for
arguments and results.

Invariant: blocks are aligned to 64 bytes; memory grows and never shrinks.
"""

from __future__ import annotations

from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.types import I32, I64, PTR, VOID
from ingot.llvm.values import FunctionRef, Value, zero

_HEADER_BYTES = 64
_PAGE_BITS = 16


def emit_allocator(module: ModuleBuilder) -> tuple[FunctionRef, FunctionRef]:
    """Return `ptr aligned_alloc(i64 alignment, i64 bytes)` and `void free(ptr)` of a module."""
    if module.architecture != "wasm":
        allocate = module.declare("aligned_alloc", PTR, [I64, I64])
        return allocate, module.declare("free", VOID, [PTR])
    return _emit_allocate(module), _emit_free(module)


def _emit_allocate(module: ModuleBuilder) -> FunctionRef:
    """Take the first block of the list that is large enough, or else grow the memory."""
    free = module.global_text("free_list", "internal global ptr null, align 8")
    params = [("alignment", I64), ("bytes", I64)]
    f = module.function("ingot_aligned_alloc", PTR, params, linkage="internal")
    size = f.params[1]

    def is_short(values: list[Value]) -> Value:
        (link,) = values
        block = f.load(PTR, link, 8)

        def compare() -> list[Value]:
            return [f.icmp("ult", f.load(I64, block, 8), size)]

        end = f.icmp("eq", block, zero(PTR))
        return f.if_(end, lambda: [f.as_condition(False)], compare)[0]

    def following(values: list[Value]) -> list[Value]:
        return [f.gep(f.load(PTR, values[0], 8), 8)]

    (link,) = f.while_([free], is_short, following)
    block = f.load(PTR, link, 8)

    def take() -> None:
        f.store(f.load(PTR, f.gep(block, 8), 8), link, 8)
        f.ret(f.gep(block, _HEADER_BYTES))

    f.if_(f.icmp("ne", block, zero(PTR)), take)
    whole = f.add(size, f.const(I64, _HEADER_BYTES + (1 << _PAGE_BITS) - 1))
    pages = f.trunc(f.lshr(whole, f.const(I64, _PAGE_BITS)), I32)
    before = f.intrinsic("llvm.wasm.memory.grow", I32, [f.const(I32, 0), pages])
    f.if_(f.icmp("eq", before, f.const(I32, -1)), lambda: f.ret(zero(PTR)))
    start = f.inttoptr(f.shl(before, f.const(I32, _PAGE_BITS)), PTR)
    room = f.sub(f.shl(f.zext(pages, I64), f.const(I64, _PAGE_BITS)), f.const(I64, _HEADER_BYTES))
    f.store(room, start, 8)
    f.ret(f.gep(start, _HEADER_BYTES))
    return f.reference


def _emit_free(module: ModuleBuilder) -> FunctionRef:
    """Put a block at the head of the list; null is allowed."""
    free = module.global_text("free_list", "internal global ptr null, align 8")
    f = module.function("ingot_free", VOID, [("data", PTR)], linkage="internal")
    (data,) = f.params
    f.if_(f.icmp("eq", data, zero(PTR)), lambda: f.ret())
    block = f.gep(data, -_HEADER_BYTES)
    f.store(f.load(PTR, free, 8), f.gep(block, 8), 8)
    f.store(block, free, 8)
    f.ret()
    return f.reference
