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
from dataclasses import dataclass
from typing import Any

import numpy as np

from ingot.cpu.emit.elementwise import emit_op
from ingot.cpu.emit.types import (
    is_minifloat,
    memory_type,
    narrow,
    register_type,
    round_to,
    widen,
)
from ingot.hlo import dim
from ingot.hlo.dim import Atom, Dim
from ingot.hlo.dtype import PRED, DType
from ingot.kernel.expr import Expr, axis_names, make, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Combiner, Store
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.math import CIRCLE, circle
from ingot.llvm.types import vector
from ingot.llvm.values import Value

IndexValue = int | Value


@dataclass(frozen=True, slots=True)
class Lanes:
    """The vector axis: its name, how many lanes, and the mask of valid ones in a tail."""

    axis: str
    count: int
    mask: Value | None = None


class ValueEmitter:
    """Emits expressions into one function; see the module."""

    def __init__(
        self,
        f: FunctionBuilder,
        buffers: Mapping[int, Value],
        sizes: Mapping[str, IndexValue],
        fma: bool,
    ) -> None:
        """Emit into `f`; `buffers` are addresses by number, `sizes` the symbolic sizes."""
        self.f = f
        self.buffers = dict(buffers)
        self.fma = fma
        self.names: dict[str, IndexValue] = dict(sizes)
        self.lanes: Lanes | None = None
        self._values: dict[object, Value] = {}
        self._scopes: list[list[tuple[object, Value | None]]] = []

    @property
    def has_f16c(self) -> bool:
        """Whether the target converts f16: every x86 CPU with FMA does, and every ARM CPU."""
        return self.fma

    # ---- scopes

    def open_scope(self) -> None:
        """Start a block whose values are forgotten at `close_scope`."""
        self._scopes.append([])

    def close_scope(self) -> None:
        """Forget what was emitted since `open_scope`."""
        for key, before in reversed(self._scopes.pop()):
            if before is None:
                del self._values[key]
            else:
                self._values[key] = before

    def _find(self, key: object) -> Value | None:
        return self._values.get(key)

    def bind(self, key: object, value: Value) -> None:
        """Make `value` the emitted value of an expression (reductions, accumulators)."""
        if self._scopes:
            self._scopes[-1].append((key, self._values.get(key)))
        self._values[key] = value

    # ---- indices

    def index(self, value: int | Dim, values: tuple[Value, ...] = ()) -> IndexValue:
        """Emit an index as i64: scalar, or a vector when it varies along the vector axis."""
        if isinstance(value, int):
            return value
        total: IndexValue = 0
        for key, factor in value.terms:
            term: IndexValue = factor
            for atom in key:
                term = self._multiply(term, self._atom(atom, values))
            total = self._add(total, term)
        return total

    def _atom(self, atom: Atom, values: tuple[Value, ...]) -> IndexValue:
        if not atom.function:
            return self._name(atom.text, values)
        left, right = self.index(atom.left, values), self.index(atom.right, values)
        return self._function(atom.function, left, right)

    def _name(self, name: str, values: tuple[Value, ...]) -> IndexValue:
        if name[0] == "$":
            return values[int(name[1:])]
        found = self.names[name]
        if self.lanes is not None and self.lanes.axis == name and self.lanes.count > 1:
            return self._lane_indices(found)
        return found

    def _lane_indices(self, base: IndexValue) -> Value:
        assert self.lanes is not None
        key = ("lane indices", self.lanes.axis, base if isinstance(base, int) else base.text)
        found = self._find(key)
        if found is None:
            f, count = self.f, self.lanes.count
            start = f.splat(f.as_value(base), count)
            found = f.add(start, f.const(vector(lt.I64, count), list(range(count))))
            self.bind(key, found)
        return found

    def _pair(self, a: IndexValue, b: IndexValue) -> tuple[Value, Value] | None:
        """Return both as vectors when one is a vector, else None."""
        lanes = max(item.type.lanes if isinstance(item, Value) else 1 for item in (a, b))
        if lanes == 1:
            return None
        return self._spread(a, lanes), self._spread(b, lanes)

    def _spread(self, item: IndexValue, lanes: int) -> Value:
        if isinstance(item, int):
            return self.f.const(vector(lt.I64, lanes), item)
        return item if item.type.lanes == lanes else self.f.splat(item, lanes)

    def _add(self, a: IndexValue, b: IndexValue) -> IndexValue:
        pair = self._pair(a, b)
        return self.f.iadd(a, b) if pair is None else self.f.add(*pair)

    def _multiply(self, a: IndexValue, b: IndexValue) -> IndexValue:
        pair = self._pair(a, b)
        return self.f.imul(a, b) if pair is None else self.f.mul(*pair)

    def _function(self, name: str, a: IndexValue, b: IndexValue) -> IndexValue:
        f = self.f
        pair = self._pair(a, b)
        if pair is None:
            scalar = {"floordiv": f.idiv, "mod": f.irem, "max": f.imax, "min": f.imin}
            return scalar[name](a, b)
        x, y = pair
        if name in ("max", "min"):
            return f.intrinsic(f"llvm.s{name}", x.type, [x, y])
        # Indices are not negative where they are used; masked lanes may hold anything.
        return f.udiv(x, y) if name == "floordiv" else f.urem(x, y)

    # ---- expressions

    def lanes_of(self, expr: Expr) -> int:
        """Return how many lanes the value of `expr` has here."""
        varies = self.lanes is not None and self.lanes.axis in expr.axes
        return self.lanes.count if varies and self.lanes is not None else 1

    def value(self, expr: Expr) -> Value:
        """Emit `expr` (or find it emitted) as a scalar or vector."""
        found = self._find(expr)
        if found is not None:
            return found
        waiting = [expr]
        while waiting:
            item = waiting[-1]
            found = self._find(item)
            if found is None:
                args = [arg for arg in reversed(item.args) if self._find(arg) is None]
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
        found = self._find(key)
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
        return all(self._find(("reduction", number)) is not None for number in expr.reductions)

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
        found = self._find(item)
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
        wide = vector(memory, lanes)
        step = self._stride(where, values)
        if step == 1:
            pointer = self._pointer(base, where, values, memory, combined)
            if combined is None:
                return f.load(wide, pointer)
            return f.masked_load(wide, pointer, combined, align=memory.alignment)
        if step == 0 and combined is None:
            pointer = f.gep(base, self._base_index(where, values), memory)
            return f.splat(f.load(memory, pointer), lanes)
        return self._gathered(base, where, values, memory, lanes, combined)

    def _pointer(
        self,
        base: Value,
        where: int | Dim,
        values: tuple[Value, ...],
        memory: lt.Type,
        mask: Value | None,
    ) -> Value:
        """Return the address of lane 0; where a mask is false it may lie outside of the buffer."""
        index = self._base_index(where, values)
        return self.f.gep(base, index, memory, inbounds=mask is None)

    def _gathered(
        self,
        base: Value,
        where: int | Dim,
        values: tuple[Value, ...],
        memory: lt.Type,
        lanes: int,
        mask: Value | None,
    ) -> Value:
        indices = self._spread(self.index(where, values), lanes)
        pointers = self.f.gep(base, indices, memory, inbounds=mask is None)
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

    def _stride(self, where: int | Dim, values: tuple[Value, ...]) -> int | None:
        """Return the step in elements from lane to lane when it is a known constant."""
        assert self.lanes is not None
        used = [name for name in dim.symbols_of((where,)) if name[0] == "$"]
        if any(values[int(name[1:])].type.lanes > 1 for name in used):
            return None
        step = coefficient(where, self.lanes.axis)
        return step if isinstance(step, int) else None

    def _base_index(self, where: int | Dim, values: tuple[Value, ...]) -> IndexValue:
        """Return the index of lane 0."""
        lanes, self.lanes = self.lanes, None
        try:
            return self.index(where, values)
        finally:
            self.lanes = lanes

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
        if self._stride(item.index, values) == 1:
            pointer = self._pointer(base, item.index, values, memory, combined)
            if combined is None:
                f.store(narrowed, pointer)
            else:
                f.masked_store(narrowed, pointer, combined, align=memory.alignment)
            return
        indices = self._spread(self.index(item.index, values), lanes)
        pointers = f.gep(base, indices, memory, inbounds=combined is None)
        f.scatter(narrowed, pointers, combined)


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
