# SPDX-License-Identifier: Apache-2.0
"""Calls of the C library's copy for long runs that are only copied (`kernel.schedule.copies`).

Used by loops along the vector axis (`body`, `cpu.emit.loop.pieces`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.emit.values.indices import IndexValue
from ingot.emit.values.types import memory_type
from ingot.emit.values.values import ValueEmitter
from ingot.hlo.dim import Dim
from ingot.kernel.ir import Pass
from ingot.llvm import types as lt
from ingot.llvm.values import Value


def copy_runs(
    emitter: ValueEmitter,
    passes: Sequence[Pass],
    axis: str,
    bounds: tuple[IndexValue, IndexValue],
) -> None:
    """Copy the elements between the bounds along `axis`."""
    f = emitter.f
    low, high = bounds
    move = f.module.declare("memmove", lt.PTR, [lt.PTR, lt.PTR, lt.I64])
    emitter.names[axis] = low
    count = f.isub(high, low)

    def address(buffer: int, where: int | Dim, memory: lt.Type) -> Value:
        return f.gep(emitter.buffers[buffer], emitter.base_index(where, ()), memory)

    for item in passes:
        for store in item.stores:
            load = store.value
            memory = memory_type(load.dtype)
            to = address(store.buffer, store.index, memory)
            origin = address(load.payload.buffer, load.payload.index, memory)
            size = f.as_value(f.imul(count, memory.bytes))
            f.call(move, [to, origin, size])
