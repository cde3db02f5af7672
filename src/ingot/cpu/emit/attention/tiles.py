# SPDX-License-Identifier: Apache-2.0
"""Units of attention whose products are of tiles: bf16 on CPUs with AMX.

Words hold two elements: of queries and keys two along the depth, of powers and values two keys. So
powers, whose lanes run along the queries, are words of the second product's rhs as soon as those of
two keys are put together, and its lhs are the values, transposed. Its sums lie transposed too, like
scores: `width` by rows. They are turned around before they are stored.

Powers are rounded to bf16 before they meet the values, as weights are in HLO; their sums are not.

Invariant: words behind the last key of a block are zero in powers and values.
"""

from __future__ import annotations

from ingot.cpu.emit.attention.rows import Rows, Tiles
from ingot.cpu.emit.attention.unit import UnitEmitter
from ingot.cpu.emit.contraction.block_function import call_block
from ingot.cpu.emit.contraction.packing import Packer, Panels, Span
from ingot.cpu.emit.product.tiles import PALETTE, TileKernel
from ingot.cpu.emit.product.word_packing import WordPacker
from ingot.cpu.emit.template import template_of
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.squares import transpose
from ingot.hlo.dtype import BF16, F32
from ingot.kernel.attention.schedule import TILE_FACTORS, TILE_ROWS, AttentionSchedule
from ingot.kernel.ir import AttentionKernel
from ingot.kernel.product.blocks import SQUARE
from ingot.kernel.product.tiles import SIDE
from ingot.kernel.product.variant import WORD_BYTES, ProductVariant
from ingot.llvm import types as lt
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import vector
from ingot.llvm.values import Value

WORDS = ProductVariant(
    F32, SIDE, "transposed", True, operands=(BF16, BF16), factors=TILE_FACTORS, has_tiles=True
)
"""How operands are packed."""

STEP_WORDS = TILE_ROWS // TILE_FACTORS


