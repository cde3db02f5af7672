# SPDX-License-Identifier: Apache-2.0
"""The body of a loop kernel: passes, vectors, reductions, in the units of `units`.

A pass in lanes runs whole blocks, then one masked block for the rest; a large body is written
once, masked in every block. A reduction that may be folded in lanes starts from the combiner's
identity and takes its initial value last. Long runs that are only copied
(`kernel.schedule.piece_loops`) are calls of the C library's copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

from ingot.emit.loop.folds import Folding, scan_lanes
from ingot.emit.loop.gather_indices import Block, IndicesAhead, carrying_nothing
from ingot.emit.loop.units import UnitEmitter
from ingot.emit.values.indices import IndexValue, Lanes
from ingot.emit.values.squares import SquareTranspose
from ingot.emit.values.types import memory_type
from ingot.emit.values.values import ValueEmitter, angles_of
from ingot.hlo import dim
from ingot.hlo.dim import Dim, always_positive, minimum, product
from ingot.kernel.analysis.gathers import Gather
from ingot.kernel.analysis.peeled_rows import aligned_store, elements_of_line
from ingot.kernel.expr import Expr, make, walk
from ingot.kernel.ir import Axis, LoopKernel, Pass, Reduction, Store
from ingot.kernel.schedule.loop_schedule import InLanes, LoopSchedule
from ingot.llvm import types as lt
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.types import vector
from ingot.llvm.values import Value
from ingot.support.records import record

ROWS_AHEAD = 8
"""Rows that are fetched before they are read: 65536 rows of 64 or 100 f32 of a table of 26 or 40 MB
took 0.65 to 0.75 of the time; with 4 and 16 ahead about the same (AMD EPYC, 2026-11-30)."""

LINES_AHEAD = 16
"""Lines of a row at most that are fetched; behind them the CPU's own prefetcher has begun."""


@record
class Strip:
    """Positions `low` to `high` of an axis, taken `lanes` at a time.

    Attributes:
        axis: the axis's name.
        low, high: its bounds.
        lanes: lanes of a block.
        is_whole: whether it is known that nothing is left over, so that no block is masked.
        aligned: divides `low`, as is known.
        peeled: the store whose cache lines the vectors are aligned to, if they are.
    """

    axis: str
    low: IndexValue
    high: IndexValue
    lanes: int
    is_whole: bool = False
    aligned: int = 1
    peeled: Store | None = None


