# SPDX-License-Identifier: Apache-2.0
"""The softmax of an attention kernel: what a unit keeps of its rows between blocks of keys.

For each row these are the greatest score so far and the sums of its powers, shifted by the greatest
score (by 0 while that is minus infinity). When the greatest score rises, the sums are rescaled. At
the end they are corrected to the kernel's own shift, which treats a row without a score (minus
infinity, or NaN) as three separate kernels would.

Invariant: a power is at most 1, so nothing overflows that would not overflow without blocks.
Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
"""

from __future__ import annotations

import math

from ingot.cpu.emit.contraction.packing import Packer, Panels, Span, cell_type, lane_mask
from ingot.emit.values.conversions import convert
from ingot.emit.values.indices import IndexValue, Lanes
from ingot.emit.values.values import combine
from ingot.hlo.dtype import DType
from ingot.kernel.attention.schedule import AttentionSchedule
from ingot.kernel.expr import walk
from ingot.kernel.ir import AttentionKernel, Combiner, Store
from ingot.kernel.product.blocks import SQUARE
from ingot.llvm import types as lt
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.types import vector
from ingot.llvm.values import Value
from ingot.support.records import record


@record
class Tiles:
    """The arrays that a unit computes: scores, keys by rows, and sums, rows by `width`."""

    scores: Value
    sums: Value
    width: int


