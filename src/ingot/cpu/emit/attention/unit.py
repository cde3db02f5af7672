# SPDX-License-Identifier: Apache-2.0
"""Units of an attention kernel: a block of query rows, past which blocks of keys go.

`kernel` says what a unit does. Its products run in the micro-kernels of contractions; `tiles` has
the unit whose products run in tiles.

Invariant: a unit writes its own rows of the results, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ingot.cpu.emit.attention.rows import Rows, Tiles
from ingot.cpu.emit.contraction.microkernel import Matrix
from ingot.cpu.emit.contraction.packing import Packer, Panels, Span, cell_type
from ingot.cpu.emit.contraction.register_blocks import RegisterBlocks
from ingot.cpu.emit.kernel_abi import scratch_of
from ingot.cpu.emit.template import Template
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.values import ValueEmitter
from ingot.kernel.attention.schedule import AttentionSchedule, least_seen
from ingot.kernel.contraction.micro_blocks import MicroBlock
from ingot.kernel.contraction.operands import stride
from ingot.kernel.expr import Expr
from ingot.kernel.ir import AttentionKernel, Axis
from ingot.llvm import types as lt
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.target import TargetSpec
from ingot.llvm.values import Value
from ingot.support.records import replace

FLAG_BYTES = 8
"""Bytes of scratch for each batch element."""


class UnitEmitter:
    """Emits the units of one kernel into one function.

    Attributes:
        shared: the templates that are called, by name.
    """

    def __init__(
        self,
        emitter: ValueEmitter,
        kernel: AttentionKernel,
        schedule: AttentionSchedule,
        target: TargetSpec,
    ) -> None:
        """Emit `kernel` as `schedule` says, into the emitter's function."""
        self.f = emitter.f
        self.emitter = emitter
        self.kernel = kernel
        self.schedule = schedule
        self.cell = cell_type(kernel.accumulate)
        self.packer = Packer(emitter, kernel.accumulate, schedule.lanes)
        # Squares that are transposed may end behind the last k.
        self.queries = self.room(schedule.rows * schedule.depth)
        self.tiles = Tiles(
            self.room(schedule.keys * schedule.rows),
            self.room(schedule.rows * schedule.width),
            schedule.width,
        )
        self.keys, self.values = (
            None if is_read else self.room(schedule.keys * size)
            for is_read, size in (
                (schedule.reads_keys, schedule.depth),
                (schedule.reads_values, schedule.width),
            )
        )
        self.shared = dict[str, Template]()
        self.rows = self.open_products(target)

    def open_products(self, target: TargetSpec) -> Rows:
        """Make what the products run in; return what computes the rows."""
        kernel, schedule = self.kernel, self.schedule
        self.scores = RegisterBlocks(
            self.f,
            *(kernel.accumulate, schedule.lanes, schedule.columns),
            target.has_fma,
            self.shared,
        )
        self.sums = replace(self.scores, panel=None)
        return Rows(self.packer, kernel, schedule, self.tiles)

    def room(self, size: int) -> Value:
        """Return the address of `size` cells on the stack."""
        return self.f.alloca(self.cell, size, LINE_BYTES)

    # ---- units

    def emit(self, unit: Value) -> None:
        """Emit unit number `unit`."""
        f, kernel, names = self.f, self.kernel, self.emitter.names
        m_extent = self.emitter.index(kernel.m.extent)
        n_extent = self.emitter.index(kernel.n.extent)
        rows = self.schedule.rows
        blocks = f.iceildiv(m_extent, rows)
        names[kernel.batch.name] = 0 if kernel.batch.extent == 1 else f.idiv(unit, blocks)
        m = Span.of_block(f, kernel.m.name, f.irem(unit, blocks), rows, m_extent)
        self.pack_queries(m)
        self.rows.open()
        if not self.schedule.bounds:
            self._keys(m, 0, n_extent)
        else:
            first, last = self._seen(m, n_extent)
            f.for_range(3, lambda part: self._part(m, part, (first, last, n_extent)))
        self.rows.close(m)

    def pack_queries(self, m: Span) -> None:
        """Emit the packing of the unit's queries."""
        kernel, schedule = self.kernel, self.schedule
        panels = Panels(schedule.columns, schedule.depth, schedule.transposes_queries)
        k = Span(kernel.k.name, 0, kernel.k.known_extent)
        self.packer.panels(kernel.lhs, self.queries, m, k, panels)

    def _keys(self, m: Span, first: IndexValue, last: IndexValue) -> None:
        """Emit the blocks of keys from `first` to `last`."""
        f = self.f

        def block(start: Value) -> None:
            count = f.imin(f.isub(last, start), self.schedule.keys)
            self.block(m, Span(self.kernel.n.name, start, count))

        f.for_range(last, block, start=first, step=self.schedule.keys)

    def _seen(self, m: Span, extent: IndexValue) -> tuple[Value, Value]:
        """Return the first key that a row of the unit may see, and the one behind the last."""
        f, emitter = self.f, self.emitter
        first: IndexValue = 0
        last = extent
        for low in self.schedule.bounds.low:
            first = f.imax(first, f.iadd(m.start, emitter.index(low)))
        for high in self.schedule.bounds.high:
            behind = f.iadd(f.iadd(m.start, m.count), emitter.index(high))
            last = f.imin(last, behind)
        first = f.imin(first, extent)
        return f.as_value(first), f.as_value(f.imax(last, first))

    def _part(self, m: Span, part: Value, bounds: tuple[Value, Value, IndexValue]) -> None:
        """Emit the keys that rows see (part 0), then those behind and before if they count."""
        f = self.f
        first, last, extent = bounds
        zero, is_seen = f.const(lt.I64, 0), f.as_condition(f.ieq(part, 0))
        (counts,) = f.if_(is_seen, lambda: [f.const(lt.I1, 0)], lambda: [self._counts(m)])
        is_behind = f.as_condition(f.ieq(part, 1))
        start = f.select(is_seen, first, f.select(is_behind, last, zero))
        stop = f.select(is_behind, f.as_value(extent), first)
        self._keys(m, start, f.select(is_seen, last, f.select(counts, stop, zero)))

    def _counts(self, m: Span) -> Value:
        """Return whether keys that no row sees count: they have a weight, or are not finite."""
        f, emitter = self.f, self.emitter
        batch = emitter.names[self.kernel.batch.name]
        flags = scratch_of(f, len(self.kernel.buffers))
        flag = f.load(lt.I64, f.gep(flags, batch, lt.I64), 8)
        is_finite = f.icmp("eq", flag, f.const(lt.I64, 0))
        is_low = f.const(lt.I1, 0)
        if self.schedule.bounds.floor > -math.inf:
            is_low = self.rows.is_low(m, least_seen(self.kernel, self.schedule.bounds))
        return f.or_(is_low, f.not_(is_finite))

    def block(self, m: Span, n: Span) -> None:
        """Emit one block of keys: scores, powers, and their products with the values."""
        f, schedule = self.f, self.schedule
        kernel = self.kernel
        keys = self._operand(n, kernel.k, kernel.rhs, self.keys, schedule.depth)
        values = self._operand(n, kernel.e, kernel.values, self.values, schedule.width)

        f.for_range(m.count, lambda first: self._products(keys, n, first), step=schedule.columns)
        self.rows.softmax(m, n)
        cut = schedule.tall * (schedule.low + 1)
        for start, stop, blocks in zip((0, cut), (cut, schedule.rows), schedule.sums, strict=True):
            self._row_blocks(values, n, (start, f.imin(stop, m.count)), blocks)

    def _operand(
        self, n: Span, axis: Axis, operand: Expr, buffer: Value | None, step: int
    ) -> Matrix:
        """Return a block of keys or values: where it lies, or packed."""
        span = Span(axis.name, 0, axis.known_extent)
        if buffer is not None:
            self.packer.rows(operand, buffer, n, span, step)
            return Matrix(buffer, step, 1)
        emitter, where = self.emitter, operand.payload.index
        emitter.names.update({n.axis: n.start, axis.name: 0})
        base = emitter.buffers[operand.payload.buffer]
        along = stride(where, n.axis)
        assert along is not None, "only plain operands are read in place"
        address = self.f.gep(base, emitter.index(where), self.cell)
        return Matrix(address, emitter.index(along), 1)

    # ---- products

    def _products(self, keys: Matrix, n: Span, first: Value) -> None:
        """Emit the products of a block of keys with the queries from `first` on."""
        f, schedule = self.f, self.schedule
        panel = f.gep(self.queries, f.imul(first, self.schedule.depth), self.cell)
        queries = Matrix(panel, schedule.columns, 1)

        def at(block: MicroBlock) -> Callable[[Value], None]:
            def multiply(start: Value) -> None:
                where = f.iadd(f.imul(start, schedule.rows), first)
                sums = Matrix(f.gep(self.tiles.scores, where, self.cell), schedule.rows, 1)
                rows = keys.at(f.gep(keys.address, f.imul(start, keys.row_step), self.cell))
                depth = self.kernel.k.known_extent
                self.scores.multiply(block, (rows, queries, sums), depth, False, schedule.columns)

            return multiply

        whole_keys, *tails = schedule.scores
        whole = f.imul(f.idiv(n.count, whole_keys.rows), whole_keys.rows)
        f.for_range(whole, at(whole_keys), step=whole_keys.rows)
        for block in tails:
            left = f.isub(n.count, whole)
            following = f.iadd(whole, f.imul(f.idiv(left, block.rows), block.rows))
            f.for_range(following, at(block), start=whole, step=block.rows)
            whole = following

    def _row_blocks(
        self,
        values: Matrix,
        n: Span,
        rows: tuple[IndexValue, IndexValue],
        blocks: tuple[MicroBlock, ...],
    ) -> None:
        """Emit the products of powers and values for the unit's rows from one to another."""
        f, schedule, (widest, *rest) = self.f, self.schedule, blocks
        width = self.kernel.e.known_extent
        whole = width // widest.columns * widest.columns

        def row_block(first: Value) -> None:
            powers = f.gep(self.tiles.scores, first, self.cell)
            lhs = Matrix(powers, 1, schedule.rows)

            def run(column: IndexValue, block: MicroBlock) -> None:
                rhs = values.at(f.gep(values.address, column, self.cell))
                where = f.iadd(f.imul(first, schedule.width), column)
                sums = Matrix(f.gep(self.tiles.sums, where, self.cell), schedule.width, 1)
                self.sums.multiply(block, (lhs, rhs, sums), n.count, True, block.columns)

            f.for_range(whole, lambda column: run(column, widest), step=widest.columns)
            for block in rest:
                run(whole, block)

        f.for_range(rows[1], row_block, start=rows[0], step=widest.rows)