class LoopEmitter(UnitEmitter):
    """Emits units and passes of one kernel into one function."""

    def __init__(self, emitter: ValueEmitter, kernel: LoopKernel, schedule: LoopSchedule) -> None:
        """Emit `kernel` as `schedule` says, into the emitter's function."""
        super().__init__(emitter, kernel, schedule)
        self.bounds: tuple[IndexValue, IndexValue] | None = None
        self.part_length: int | Dim = 0
        self.shared: tuple[SquareTranspose, ...] = ()
        emitter.angles = angles_of(tuple(walk(kernel.exprs)))

    def passes(self) -> None:
        """Emit all passes of the current grid point (or block of points)."""
        for number, item in enumerate(self.kernel.passes):
            self.one_pass(item, self.schedule.lanes[number])

    def _vector_block(self, axis: Axis, body: Callable[[], None]) -> None:
        """Run `body` for each vector of one block of a vector grid axis, the last one masked."""
        lanes = self.schedule.lanes[0]
        low, high = self._block_bounds(axis)
        strategy = self.schedule.strategy
        if isinstance(strategy, InLanes) and strategy.copies:
            copy_runs(self.emitter, self.kernel.passes, axis.name, (low, high))
            return
        if isinstance(strategy, InLanes):
            for load in strategy.fetched:
                self._fetch_row(load, axis, (low, high))
        changing = frozenset((axis.name,))
        self._prepare(self.kernel.passes, changing | self._pass_axes())
        whole = divides(lanes, axis.extent, self.schedule.block)

        vectors = carrying_nothing(body)
        aligned = lanes if divides(lanes, self.schedule.block) else 1
        (ahead,) = self.schedule.ahead.of_passes or ((),)
        if whole and self.schedule.block == lanes and not ahead:
            self._at(axis.name, low, Lanes(axis.name, lanes, None, aligned), [], vectors)
            return
        peeled = self._peeled(0, self.kernel.stores)
        strip = Strip(axis.name, low, high, lanes, whole, aligned, peeled)
        self.vectorize(strip, [], vectors, ahead)

    def _peeled(self, number: int, stores: tuple[Store, ...]) -> Store | None:
        """Return the store whose lines the vectors of a pass are aligned to, if they are."""
        strategy = self.schedule.strategy
        passes = strategy.peeled if isinstance(strategy, InLanes) else ()
        return aligned_store(stores) if number < len(passes) and passes[number] else None

    def _fetch_row(self, load: Expr, axis: Axis, block: tuple[IndexValue, IndexValue]) -> None:
        """Prefetch a block of the row that a load reads `ROWS_AHEAD` rows later, or in the last."""
        f, emitter, access = self.f, self.emitter, load.payload
        row, memory = self.kernel.grid[-2], memory_type(load.dtype)
        here = {name: emitter.names[name] for name in (row.name, axis.name)}
        last = f.isub(emitter.index(row.extent), 1)
        emitter.names[row.name] = f.imin(f.iadd(here[row.name], ROWS_AHEAD), last)
        emitter.names[axis.name] = block[0]
        emitter.open_scope()
        values = tuple(emitter.value(arg) for arg in load.args)
        where = emitter.base_index(access.index, values)
        start = f.gep(emitter.buffers[access.buffer], where, memory)
        emitter.close_scope()
        emitter.names.update(here)
        line = LINE_BYTES * 8 // load.dtype.bits
        count = f.imin(f.isub(block[1], block[0]), LINES_AHEAD * line)
        f.for_range(count, lambda at: f.prefetch(f.gep(start, at, memory)), step=line)

    def _gathers(self, item: Pass) -> tuple[Gather, ...]:
        """Return the gathers whose indices are computed ahead, of a pass with lanes of its own."""
        of_passes = self.schedule.ahead.of_passes
        return of_passes[self.kernel.passes.index(item)] if of_passes else ()

    def _pass_axes(self) -> frozenset[str]:
        return frozenset(a.name for item in self.kernel.passes for a in item.axes)

    def _prepare(self, passes: tuple[Pass, ...], changing: frozenset[str]) -> None:
        self.emitter.prepare([e for item in passes for e in item.exprs], changing)

    def vectorize(
        self, strip: Strip, carried: list[Value], body: Block, ahead: tuple[Gather, ...] = ()
    ) -> list[Value]:
        """Run `body(carried)` for the blocks of lanes of a strip; return what it carries.

        `ahead`: gathers of the body whose indices are computed ahead.
        """
        f, name, lanes = self.f, strip.axis, strip.lanes
        if strip.peeled is not None:
            strip = self._peel(strip, strip.peeled, body)
        low, high, only_whole = strip.low, strip.high, strip.is_whole
        aligned = gcd(lanes, low if isinstance(low, int) else strip.aligned)

        def masked(position: Value, values: list[Value]) -> list[Value]:
            mask = self._first_lanes(f.imin(f.isub(high, position), lanes), lanes)
            return self._at(name, position, Lanes(name, lanes, mask, aligned), values, body)

        masks_all = self.schedule.masks_all_blocks and lanes.bit_count() == 1 < lanes
        if masks_all and not (only_whole or carried):
            return f.loop(low, high, lanes, carried, masked)
        whole = high if only_whole else self._rounded(low, high, lanes)

        def at(position: Value, values: list[Value], block: Block) -> list[Value]:
            return self._at(name, position, Lanes(name, lanes, None, aligned), values, block)

        if ahead:
            indices = IndicesAhead(self.emitter, ahead, self.schedule.ahead.bits, lanes, at)
            values = indices.loop(low, whole, carried, body)
        else:
            values = f.loop(low, whole, lanes, carried, lambda here, old: at(here, old, body))
        if lanes == 1 or only_whole or f.ieq(whole, high) is True:
            return values
        if lanes.bit_count() > 1 or (ahead and not carried):
            # Masks are for whole registers, and under them lanes are gathered, which is much code;
            # of such lanes there are no folds.
            return f.loop(
                whole, high, 1, values, lambda at, held: self._at(name, at, None, held, body)
            )

        def tail() -> list[Value]:
            mask = self._first_lanes(f.isub(high, whole), lanes)
            return self._at(name, whole, Lanes(name, lanes, mask, aligned), values, body)

        return f.if_(f.ilt(whole, high), tail, otherwise=values)

    def _peel(self, strip: Strip, store: Store, body: Block) -> Strip:
        """Run `body` for what is left of the cache line that a strip begins in; return the rest."""
        f, emitter, name = self.f, self.emitter, strip.axis
        line, memory = elements_of_line(store), memory_type(store.value.dtype)
        emitter.names[name] = strip.low
        emitter.open_scope()
        first = f.gep(emitter.buffers[store.buffer], emitter.base_index(store.index, ()), memory)
        emitter.close_scope()
        bytes_left = f.and_(f.neg(f.ptrtoint(first)), f.const(lt.I64, LINE_BYTES - 1))
        left = f.lshr(bytes_left, f.const(lt.I64, memory.bytes.bit_length() - 1))
        count = f.imin(left, f.isub(strip.high, strip.low))

        def peeled() -> list[Value]:
            lanes = Lanes(name, line, self._first_lanes(count, line))
            return self._at(name, strip.low, lanes, [], body)

        f.if_(f.ilt(0, count), peeled, otherwise=[])
        return Strip(name, f.iadd(strip.low, count), strip.high, strip.lanes)

    def _first_lanes(self, count: IndexValue, lanes: int) -> Value:
        """Return the mask of the first `count` lanes."""
        f = self.f
        if isinstance(count, int):
            return f.const(vector(lt.I1, lanes), [lane < count for lane in range(lanes)])
        narrow = f.splat(f.trunc(count, lt.I32), lanes)
        return f.icmp("ult", f.const(vector(lt.I32, lanes), list(range(lanes))), narrow)

    def _rounded(self, low: IndexValue, high: IndexValue, lanes: int) -> IndexValue:
        """Return the end of the last whole block of lanes between `low` and `high`."""
        f = self.f
        return f.iadd(low, f.imul(f.idiv(f.isub(high, low), lanes), lanes))

    def _at(
        self,
        name: str,
        position: IndexValue,
        lanes: Lanes | None,
        values: list[Value],
        body: Block,
    ) -> list[Value]:
        emitter = self.emitter
        saved = emitter.lanes
        emitter.names[name] = position
        emitter.lanes = lanes
        emitter.open_scope()
        results = body(values)
        emitter.close_scope()
        emitter.lanes = saved
        return results

    # ---- passes

    def one_pass(self, item: Pass, lanes: int) -> None:
        """Emit one pass and bind its reductions.

        A pass without axes is one point (reductions over dimensions of extent 1 are such).
        """
        here = self.emitter.lanes
        if self.schedule.vector_axis is not None:
            # A short piece of the axis has fewer than the schedule says; the rest goes one by one.
            lanes = 1 if here is None else here.count
        if not item.axes:
            width = lanes if self.schedule.vector_axis is not None else 1
            self.finish(item, self._point(item, self.initial(item, width)), 1)
            return
        changing = frozenset(axis.name for axis in item.axes)
        self._prepare((item,), changing)
        own_lanes = lanes if self.schedule.vector_axis is None else 1
        start = self.initial(item, lanes)
        values = self._axes_loop(item, item.axes, own_lanes, start)
        self.finish(item, values, own_lanes)

    def initial(self, item: Pass, lanes: int) -> list[Value]:
        """Return the accumulators of a pass before its first element."""
        foldings = [Folding(self.emitter, item, reduction) for reduction in item.reductions]
        return [value for folding in foldings for value in folding.start(lanes)]

    def _axes_loop(
        self, item: Pass, axes: tuple[Axis, ...], lanes: int, values: list[Value]
    ) -> list[Value]:
        axis, *inner = axes
        low: IndexValue = 0
        high = self.emitter.index(axis.extent)
        if self.bounds is not None and axis is item.axes[0]:
            low, high = self.bounds
        if inner:
            # Nothing bounds how many rows there are if they have no elements.
            row = product(one.extent for one in inner)
            if not always_positive(row):
                high = self.f.imul(high, self.emitter.index(minimum(row, 1)))

            def body(position: IndexValue, carried: list[Value]) -> list[Value]:
                self.emitter.names[axis.name] = position
                self.emitter.open_scope()
                self._prepare((item,), frozenset(a.name for a in inner))
                results = self._axes_loop(item, tuple(inner), lanes, carried)
                self.emitter.close_scope()
                return results

            return self._for_each(low, high, values, body)
        if lanes > 1:
            part = self.part_length if axis is item.axes[0] else 0
            whole = divides(lanes, axis.extent, part)
            aligned = lanes if divides(lanes, part) else 1
            peeled = self._peeled(self.kernel.passes.index(item), item.stores)
            return self.vectorize(
                Strip(axis.name, low, high, lanes, whole, aligned, peeled),
                values,
                lambda carried: self._point(item, carried),
                self._gathers(item),
            )

        def scalar(position: IndexValue, carried: list[Value]) -> list[Value]:
            self.emitter.names[axis.name] = position
            self.emitter.open_scope()
            results = self._point(item, carried)
            self.emitter.close_scope()
            return results

        return self._innermost(low, high, values, scalar)

    def _innermost(
        self,
        low: IndexValue,
        high: IndexValue,
        values: list[Value],
        body: Callable[[IndexValue, list[Value]], list[Value]],
    ) -> list[Value]:
        """Run `body` at each position of a pass's last axis that this unit visits: all of them."""
        return self._for_each(low, high, values, body)

    def _for_each(
        self,
        low: IndexValue,
        high: IndexValue,
        values: list[Value],
        body: Callable[[IndexValue, list[Value]], list[Value]],
    ) -> list[Value]:
        """Run `body` at each position: in a loop, or in a copy each where the schedule says so."""
        if not self.schedule.unrolls_passes:
            return self.f.loop(low, high, 1, values, body)
        assert isinstance(low, int), "an unrolled loop has a known length"
        assert isinstance(high, int), "an unrolled loop has a known length"
        for position in range(low, high):
            values = body(position, values)
        return values

    def _point(self, item: Pass, carried: list[Value]) -> list[Value]:
        """Emit one point (or vector) of a pass; return the new accumulators."""
        emitter = self.emitter
        results: list[Value] = []
        own = {axis.name for axis in item.axes}
        offset = 0
        for reduction in item.reductions:
            count = len(reduction.inputs)
            old = carried[offset : offset + count]
            offset += count
            inputs = [
                emitter.vector_value(value, accumulator.type.lanes)
                for value, accumulator in zip(reduction.inputs, old, strict=True)
            ]
            if item.is_running and emitter.lanes is not None and emitter.lanes.axis in own:
                found, new = scan_lanes(emitter, reduction, old[0], inputs[0])
                self._bind_running(reduction, [found], item)
                results.append(new)
                continue
            folding = Folding(emitter, item, reduction)
            new = self._masked(folding.step(tuple(old), tuple(inputs)), old)
            results.extend(new)
            if item.is_running:
                self._bind_running(reduction, new, item)
        emitter.store_all(item.stores)
        return results

    def _bind_running(self, reduction: Reduction, values: list[Value], item: Pass) -> None:
        """Make what a scan has folded so far known to the stores of this point."""
        names = frozenset(axis.name for axis in (*self.kernel.grid, *item.axes))
        for number, (value, found) in enumerate(zip(reduction.inputs, values, strict=True)):
            expr = make("reduced", value.dtype, (), (reduction.number, number, names))
            self.emitter.bind(expr, found)
        self.emitter.bind(("reduction", reduction.number), values[0])

    def _masked(self, new: tuple[Value, ...], old: list[Value]) -> list[Value]:
        lanes = self.emitter.lanes
        if lanes is None or lanes.mask is None or self.schedule.vector_axis is not None:
            return list(new)
        return [self.f.select(lanes.mask, a, b) for a, b in zip(new, old, strict=True)]

    def finish(self, item: Pass, values: list[Value], lanes: int) -> None:
        """Fold lanes, apply initial values, bind the reductions' results."""
        offset = 0
        for reduction in () if item.is_running else item.reductions:
            count = len(reduction.inputs)
            parts = tuple(values[offset : offset + count])
            offset += count
            folding = Folding(self.emitter, item, reduction)
            self.bind(reduction, folding.finished(self._joined(folding, parts, lanes)))

    def _joined(self, folding: Folding, parts: tuple[Value, ...], lanes: int) -> tuple[Value, ...]:
        """Return the accumulators of all who folded elements of the pass: of its lanes."""
        return folding.joined(parts) if lanes > 1 else parts

    def bind(self, reduction: Reduction, parts: tuple[Value, ...]) -> None:
        """Make the finished values of a reduction known to the emitter."""
        emitter = self.emitter
        names = frozenset(axis.name for axis in self.kernel.grid)
        for number, (value, part) in enumerate(zip(reduction.inputs, parts, strict=True)):
            expr = make("reduced", value.dtype, (), (reduction.number, number, names))
            emitter.bind(expr, part)
        emitter.bind(("reduction", reduction.number), parts[0])


def divides(lanes: int, *sizes: int | Dim) -> bool:
    """Whether every one of `sizes` is known to be a multiple of `lanes`."""
    return all(dim.known_multiple_of(size, lanes) for size in sizes)


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
