# SPDX-License-Identifier: Apache-2.0
"""Attention kernels as LLVM functions: `void k(ptr env, i64 chunk)`.

A chunk runs its units: a block of query rows of one batch element each. The queries are packed once
as the right side of the first product. For each block of keys a unit then

* multiplies them: micro-kernels write a tile of scores, one key a row, lanes along the queries;
* makes scores of the products, and their greatest so far (`softmax`);
* makes powers of the scores in place, adds them up, and corrects what earlier blocks gave by how
  far the greatest has risen;
* multiplies the powers with the values: micro-kernels add to a tile of sums.

The stores take the sums at the end. Products run in the micro-kernels that contractions have, those
of the library where it has them. Keys that a mask leaves out for all rows of a unit
(`kernel.attention.bounds`) are not multiplied.

Invariant: a unit writes its own rows of the results and nothing else; blocks of keys come in order,
so that results are the same for every number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from ingot.cpu.emit.attention.finite import FLAG_BYTES, emit_finite_check
from ingot.cpu.emit.attention.rows import Rows, Tiles
from ingot.cpu.emit.contraction.microkernel import Matrix
from ingot.cpu.emit.contraction.packing import Packer, Panels, Span, cell_type
from ingot.cpu.emit.contraction.register_blocks import (
    Factors,
    common_micro_kernel,
    own_micro_kernel,
)
from ingot.cpu.emit.kernel_abi import EmittedKernel, Phase, for_units, open_kernel, scratch_of
from ingot.cpu.emit.template import Template, template_of
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.values import ValueEmitter
from ingot.hlo.dim import Dim
from ingot.kernel.attention.bounds import key_bounds, least_seen
from ingot.kernel.attention.schedule import AttentionSchedule
from ingot.kernel.contraction.operands import is_plain, stride
from ingot.kernel.expr import Expr
from ingot.kernel.ir import AttentionKernel, Axis
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.target import TargetSpec
from ingot.llvm.values import Value

TAIL_KEYS = (4, 1)
"""Heights of the register blocks for keys left over when their number is not known."""


def emit_attention_kernel(
    module: ModuleBuilder,
    symbol: str,
    kernel: AttentionKernel,
    schedule: AttentionSchedule,
    target: TargetSpec,
) -> EmittedKernel:
    """Emit the function of an attention kernel into `module`."""
    count = len(kernel.buffers)
    f, emitter, chunk = open_kernel(module, symbol, count, kernel.symbols, target.has_fma)
    unit = UnitEmitter(emitter, kernel, schedule, target)
    for_units(f, chunk, schedule.grain, emitter.index(schedule.units), unit.emit)
    f.ret()
    phases = [Phase(symbol, schedule.chunks)]
    scratch: int | Dim = 0
    if unit.bounds:
        emit_finite_check(module, f"{symbol}_finite", kernel, schedule, target)
        phases.insert(0, Phase(f"{symbol}_finite", kernel.batch.extent))
        scratch = kernel.batch.extent * FLAG_BYTES
    return EmittedKernel(
        tuple(phases),
        count,
        kernel.symbols,
        scratch_bytes=scratch,
        templates=tuple(unit.shared.values()),
    )


class UnitEmitter:
    """Emits the units of one kernel into one function; `shared`: library code that it calls."""

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
        self.target = target
        self.cell = cell_type(kernel.accumulate)
        self.packer = Packer(emitter, kernel.accumulate, schedule.lanes)
        self.shared: dict[str, Template] = {}
        self.bounds = key_bounds(kernel)
        self.depth, self.width = _known(kernel.k), _known(kernel.e)
        self.reads_keys = self._lies_along(kernel.rhs, kernel.k)
        self.reads_values = self._lies_along(kernel.values, kernel.e)
        self.padded_depth, self.padded_width = map(self._padded, (self.depth, self.width))
        # Squares that are transposed may end behind the last k.
        self.queries = self._room(schedule.rows * self.padded_depth)
        self.tiles = Tiles(
            self._room(schedule.keys * schedule.rows),
            self._room(schedule.rows * self.padded_width),
            self.padded_width,
        )
        self.keys = None if self.reads_keys else self._room(schedule.keys * self.padded_depth)
        self.values = None if self.reads_values else self._room(schedule.keys * self.padded_width)
        self.rows = Rows(self.packer, kernel, schedule, self.tiles)

    def _lies_along(self, operand: Expr, axis: Axis) -> bool:
        """Whether keys or values can be read where they lie: dense along `axis`."""
        names = (self.kernel.n.name, axis.name)
        if not is_plain(operand, names, self.kernel.accumulate):
            return False
        return axis.extent == 1 or stride(operand.payload.index, axis.name) == 1

    def _padded(self, size: int) -> int:
        return -(-size // self.schedule.lanes) * self.schedule.lanes

    def _room(self, size: int) -> Value:
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
        columns = self.schedule.columns
        form = Panels(columns, self.padded_depth, self._walks(kernel.lhs))
        self.packer.panels(kernel.lhs, self.queries, m, Span(kernel.k.name, 0, self.depth), form)
        self.rows.open()
        if not self.bounds:
            self._keys(m, 0, n_extent)
        else:
            first, last = self._seen(m, n_extent)
            f.for_range(3, lambda part: self._part(m, part, (first, last, n_extent)))
        self.rows.close(m)

    def _walks(self, operand: Expr) -> bool:
        """Whether the loads of the queries walk along k."""
        names = (self.kernel.m.name, self.kernel.k.name)
        if operand.op != "load":
            return False
        along = [stride(operand.payload.index, name) for name in names]
        return along[1] == 1 and along[0] != 1

    def _keys(self, m: Span, first: IndexValue, last: IndexValue) -> None:
        """Emit the blocks of keys from `first` to `last`."""
        f = self.f

        def block(start: Value) -> None:
            count = f.imin(f.isub(last, start), self.schedule.keys)
            self._block(m, Span(self.kernel.n.name, start, count))

        f.for_range(last, block, start=first, step=self.schedule.keys)

    def _seen(self, m: Span, extent: IndexValue) -> tuple[Value, Value]:
        """Return the first key that a row of the unit may see, and the one behind the last."""
        f, emitter = self.f, self.emitter
        first: IndexValue = 0
        last = extent
        for low in self.bounds.low:
            first = f.imax(first, f.iadd(m.start, emitter.index(low)))
        for high in self.bounds.high:
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
        if self.bounds.floor > -math.inf:
            is_low = self.rows.is_low(m, least_seen(self.kernel, self.bounds))
        return f.or_(is_low, f.not_(is_finite))

    def _block(self, m: Span, n: Span) -> None:
        """Emit one block of keys: scores, powers, and their products with the values."""
        f, schedule = self.f, self.schedule
        keys = self._operand(n, self.kernel.k, self.kernel.rhs, self.keys, self.padded_depth)
        values = self._operand(n, self.kernel.e, self.kernel.values, self.values, self.padded_width)

        f.for_range(m.count, lambda first: self._products(keys, n, first), step=schedule.columns)
        self.rows.softmax(m, n)
        cut = schedule.tall * (schedule.low + 1)
        for start, stop, height in ((0, cut, schedule.low + 1), (cut, schedule.rows, schedule.low)):
            self._row_blocks(values, n, (start, f.imin(stop, m.count)), height)

    def _operand(
        self, n: Span, axis: Axis, operand: Expr, buffer: Value | None, step: int
    ) -> Matrix:
        """Return a block of keys or values: where it lies, or packed."""
        span = Span(axis.name, 0, _known(axis))
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
        panel = f.gep(self.queries, f.imul(first, self.padded_depth), self.cell)
        queries = Matrix(panel, schedule.columns, 1)

        def at(height: int) -> Callable[[Value], None]:
            def block(start: Value) -> None:
                where = f.iadd(f.imul(start, schedule.rows), first)
                sums = Matrix(f.gep(self.tiles.scores, where, self.cell), schedule.rows, 1)
                rows = keys.at(f.gep(keys.address, f.imul(start, keys.row_step), self.cell))
                self._run(
                    (rows, queries, sums), height, schedule.columns, self.depth, goes_on=False
                )

            return block

        whole = f.imul(f.idiv(n.count, schedule.block_keys), schedule.block_keys)
        f.for_range(whole, at(schedule.block_keys), step=schedule.block_keys)
        for height in self._tails():
            left = f.isub(n.count, whole)
            following = f.iadd(whole, f.imul(f.idiv(left, height), height))
            f.for_range(following, at(height), start=whole, step=height)
            whole = following

    def _tails(self) -> Iterator[int]:
        """Yield the heights of the register blocks behind whole ones."""
        extent, most = self.kernel.n.extent, self.schedule.block_keys
        is_cut = bool(self.bounds)
        if isinstance(extent, int) and not is_cut:
            yield from (extent % most,) * (extent % most > 0)
            return
        yield from (height for height in TAIL_KEYS if height < most)

    def _row_blocks(
        self, values: Matrix, n: Span, rows: tuple[IndexValue, IndexValue], height: int
    ) -> None:
        """Emit the products of powers and values for the unit's rows from one to another."""
        f, schedule = self.f, self.schedule
        columns = schedule.columns
        whole, rest = self.width // columns * columns, self.width % columns

        def block(first: Value) -> None:
            powers = f.gep(self.tiles.scores, first, self.cell)
            lhs = Matrix(powers, 1, schedule.rows)

            def run(column: IndexValue, width: int) -> None:
                rhs = values.at(f.gep(values.address, column, self.cell))
                where = f.iadd(f.imul(first, self.padded_width), column)
                sums = Matrix(f.gep(self.tiles.sums, where, self.cell), self.padded_width, 1)
                self._run((lhs, rhs, sums), height, width, n.count, goes_on=True)

            f.for_range(whole, lambda column: run(column, columns), step=columns)
            if rest:
                run(whole, rest)

        f.for_range(rows[1], block, start=rows[0], step=height)

    def _run(
        self,
        matrices: tuple[Matrix, Matrix, Matrix],
        rows: int,
        width: int,
        depth: IndexValue,
        *,
        goes_on: bool,
    ) -> None:
        """Emit a register block; `goes_on`: its sums are added to those in memory."""
        panel = None if goes_on else self.schedule.columns
        given = Factors(self.kernel.accumulate, matrices, self.schedule.lanes, panel)
        micro = common_micro_kernel(given, self.target, rows, width)
        if micro is None:
            micro = own_micro_kernel(given, self.target, rows, width)
        else:
            self.shared[micro.name] = template_of(micro)
        micro.call(self.f, matrices, depth, goes_on, width)


def _known(axis: Axis) -> int:
    extent: int | Dim = axis.extent
    assert isinstance(extent, int), "attention fusion takes known depths alone"
    return extent
