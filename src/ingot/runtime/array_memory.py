# SPDX-License-Identifier: Apache-2.0
"""NumPy's view of our allocator, emitted: the four functions of a NumPy memory handler.

NumPy calls `ingot_array_free` when an output array dies, and the others if somebody resizes it
(`ndarray.resize`). Invariant: every block they see came from `ingot_allocate`, so its header says
its capacity and NumPy's own idea of the size is not needed.

Source: NEP 49, numpy/core/include/numpy/ndarraytypes.h (PyDataMemAllocator).
"""

from __future__ import annotations

from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I64, PTR, VOID
from ingot.llvm.values import Value, zero
from ingot.runtime.allocator import AllocatorFunctions
from ingot.runtime.records import BLOCK, BLOCK_HEADER_BYTES

HANDLER_FUNCTIONS = (
    "ingot_array_malloc",
    "ingot_array_calloc",
    "ingot_array_realloc",
    "ingot_array_free",
)
"""The exported names, in the order of PyDataMemAllocator's fields after `ctx`."""


def emit_array_memory(module: ModuleBuilder, allocator: AllocatorFunctions) -> None:
    """Add the functions of `HANDLER_FUNCTIONS` to `module`."""
    malloc, calloc, realloc, free = HANDLER_FUNCTIONS
    f = module.function(malloc, PTR, [("context", PTR), ("size", I64)])
    f.ret(f.call(allocator.allocate, [f.params[1]]))

    f = module.function(calloc, PTR, [("context", PTR), ("count", I64), ("item", I64)])
    # NumPy has checked that the product does not overflow.
    size = f.mul(f.params[1], f.params[2])
    data = f.call(allocator.allocate, [size])
    _return_if_null(f, data)
    f.memset(data, 0, size)
    f.ret(data)

    f = module.function(realloc, PTR, [("context", PTR), ("data", PTR), ("size", I64)])
    _, old, size = f.params
    data = f.call(allocator.allocate, [size])
    _return_if_null(f, data)
    capacity = BLOCK.load(f, f.gep(old, -BLOCK_HEADER_BYTES), "capacity")
    f.memcpy(data, old, f.as_value(f.imin(capacity, size)))
    f.call(allocator.free, [old])
    f.ret(data)

    f = module.function(free, VOID, [("context", PTR), ("data", PTR), ("size", I64)])
    f.call(allocator.free, [f.params[1]])
    f.ret()


def _return_if_null(f: FunctionBuilder, data: Value) -> None:
    f.if_(f.icmp("eq", data, zero(PTR)), lambda: f.ret(data), likely=False)
