# SPDX-License-Identifier: Apache-2.0
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

from ingot.emit.values.accesses import AccessEmitter
from ingot.emit.values.elementwise import emit_op
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.types import (
    is_minifloat,
    narrow,
    register_type,
    round_result,
    widen,
)
from ingot.hlo.dtype import PRED, DType
from ingot.kernel.expr import Expr, make, walk
from ingot.kernel.ir import Combiner, Store
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.math import CIRCLE, circle
from ingot.llvm.values import Value

MUCH_LOWER = 6
"""An operand that takes this many ops fewer than another is emitted after it. Closer ones keep
their order: calls or divisions side by side are slower."""


class ValueEmitter(AccessEmitter):
    """Emits expressions into one function; see the module."""

    def __init__(
        self,
        f: FunctionBuilder,
        buffers: Mapping[int, Value],
        sizes: Mapping[str, IndexValue],
        fma: bool,
    ) -> None:
        """Emit into `f`; `buffers` are addresses by number, `sizes` the symbolic sizes.

        `angles`, which may be set afterwards, are those whose sine and cosine are both wanted;
        `keeps_order` says that LLVM leaves ops in the order in which they are emitted.
        """
        super().__init__(f, buffers, sizes)
        self.fma = fma
        self.angles: frozenset[Expr] = frozenset()
        self.keeps_order = False

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
                    waiting += _much_lower_first(args) if self.keeps_order else args
                    continue
                found = self._emit(item)
                self.bind(item, found)
            waiting.pop()
        assert found is not None
        return found

    def vector_value(self, expr: Expr, lanes: int) -> Value:
        """Emit `expr` as a value of exactly `lanes` lanes."""
        return self.spread(self.value(expr), lanes)

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
        if item.op in CIRCLE and item.args[0] in self.angles:
            return self._on_circle(item, *args)
        return emit_op(self.f, item, args, self.fma)

    def _on_circle(self, item: Expr, x: Value) -> Value:
        """Emit sine and cosine together: the second is found emitted."""
        for op, value in zip(CIRCLE, circle(self.f, x, fma=self.fma), strict=True):
            rounded = round_result(self.f, value, item.dtype, self.fma)
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

    def store_all(self, stores: Sequence[Store]) -> None:
        """Emit stores, all values first: an output may lie where another value is still read."""
        for item in stores:
            where = (*item.values, *(() if item.mask is None else (item.mask,)))
            for value in where if len(stores) == 1 else item.exprs:
                self.value(value)
        for item in stores:
            self.store(item)

    def store(self, item: Store) -> None:
        """Emit a store of one point or one block of lanes.

        Lanes that a mask sends to elements apart are stored if any is on: where few are (the true
        elements of a mask, the first of equal neighbours) most blocks are off, and neither the
        store nor what only its value reads runs. A kernel that writes the chosen of 200,000
        elements took 84 us and takes 31 us if 0.1 % are chosen, 25 us if those lie side by side
        (5 %: 83 us and 88 us; all: 130 us and 131 us; Xeon with AVX-512, 2026-11-29).
        """
        values = tuple(self.value(value) for value in item.values)
        mask = self.value(item.mask) if item.mask is not None else None
        some = mask
        if mask is not None and mask.type.lanes > 1:
            apart = self.lane_offsets(item.index, values, mask) is None
            some = self.f.reduce("or", mask) if apart else None
        if some is None:
            self._store(item, values, mask)
            return
        lanes = mask if mask is not some else None

        def then() -> None:
            self.open_scope()
            self._store(item, values, lanes)
            self.close_scope()

        self.f.if_(some, then)

    def _store(self, item: Store, values: tuple[Value, ...], mask: Value | None) -> None:
        f = self.f
        element = item.value.dtype
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
        self.store_element(base, item.index, narrowed, values, mask)


def _much_lower_first(args: list[Expr]) -> list[Expr]:
    """Return operands, the last to be emitted first: what little work gives is held less long."""
    low = max(arg.height for arg in args) - MUCH_LOWER
    return sorted(args, key=lambda arg: arg.height >= low)


def angles_of(exprs: Iterable[Expr]) -> frozenset[Expr]:
    """Return what both the sine and the cosine are taken of."""
    wanted = {(e.op, e.args[0]) for e in exprs if e.op in CIRCLE}
    return frozenset(x for _, x in wanted if all((op, x) in wanted for op in CIRCLE))


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
