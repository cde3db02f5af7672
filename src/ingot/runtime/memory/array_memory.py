# SPDX-License-Identifier: Apache-2.0
"""NumPy's view of our allocator: the four functions of a NumPy memory handler, native.

NumPy calls `ingot_array_free` when an output array dies, and the others when it is resized
(`ndarray.resize`). Invariant: every block that they get came from `ingot_allocate`, so its header
has its capacity, and the size that NumPy passes is not needed.

Source: NEP 49, numpy/core/include/numpy/ndarraytypes.h (PyDataMemAllocator).
"""

from __future__ import annotations

from ingot.native.functions import exported, symbol_of
from ingot.native.operations import memcpy, memset
from ingot.native.pointers import Pointer
from ingot.native.types import i64
from ingot.runtime.memory.allocator import allocate, block_of, free


@exported("ingot_array_malloc")
def array_malloc(context: Pointer | None, size: i64) -> Pointer | None:
    """Return new memory, or null."""
    return allocate(size)


@exported("ingot_array_calloc")
def array_calloc(context: Pointer | None, count: i64, item: i64) -> Pointer | None:
    """Return new memory of zeros, or null; NumPy has checked that the product does not overflow."""
    data = allocate(count * item)
    if data is not None:
        memset(data, 0, count * item)
    return data


@exported("ingot_array_realloc")
def array_realloc(context: Pointer | None, old: Pointer, size: i64) -> Pointer | None:
    """Return memory of another size with the same bytes, or null."""
    data = allocate(size)
    if data is None:
        return None
    capacity = block_of(old).capacity
    memcpy(data, old, capacity if capacity < size else size)
    free(old)
    return data


@exported("ingot_array_free")
def array_free(context: Pointer | None, data: Pointer | None, size: i64) -> None:
    """Give memory back."""
    free(data)


HANDLER_FUNCTIONS = tuple(map(symbol_of, (array_malloc, array_calloc, array_realloc, array_free)))
"""The exported names, in the order of PyDataMemAllocator's fields after `ctx`."""