class Rows:
    """Emits what becomes of the rows of a unit."""

    def __init__(
        self, packer: Packer, kernel: AttentionKernel, schedule: AttentionSchedule, tiles: Tiles
    ) -> None:
        """Work on the tiles of the unit that `packer` packs for."""
        self.f = packer.f
        self.packer = packer
        self.emitter = packer.emitter
        self.kernel = kernel
        self.schedule = schedule
        self.scores, self.sums, self.width = tiles.scores, tiles.sums, tiles.width
        self.cell = cell_type(kernel.accumulate)
        self.count = schedule.together
        self.wide = vector(self.cell, self.count)
        self.greatest, self.total, self.factors = (
            self.f.alloca(self.cell, schedule.rows, LINE_BYTES) for _ in range(3)
        )
        exprs = [kernel.shift, *(item for store in kernel.stores for item in store.exprs)]
        nodes = walk(tuple(exprs))
        self.folds = {
            n: [e for e in nodes if e.op == "reduced" and e.payload[0] == n] for n in (0, 1)
        }
        stored = walk(tuple(item for store in kernel.stores for item in store.exprs))
        self.is_shift_alone = not any(item in stored for item in self.folds[0])
        self.products = [e for e in walk((kernel.scores,)) if e.op == "accumulator"]
        self.results = [e for e in nodes if e.op == "accumulator"]

        # Squares that are transposed may end behind the last key.
        room = (schedule.keys + SQUARE) * schedule.rows
        self.masks = {item: self.f.alloca(self.cell, room, LINE_BYTES) for item in schedule.masks}

    # ---- parts

    def _as(self, value: Value, source: DType, to: DType) -> Value:
        return convert(self.f, value, source, to, self.emitter.has_f16c)

    def _power(self, score: Value, shift: Value) -> Value:
        """Return the power of a score, both of the sums' type."""
        kernel = self.kernel
        element, accumulate = kernel.scores.dtype, kernel.accumulate
        sides = tuple(self._as(item, accumulate, element) for item in (score, shift))
        (power,) = combine(self.emitter, Combiner((kernel.power,)), sides)
        return self._as(power, element, accumulate)

    def _larger(self, a: Value, b: Value) -> Value:
        """Return the greater one of two scores of the sums' type.

        If only the shift is computed from it, NaN and the sign of zero may be lost: a power of NaN
        is NaN whatever the shift. That takes one instruction, HLO's maximum takes five.
        """
        if self.is_shift_alone:
            return self.f.select(self.f.fcmp("ogt", a, b), a, b)
        element, accumulate = self.kernel.scores.dtype, self.kernel.accumulate
        sides = tuple(self._as(item, accumulate, element) for item in (a, b))
        (found,) = combine(self.emitter, self.kernel.greatest.combiner, sides)
        return self._as(found, element, accumulate)

    def _finite(self, greatest: Value) -> Value:
        """Return the shift of rows: `greatest`, but 0 where it is minus infinity (no score)."""
        f = self.f
        none = f.fcmp("oeq", greatest, f.const(greatest.type, -math.inf))
        return f.select(none, f.zero(greatest.type), greatest)

    def _at(self, base: Value, offset: IndexValue) -> Value:
        return self.f.gep(base, offset, self.cell)

    def _load(self, base: Value, offset: IndexValue) -> Value:
        return self.f.load(self.wide, self._at(base, offset), self.cell.alignment)

    def _keep(self, value: Value, base: Value, offset: IndexValue) -> None:
        self.f.store(value, self._at(base, offset), self.cell.alignment)

    # ---- stages

    def open(self) -> None:
        """Emit rows that have seen no key."""
        f, schedule = self.f, self.schedule
        lowest = f.const(self.wide, -math.inf)

        def panel(first: Value) -> None:
            self._keep(lowest, self.greatest, first)
            self._keep(f.zero(self.wide), self.total, first)

        f.for_range(schedule.rows, panel, step=self.count)
        some = vector(self.cell, schedule.lanes)

        def clear(at: Value) -> None:
            f.store(f.zero(some), self._at(self.sums, at), self.cell.alignment)

        f.for_range(schedule.rows * self.width, clear, step=schedule.lanes)

    def softmax(self, m: Span, n: Span) -> None:
        """Emit the scores and powers of a block of keys."""
        panels = Panels(self.schedule.rows, n.count, is_transposed=True)
        for item, buffer in self.masks.items():
            self.packer.panels(item, buffer, m, n, panels)
        self.f.for_range(m.count, lambda first: self._softmax(m, n, first), step=self.count)

    def _softmax(self, m: Span, n: Span, first: Value) -> None:
        """Emit them for the rows from `first` on."""
        f = self.f
        found = self._score(m, n, first)
        before = self._load(self.greatest, first)
        greatest = self._larger(before, found)
        shift = self._finite(greatest)
        factor = self._power(before, shift)
        self._keep(greatest, self.greatest, first)
        self._keep(factor, self.factors, first)

        # Blocks are summed up apart: fewer roundings than one running sum has.
        block = self.powers(n, first, shift)
        before = f.mul(self._load(self.total, first), factor)
        self._keep(f.add(before, block), self.total, first)
        self._correct(first, factor)

    def powers(self, n: Span, first: Value, shift: Value) -> Value:
        """Emit the powers of the rows from `first` on, in place of the scores; return their sum."""
        f = self.f

        def power(number: Value, carried: list[Value]) -> list[Value]:
            where = f.iadd(f.imul(number, self.schedule.rows), first)
            found = self.power_of_score(number, first, shift)
            self._keep(found, self.scores, where)
            return [f.add(carried[0], found)]

        return f.loop(0, n.count, 1, [f.zero(self.wide)], power)[0]

    def power_of_score(self, key: IndexValue, first: Value, shift: Value) -> Value:
        """Return the powers of a key of the block for the rows from `first` on."""
        where = self.f.iadd(self.f.imul(key, self.schedule.rows), first)
        return self._power(self._load(self.scores, where), shift)

    def _score(self, m: Span, n: Span, first: Value) -> Value:
        """Emit scores in place of the products; return the greatest of each row."""
        f, emitter, kernel = self.f, self.emitter, self.kernel
        columns, accumulate = self.count, kernel.accumulate
        element = kernel.scores.dtype
        emitter.names[m.axis] = f.iadd(m.start, first)
        emitter.lanes = Lanes(m.axis, columns, self._mask(m, first), columns)
        emitter.open_scope()
        emitter.prepare((kernel.scores,), frozenset((n.axis,)))

        def key(number: Value, carried: list[Value]) -> list[Value]:
            emitter.names[n.axis] = f.iadd(n.start, number)
            emitter.open_scope()
            where = f.iadd(f.imul(number, self.schedule.rows), first)
            product = self._load(self.scores, where)
            for item in self.products:
                emitter.bind(item, product)
            for item, buffer in self.masks.items():
                emitter.bind(item, self._as(self._load(buffer, where), accumulate, item.dtype))
            value = emitter.vector_value(kernel.scores, columns)
            emitter.close_scope()
            value = self._as(value, element, accumulate)
            self._keep(value, self.scores, where)
            return [self._larger(carried[0], value)]

        lowest = f.const(self.wide, -math.inf)
        found = f.loop(0, n.count, 1, [lowest], key)[0]
        emitter.close_scope()
        emitter.lanes = None
        return found

    def _mask(self, m: Span, first: Value) -> Value | None:
        """Return the mask of the rows that are there; None: all of a panel are."""
        f, columns = self.f, self.count
        extent = self.kernel.m.extent
        if isinstance(extent, int) and extent % columns == 0:
            return None
        return lane_mask(f, f.isub(m.count, first), columns)

    def is_low(self, m: Span, least: float) -> Value:
        """Return whether the greatest score of some row does not exceed `least`."""
        f = self.f

        def panel(first: Value, carried: list[Value]) -> list[Value]:
            greatest = self._load(self.greatest, first)
            below = f.fcmp("ole", greatest, f.const(greatest.type, least))
            mask = self._mask(m, first)
            return [
                f.or_(carried[0], f.reduce("or", below if mask is None else f.and_(below, mask)))
            ]

        return f.loop(0, m.count, self.count, [f.const(lt.I1, 0)], panel)[0]

    def _correct(self, first: Value, factor: Value) -> None:
        """Emit the correction of the sums of some rows by a factor each, if one is not 1."""
        differs = self.f.fcmp("une", factor, self.f.const(factor.type, 1.0))
        self.f.if_(self.f.reduce("or", differs), lambda: self.correct_sums(first))

    def correct_sums(self, first: Value) -> None:
        """Emit the products of sums of some rows and their factors."""
        f = self.f
        some = vector(self.cell, self.schedule.lanes)

        def row(number: Value) -> None:
            at = f.iadd(first, number)
            scale = f.load(self.cell, self._at(self.factors, at), self.cell.alignment)
            scales = f.splat(scale, self.schedule.lanes)

            def part(column: Value) -> None:
                address = self._at(self.sums, f.iadd(f.imul(at, self.width), column))
                held = f.load(some, address, self.cell.alignment)
                f.store(f.mul(held, scales), address, self.cell.alignment)

            f.for_range(self.width, part, step=self.schedule.lanes)

        f.for_range(self.count, row)

    def _settle_all(self, m: Span) -> None:
        self.f.for_range(m.count, lambda first: self._settle(m, first), step=self.count)

    def close(self, m: Span) -> None:
        """Emit the stores of all rows."""
        self._settle_all(m)
        self._store_all(m, self.sums)

    def _store_all(self, m: Span, sums: Value) -> None:
        """Emit the stores of all rows; `sums`: rows by `width`."""
        self.f.for_range(m.count, lambda number: self._store(m, number, sums))

    def _settle(self, m: Span, first: Value) -> None:
        """Emit the correction of totals to the shift that the kernel has."""
        f, emitter, kernel = self.f, self.emitter, self.kernel
        element, accumulate = kernel.scores.dtype, kernel.accumulate
        columns = self.count
        greatest = self._load(self.greatest, first)
        emitter.names[m.axis] = f.iadd(m.start, first)
        emitter.lanes = Lanes(m.axis, columns, self._mask(m, first))
        emitter.open_scope()
        for item in self.folds[0]:
            emitter.bind(item, self._as(greatest, accumulate, element))
        shift = emitter.vector_value(kernel.shift, columns)
        emitter.close_scope()
        emitter.lanes = None
        factor = self._power(self._finite(greatest), self._as(shift, element, accumulate))
        self._keep(f.mul(self._load(self.total, first), factor), self.total, first)
        self._keep(factor, self.factors, first)
        self._correct(first, factor)

    def _store(self, m: Span, number: Value, sums: Value) -> None:
        """Emit the stores of one row."""
        f, emitter, kernel = self.f, self.emitter, self.kernel
        along = kernel.e.name
        by_row = [store for store in kernel.stores if along not in _axes_of(store)]
        wide = [store for store in kernel.stores if along in _axes_of(store) or not by_row]
        emitter.names[m.axis] = f.iadd(m.start, number)
        emitter.open_scope()
        for fold, base in ((0, self.greatest), (1, self.total)):
            held = f.load(self.cell, self._at(base, number), self.cell.alignment)
            for item in self.folds[fold]:
                emitter.bind(item, self._as(held, kernel.accumulate, item.dtype))
            emitter.bind(("reduction", fold), held)
        exprs = [item for store in kernel.stores for item in store.exprs]
        emitter.prepare(exprs, frozenset((along,)))
        emitter.store_all(by_row)
        lanes, start = self.schedule.lanes, f.imul(number, self.width)

        def part(column: IndexValue, mask: Value | None) -> None:
            emitter.names[along] = column
            emitter.lanes = Lanes(along, lanes, mask, lanes)
            emitter.open_scope()
            address = self._at(sums, f.iadd(start, column))
            value = f.load(vector(self.cell, lanes), address, self.cell.alignment)
            for item in self.results:
                emitter.bind(item, value)
            emitter.store_all(wide)
            emitter.close_scope()
            emitter.lanes = None

        extent = kernel.e.known_extent
        whole = extent // lanes * lanes
        f.for_range(whole, lambda column: part(column, None), step=lanes)
        if whole < extent:
            part(whole, lane_mask(f, extent - whole, lanes))
        emitter.close_scope()


def _axes_of(store: Store) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for item in store.exprs:
        found |= item.axes
    return found
