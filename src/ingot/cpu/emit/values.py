"""Emission of expressions: values at one block of points of a kernel.

A `ValueEmitter` turns `Expr` into LLVM values. One axis may be the vector axis: what depends on it
has `lanes` lanes, everything else is scalar and is splat where it meets vectors. Values are
remembered per scope, so an expression is emitted once per loop level; `prepare` emits what a loop
does not change before the loop opens.

Invariant: with a tail mask, no lane outside the mask touches memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ingot.cpu.emit.elementwise import emit_op
from ingot.cpu.emit.indices import IndexEmitter, IndexValue
from ingot.cpu.emit.types import (
    is_minifloat,
    memory_type,
    narrow,
    register_type,
    round_to,
    widen,
)
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import PRED, DType
from ingot.kernel.expr import Expr, axis_names, make, walk
from ingot.kernel.ir import Combiner, Store
from ingot.kernel.lane_offsets import runs
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.math import CIRCLE, circle
from ingot.llvm.types import vector
from ingot.llvm.values import Value

FAR_BITS = (32, 64)
"""Elements that are read one by one where they lie far apart; of others LLVM does so anyway."""

MOST_RUNS = 4
"""Runs of lanes that are read or written piece by piece; more of them are gathered."""


class ValueEmitter(IndexEmitter):
    """Emits expressions into one function; see the module."""

    def __init__(
        self,
        f: FunctionBuilder,
        buffers: Mapping[int, Value],
        sizes: Mapping[str, IndexValue],
        fma: bool,
    ) -> None:
        """Emit into `f`; `buffers` are addresses by number, `sizes` the symbolic sizes."""
        super().__init__(f, sizes)
        self.buffers = dict(buffers)
        self.fma = fma
        self.far: frozenset[int] = frozenset()

    @property
    def has_f16c(self) -> bool:
        """Whether the target converts f16: every x86 CPU with FMA does, and every ARM CPU."""
        return self.fma

    # ---- expressions

    def lanes_of(self, expr: Expr) -> int:
        """Return how many lanes the value of `expr` has here."""
        varies = self.lanes is not None and self.lanes.axis in expr.axes
        return self.lanes.count if varies and self.lanes is not None else 1

    def value(self, expr: Expr) -> Value:
        """Emit `expr` (or find it emitted) as a scalar or vector."""
        found = self.find(expr)
        if found is not None:
            return found
        waiting = [expr]
        while waiting:
            item = waiting[-1]
            found = self.find(item)
            if found is None:
                args = [arg for arg in reversed(item.args) if self.find(arg) is None]
                if args:
                    waiting += args
                    continue
                found = self._emit(item)
                self.bind(item, found)
            waiting.pop()
        assert found is not None
        return found

    def vector_value(self, expr: Expr, lanes: int) -> Value:
        """Emit `expr` as a value of exactly `lanes` lanes."""
        return self.spread(self.value(expr), lanes)

    def spread(self, value: Value, lanes: int) -> Value:
        """Return a value with `lanes` lanes, splat if it is a scalar."""
        if value.type.lanes == lanes:
            return value
        key = ("splat", value.type, value.text, lanes)
        found = self.find(key)
        if found is None:
            found = self.f.splat(value, lanes)
            self.bind(key, found)
        return found

    def prepare(self, exprs: Iterable[Expr], changing: frozenset[str]) -> None:
        """Emit now what `exprs` need that does not vary with the axes in `changing`.

        Reductions that are not finished keep their users from being emitted.
        """
        seen: set[Expr] = set()
        stack = list(exprs)
        while stack:
            item = stack.pop()
            if item in seen or item.op in ("constant", "index", "accumulator"):
                continue
            seen.add(item)
            if item.axes & changing or not self._is_ready(item):
                stack.extend(item.args)
            elif item.op != "load" or item.args == ():
                self.value(item)

    def _is_ready(self, expr: Expr) -> bool:
        return all(self.find(("reduction", number)) is not None for number in expr.reductions)

    def _emit(self, item: Expr) -> Value:
        if item.op == "constant":
            scalar = item.payload.value
            return self.f.const(register_type(item.dtype), _plain(scalar, item.dtype))
        if item.op == "index":
            values = tuple(self.value(arg) for arg in item.args)
            return self.f.as_value(self.index(item.payload, values))
        if item.op == "load":
            return self._load(item)
        lanes = max((self.value(arg).type.lanes for arg in item.args), default=1)
        args = tuple(self.spread(self.value(arg), lanes) for arg in item.args)
        if item.op in CIRCLE:
            return self._on_circle(item, *args)
        return emit_op(self.f, item, args, self.fma)

    def _on_circle(self, item: Expr, x: Value) -> Value:
        """Emit sine and cosine together: where both are wanted, the second is found emitted."""
        for op, value in zip(CIRCLE, circle(self.f, x, fma=self.fma), strict=True):
            rounded = round_to(self.f, value, item.dtype, self.fma)
            self.bind(make(op, item.dtype, item.args, item.payload), rounded)
        found = self.find(item)
        assert found is not None
        return found

    # ---- memory

    def _load(self, item: Expr) -> Value:
        access = item.payload
        mask = self.value(item.args[0]) if access.masked else None
        values = tuple(self.value(arg) for arg in item.args[1 if access.masked else 0 :])
        base = self.buffers[access.buffer]
        loaded = self.load_element(base, access.index, item.dtype, values, mask)
        return widen(self.f, loaded, item.dtype, self.has_f16c)

    def load_element(
        self,
        base: Value,
        where: int | Dim,
        element: DType,
        values: tuple[Value, ...],
        mask: Value | None,
    ) -> Value:
        """Load from element `where` of `base`: one load, a vector load, or a gather."""
        f = self.f
        memory = memory_type(element)
        lanes = self._access_lanes(where, values, mask)
        if lanes == 1:
            pointer = self._pointer(base, where, values, memory, mask)
            return self._scalar_load(memory, pointer, mask)
        combined = self._lane_mask(mask, lanes)
        offsets = self._offsets(where, values, mask, lanes)
        if offsets == (0,) * lanes and combined is None:
            pointer = f.gep(base, self.base_index(where, values), memory)
            return f.splat(f.load(memory, pointer), lanes)
        count = None if offsets is None else runs(offsets, MOST_RUNS)
        if offsets is None or count is None:
            return self._gathered(base, where, values, memory, combined, offsets, lanes)
        pointer = self._pointer(base, where, values, memory, combined)
        parts: list[Value] = []
        for start, length in _pieces(lanes, count):
            at = f.gep(pointer, offsets[start], memory, inbounds=combined is None)
            wide = vector(memory, length)
            if combined is None:
                parts.append(f.load(wide, at))
            else:
                part = f.slice_lanes(combined, start, length)
                parts.append(f.masked_load(wide, at, part, align=memory.alignment))
        return f.concat_lanes(parts)

    def _offsets(
        self, where: int | Dim, values: tuple[Value, ...], mask: Value | None, lanes: int
    ) -> tuple[int, ...] | None:
        """Return the offsets of `lanes` lanes, None where they are not known."""
        assert self.lanes is not None, "a scalar has no lanes"
        return self.lane_offsets(where, values, mask) if lanes == self.lanes.count else None

    def _addresses(
        self,
        base: Value,
        where: int | Dim,
        values: tuple[Value, ...],
        memory: lt.Type,
        mask: Value | None,
        offsets: tuple[int, ...] | None,
        lanes: int,
    ) -> Value:
        """Return the address of each lane's element."""
        f, inbounds = self.f, mask is None
        if offsets is None:
            indices = self.spread_index(self.index(where, values), lanes)
            return f.gep(base, indices, memory, inbounds=inbounds)
        first = self._pointer(base, where, values, memory, mask)
        fits = max(map(abs, offsets)) < 1 << 31
        numbers = f.const(vector(lt.I32 if fits else lt.I64, lanes), list(offsets))
        return f.gep(first, numbers, memory, inbounds=inbounds)

    def _pointer(
        self,
        base: Value,
        where: int | Dim,
        values: tuple[Value, ...],
        memory: lt.Type,
        mask: Value | None,
    ) -> Value:
        """Return the address of lane 0; where a mask is false it may lie outside of the buffer."""
        index = self.base_index(where, values)
        return self.f.gep(base, index, memory, inbounds=mask is None)

    def _one_by_one(self, base: Value, indices: Value, memory: lt.Type) -> Value:
        """Load each lane's element by itself."""
        f, lanes = self.f, indices.type.lanes
        room = f.alloca(lt.I64, lanes, 64)
        f.store(indices, room)
        wide = f.undef(vector(memory, lanes))
        for lane in range(lanes):
            index = f.load(lt.I64, f.gep(room, lane, lt.I64))
            wide = f.insert(wide, f.load(memory, f.gep(base, index, memory)), lane)
        return wide

    def _is_far(self, base: Value, memory: lt.Type) -> bool:
        return memory.bits in FAR_BITS and any(self.buffers[n] is base for n in self.far)

    def _gathered(
        self,
        base: Value,
        where: int | Dim,
        values: tuple[Value, ...],
        memory: lt.Type,
        mask: Value | None,
        offsets: tuple[int, ...] | None,
        lanes: int,
    ) -> Value:
        if mask is None and offsets is None and self._is_far(base, memory):
            indices = self.spread_index(self.index(where, values), lanes)
            return self._one_by_one(base, indices, memory)
        pointers = self._addresses(base, where, values, memory, mask, offsets, lanes)
        wide = vector(memory, lanes)
        if mask is None:
            return self.f.gather(wide, pointers)
        return self.f.gather(wide, pointers, mask, self.f.zero(wide))

    def _scalar_load(self, memory: lt.Type, pointer: Value, mask: Value | None) -> Value:
        f = self.f
        if mask is None:
            return f.load(memory, pointer)
        # A masked-off scalar reads a zero on the stack instead.
        zero = f.alloca(memory)
        f.store(f.zero(memory), zero)
        return f.load(memory, f.select(mask, pointer, zero))

    def _access_lanes(self, where: int | Dim, values: tuple[Value, ...], mask: Value | None) -> int:
        lanes = max((value.type.lanes for value in values), default=1)
        if mask is not None:
            lanes = max(lanes, mask.type.lanes)
        if self.lanes is not None and self.lanes.axis in axis_names(where):
            lanes = max(lanes, self.lanes.count)
        return lanes

    def _lane_mask(self, mask: Value | None, lanes: int) -> Value | None:
        """Return the mask of an access and the tail together."""
        tail = self.lanes.mask if self.lanes is not None and lanes == self.lanes.count else None
        if mask is None:
            return tail
        spread = self.spread(mask, lanes)
        return spread if tail is None else self.f.and_(spread, tail)

    def store_all(self, stores: Sequence[Store]) -> None:
        """Emit stores, all values first: an output may lie where another value is still read."""
        for item in stores:
            for value in item.exprs:
                self.value(value)
        for item in stores:
            self.store(item)

    def store(self, item: Store) -> None:
        """Emit a store of one point or one block of lanes."""
        values = tuple(self.value(value) for value in item.values)
        mask = self.value(item.mask) if item.mask is not None else None
        self.value(item.value)
        if mask is None or mask.type.lanes > 1:
            self._store(item, values, mask)
            return

        def then() -> None:
            self.open_scope()
            self._store(item, values, None)
            self.close_scope()

        self.f.if_(mask, then)

    def _store(self, item: Store, values: tuple[Value, ...], mask: Value | None) -> None:
        f = self.f
        element = item.value.dtype
        memory = memory_type(element)
        base = self.buffers[item.buffer]
        lanes = max(self._access_lanes(item.index, values, mask), self.lanes_of(item.value))
        value = self.vector_value(item.value, lanes)
        if item.combiner is not None:
            old = self.load_element(base, item.index, element, values, mask)
            value = combine(
                self,
                item.combiner,
                (self.spread(widen(f, old, element, self.has_f16c), lanes), value),
            )[0]
        narrowed = narrow(f, value, element, self.has_f16c)
        if lanes == 1:
            f.store(narrowed, self._pointer(base, item.index, values, memory, mask))
            return
        combined = self._lane_mask(mask, lanes)
        offsets = self._offsets(item.index, values, mask, lanes)
        count = None if offsets is None else runs(offsets, MOST_RUNS)
        if offsets is None or count is None:
            pointers = self._addresses(base, item.index, values, memory, combined, offsets, lanes)
            f.scatter(narrowed, pointers, combined)
            return
        pointer = self._pointer(base, item.index, values, memory, combined)
        for start, length in _pieces(lanes, count):
            at = f.gep(pointer, offsets[start], memory, inbounds=combined is None)
            part = f.slice_lanes(narrowed, start, length)
            if combined is None:
                f.store(part, at)
            else:
                held = f.slice_lanes(combined, start, length)
                f.masked_store(part, at, held, align=memory.alignment)


def _pieces(lanes: int, count: int) -> list[tuple[int, int]]:
    """Return start and length of each of `count` equal runs of lanes."""
    length = lanes // count
    return [(start, length) for start in range(0, lanes, length)]


def combine(
    emitter: ValueEmitter, combiner: Combiner, args: tuple[Value, ...]
) -> tuple[Value, ...]:
    """Emit a combiner on argument values (accumulators, then inputs) of equal lane counts."""
    emitter.open_scope()
    lanes = max(arg.type.lanes for arg in args)
    for item in walk(combiner.results):
        if item.op == "argument":
            number: int = item.payload
            emitter.bind(item, emitter.spread(args[number], lanes))
    results = tuple(emitter.vector_value(result, lanes) for result in combiner.results)
    emitter.close_scope()
    return results


def _plain(scalar: Any, element: DType) -> float | int | bool:
    if is_minifloat(element):
        return int(scalar.view(np.uint8))
    if element.is_float:
        return float(scalar)
    if element.is_complex:
        return int.from_bytes(scalar.tobytes(), sys.byteorder)
    return bool(scalar) if element is PRED else int(scalar)
