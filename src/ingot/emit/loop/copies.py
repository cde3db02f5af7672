# SPDX-License-Identifier: Apache-2.0
"""Rows that are only copied: the C library's copy moves a run of elements.

Asked by loops along the vector axis (`body`, `pieces`). Concatenations, slices and other moves
of long rows are nothing but copies: the C library's are as fast as vectors, and no code at all.

Invariant: elements are copied as they are in memory, so every bit stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.emit.values.indices import IndexValue
from ingot.emit.values.types import memory_type
from ingot.emit.values.values import ValueEmitter
from ingot.hlo.dim import Dim
from ingot.kernel.expr import walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import LoopKernel, Pass, Store
from ingot.kernel.loop.collapse import CHOICES
from ingot.kernel.schedule.loop_schedule import InLanes, LoopSchedule, Pieces
from ingot.kernel.schedule.pieces import narrowed
from ingot.llvm import types as lt
from ingot.llvm.values import Value

LONG_BYTES = 1024
"""Runs from here on are worth a call."""


def only_copies(kernel: LoopKernel, schedule: LoopSchedule) -> bool:
    """Whether a kernel is nothing but copies of long runs, in every piece."""
    axis = schedule.vector_axis
    if axis is None or not isinstance(schedule.strategy, InLanes | Pieces):
        return False
    if not isinstance(axis.extent, int) or any(e.op not in CHOICES for e in walk(kernel.exprs)):
        return False
    if isinstance(schedule.strategy, InLanes):
        return is_copied(kernel.passes, axis.name, axis.extent)
    for known in schedule.strategy.ranges():
        first, last = known[axis.name]
        passes = [narrowed(item, known) for item in kernel.passes]
        if not is_copied(passes, axis.name, last + 1 - first):
            return False
    return True


def is_copied(passes: Sequence[Pass], axis: str, length: int | Dim) -> bool:
    """Whether all that passes do along `axis` is to copy runs of `length` elements.

    Runs of symbolic lengths are taken for long ones.
    """
    return all(
        not item.axes
        and not item.reductions
        and all(_is_copy(store, axis, length) for store in item.stores)
        for item in passes
    )


def _is_copy(store: Store, axis: str, length: int | Dim) -> bool:
    load = store.value
    if load.op != "load" or load.args or store.values:
        return False
    if store.mask is not None or store.combiner is not None:
        return False
    steps = {coefficient(load.payload.index, axis), coefficient(store.index, axis)}
    is_long = isinstance(length, Dim) or length * memory_type(load.dtype).bytes >= LONG_BYTES
    return steps == {1} and is_long


def copy_runs(
    emitter: ValueEmitter,
    passes: Sequence[Pass],
    axis: str,
    bounds: tuple[IndexValue, IndexValue],
) -> None:
    """Copy what lies between the bounds along `axis`."""
    f = emitter.f
    low, high = bounds
    move = f.module.declare("memmove", lt.PTR, [lt.PTR, lt.PTR, lt.I64])
    emitter.names[axis] = low
    count = f.isub(high, low)

    def place(buffer: int, where: int | Dim, memory: lt.Type) -> Value:
        return f.gep(emitter.buffers[buffer], emitter.base_index(where, ()), memory)

    for item in passes:
        for store in item.stores:
            load = store.value
            memory = memory_type(load.dtype)
            to = place(store.buffer, store.index, memory)
            origin = place(load.payload.buffer, load.payload.index, memory)
            size = f.as_value(f.imul(count, memory.bytes))
            f.call(move, [to, origin, size])