class TileUnitEmitter(UnitEmitter):
    """Emits the units of one kernel into one function."""

    def open_products(self, target: TargetSpec) -> Rows:
        """Make room for the words of powers; return what computes the rows."""
        kernel, schedule = self.kernel, self.schedule
        self.powers = self.room(schedule.keys // TILE_FACTORS * schedule.rows)
        # Known extents as values: packing counts them in words.
        self.depth = Span(kernel.k.name, 0, self.f.const(lt.I64, kernel.k.known_extent))
        return TileRows(self.packer, kernel, schedule, self.tiles, self.powers)

    def emit(self, unit: Value) -> None:
        """Emit unit number `unit`."""
        _shape_tiles(self)
        super().emit(unit)
        self.f.intrinsic("llvm.x86.tilerelease", lt.VOID, [])

    def pack_queries(self, m: Span) -> None:
        """Emit the packing of the unit's queries."""
        schedule = self.schedule
        panels = Panels(TILE_ROWS, schedule.depth, schedule.transposes_queries)
        packer = WordPacker(self.emitter, WORDS, self.depth)
        packer.panels(self.kernel.lhs, self.queries, m, self.depth, panels)

    def block(self, m: Span, n: Span) -> None:
        """Emit one block of keys: scores, powers, and their products with the values."""
        f, kernel, schedule = self.f, self.kernel, self.schedule
        assert self.keys is not None
        assert self.values is not None
        keys, values, rows = self.keys, self.values, schedule.rows
        WordPacker(self.emitter, WORDS, self.depth).rows(
            kernel.rhs, keys, n, self.depth, schedule.depth
        )
        columns = Span(kernel.e.name, 0, kernel.e.known_extent)
        row_step = schedule.keys // TILE_FACTORS
        packer = WordPacker(self.emitter, WORDS, n)
        packer.transposed_rows(kernel.values, values, columns, n, row_step)

        def scores(first: Value) -> None:
            panel = f.gep(self.queries, f.imul(first, schedule.depth), self.cell)

            def at(key: Value) -> None:
                lhs = f.gep(keys, f.imul(key, schedule.depth), self.cell)
                target = f.gep(self.tiles.scores, f.iadd(f.imul(key, rows), first), self.cell)
                steps = (schedule.depth, TILE_ROWS)
                self._multiply((lhs, panel, target), schedule.depth, steps, goes_on=False)

            f.for_range(n.count, at, step=TILE_ROWS)

        f.for_range(m.count, scores, step=TILE_ROWS)
        self.rows.softmax(m, n)
        words = f.imul(f.iceildiv(n.count, TILE_ROWS), STEP_WORDS)

        def sums(first: Value) -> None:
            powers = f.gep(self.powers, first, self.cell)

            def at(column: Value) -> None:
                lhs = f.gep(values, f.imul(column, row_step), self.cell)
                target = f.gep(self.tiles.sums, f.iadd(f.imul(column, rows), first), self.cell)
                self._multiply((lhs, powers, target), words, (row_step, rows), goes_on=True)

            f.for_range(schedule.width, at, step=TILE_ROWS)

        f.for_range(m.count, sums, step=TILE_ROWS)

    def _multiply(
        self,
        matrices: tuple[Value, Value, Value],
        words: IndexValue,
        steps: tuple[int, int],
        *,
        goes_on: bool,
    ) -> None:
        """Emit a product of two by two tiles; `steps` from row to row of lhs and rhs, in words."""
        f, (lhs_row, rhs_row) = self.f, steps
        found = TileKernel(lt.F32, (True, True), 2, 2, rhs_row)
        self.shared[found.name] = template_of(found)
        flag, columns = f.const(lt.I1, int(goes_on)), f.const(lt.I64, TILE_ROWS)
        arguments = [*matrices, f.as_value(words), flag, columns]
        call_block(f, found, arguments, (lhs_row, rhs_row, self.schedule.rows))


def _shape_tiles(unit: TileUnitEmitter) -> None:
    """Emit eight whole tiles, of 16 rows of 16 words."""
    f = unit.f
    words = [PALETTE, 0, *[0x0001000100010001 * SIDE * WORD_BYTES] * 2, 0, 0]
    words += [0x0101010101010101 * SIDE, 0]
    shapes = f.alloca(lt.I64, len(words), LINE_BYTES)
    for number, word in enumerate(words):
        f.store(f.const(lt.I64, word), f.gep(shapes, number, lt.I64), lt.I64.bytes)
    f.intrinsic("llvm.x86.ldtilecfg", lt.VOID, [shapes])


class TileRows(Rows):
    """Emits what becomes of the rows of a unit; sums lie transposed."""

    def __init__(
        self,
        packer: Packer,
        kernel: AttentionKernel,
        schedule: AttentionSchedule,
        tiles: Tiles,
        powers: Value,
    ) -> None:
        """Write words of powers to `powers`, two keys by rows."""
        super().__init__(packer, kernel, schedule, tiles)
        self.words = powers
        self.stored = self.f.alloca(self.cell, schedule.rows * tiles.width, LINE_BYTES)

    def powers(self, n: Span, first: Value, shift: Value) -> Value:
        """Emit the words of powers of the rows from `first` on; return the sum of the powers."""
        f, lanes = self.f, self.count
        wide = vector(lt.I32, lanes)
        half = f.const(wide, lt.BF16.bits)

        def bits(power: Value) -> Value:
            rounded = f.fptrunc(power, vector(lt.BF16, lanes))
            return f.zext(f.bitcast(rounded, vector(lt.I16, lanes)), wide)

        def keep(word: Value, number: IndexValue) -> None:
            where = f.iadd(f.imul(number, self.schedule.rows), first)
            f.store(word, f.gep(self.words, where, lt.I32), lt.I32.alignment)

        def pair(number: Value, carried: list[Value]) -> list[Value]:
            key = f.imul(number, TILE_FACTORS)
            even = self.power_of_score(key, first, shift)
            odd = self.power_of_score(f.iadd(key, 1), first, shift)
            keep(f.or_(bits(even), f.shl(bits(odd), half)), number)
            return [f.add(carried[0], f.add(even, odd))]

        pairs = f.idiv(n.count, TILE_FACTORS)
        (total,) = f.loop(0, pairs, 1, [f.zero(self.wide)], pair)

        def last() -> list[Value]:
            power = self.power_of_score(f.isub(n.count, 1), first, shift)
            keep(bits(power), pairs)
            return [f.add(total, power)]

        is_odd = f.as_condition(f.ilt(f.imul(pairs, TILE_FACTORS), n.count))
        (total,) = f.if_(is_odd, last, lambda: [total])
        end = f.imul(f.iceildiv(n.count, TILE_ROWS), STEP_WORDS)
        start = f.iceildiv(n.count, TILE_FACTORS)
        f.for_range(end, lambda number: keep(f.zero(wide), number), start=start)
        return total

    def correct_sums(self, first: Value) -> None:
        """Emit the products of sums of some rows and their factors."""
        f = self.f
        factors = self._load(self.factors, first)

        def column(number: Value) -> None:
            where = f.iadd(f.imul(number, self.schedule.rows), first)
            self._keep(f.mul(self._load(self.sums, where), factors), self.sums, where)

        f.for_range(self.width, column)

    def close(self, m: Span) -> None:
        """Emit the stores of all rows."""
        f, rows = self.f, self.schedule.rows
        self._settle_all(m)
        some = vector(self.cell, SQUARE)

        def square(row: Value, column: Value) -> None:
            lines = [
                f.load(
                    some,
                    self._at(self.sums, f.iadd(f.imul(f.iadd(column, n), rows), row)),
                    self.cell.alignment,
                )
                for n in range(SQUARE)
            ]
            for number, line in enumerate(transpose(f, lines)):
                where = f.iadd(f.imul(f.iadd(row, number), self.width), column)
                f.store(line, self._at(self.stored, where), self.cell.alignment)

        def group(row: Value) -> None:
            f.for_range(self.width, lambda column: square(row, column), step=SQUARE)

        f.for_range(m.count, group, step=SQUARE)
        self._store_all(m, self.stored)
