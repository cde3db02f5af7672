"""The driver of plain products: `void product(ptr env, i64 chunk)` for every size.

What a contraction kernel has as constants are loads from env here (`kernel.product.PARAMETERS`);
the micro-kernels of the two heights, whole and masked, are addresses in env. One driver for each
element type and placement of the rhs serves all plain products of the process. Drivers that pack
both operands are in `product_ahead`. Sums go to the result, or to a tile on the stack, from where
an epilogue takes the rows of each row block.

Invariant: a unit writes its own elements of the result and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.cpu.emit.drivers import open_driver
from ingot.cpu.emit.microkernel import MicroKernel, shared
from ingot.cpu.emit.packing import Packer, Span, cell_type
from ingot.cpu.emit.values import ValueEmitter
from ingot.hlo.dim import Dim
from ingot.kernel import expr as ex
from ingot.kernel.contraction_schedule import PACK_BYTES, TILE_BYTES
from ingot.kernel.expr import Access, Expr
from ingot.kernel.product import PARAMETERS, Form
from ingot.kernel.register_block import VECTORS
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.values import Value

MICRO_KERNELS = ("low", "tall", "low_rest", "tall_rest")
"""Slots of micro-kernels behind the parameters; `rest`: columns behind the whole blocks."""


def micro_kernel(form: Form, rows: int, *, masked: bool) -> MicroKernel:
    """Return the micro-kernel of a product's row blocks."""
    a_step = 1 if form.is_dense else None
    cell = cell_type(form.element)
    return shared(cell, form.lanes, rows, VECTORS, masked=masked, a_step=a_step)


def emit_product_driver(module: ModuleBuilder, symbol: str, form: Form) -> None:
    """Emit the driver of a form of products."""
    emit_units(ProductDriver(module, symbol, form))


def emit_units(driver: ProductDriver) -> None:
    """Emit the function of a driver that runs a chunk's units."""
    f, given = driver.f, driver.given
    first = f.mul(driver.chunk, given["grain"])
    last = f.imin(f.iadd(first, given["grain"]), given["units"])
    f.loop(first, last, 1, [], lambda unit, _: driver.unit(unit))
    f.ret()


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of k of a unit.

    Attributes:
        lhs, rhs, out: first elements of the operands and the sums; the lhs begins with the matrix's
            first row, the sums with the unit's, the rhs and the sums with its first column.
        start, depth: where the piece begins, and how many products it has.
        batch: number of the matrix.
        rows: numbers of the first row block, and of the first behind.
        column, columns: first column, and how many there are.
        accumulate: whether `out` holds the sums of the pieces before.
        is_last: whether no piece follows.
    """

    lhs: Value
    rhs: Value
    out: Value
    start: Value
    depth: Value
    batch: Value
    rows: tuple[Value, Value]
    column: Value
    columns: Value
    accumulate: Value
    is_last: Value


class ProductDriver:
    """Emits one function of a driver; `given` are its parameters."""

    TILE_BYTES = TILE_BYTES
    """Bytes of the sums that wait for an epilogue."""

    def __init__(self, module: ModuleBuilder, symbol: str, form: Form) -> None:
        """Open the function `void symbol(ptr env, i64 chunk)`."""
        f, self.env = open_driver(module, symbol, PARAMETERS, len(MICRO_KERNELS))
        self.f = f
        self.chunk = self.env.chunk
        self.given = self.env.given
        self.micro = dict(zip(MICRO_KERNELS, self.env.micro_kernels, strict=True))
        self.emitter = ValueEmitter(f, {}, self.given, fma=True)
        self.form = form
        self.cell = cell_type(form.element)
        self.columns = VECTORS * form.lanes
        self.signature = [type_ for _, type_ in micro_kernel(form, 1, masked=False).params]
        one = f.const(lt.I64, 1)
        steps = (self.given["rhs_step"], one)
        self.rhs_column, self.rhs_row = steps if form.rhs == "transposed" else reversed(steps)
        self.panels = self.room_for_panels()

    def room_for_panels(self) -> Value | None:
        """Emit the room where a unit packs its columns of the rhs, if it does."""
        size = PACK_BYTES // self.cell.bytes
        return None if self.form.rhs == "direct" else self.f.alloca(self.cell, size, 64)

    def at(self, base: Value, *terms: tuple[Value, Value]) -> Value:
        """Return the address of element sum(a * b) of `base`."""
        offset: Value | int = 0
        for a, b in terms:
            offset = self.f.iadd(offset, self.f.mul(a, b))
        return self.f.gep(base, offset, self.cell)

    def unit(self, number: Value) -> None:
        """Emit a unit: rows fastest, then columns, then batch."""
        f, given, env = self.f, self.given, self.env
        row_units = f.as_value(f.iceildiv(given["row_blocks"], given["unit_row_blocks"]))
        column_units = f.as_value(f.iceildiv(given["n"], given["n_block"]))
        row_unit = f.as_value(f.irem(number, row_units))
        others = f.idiv(number, row_units)
        batch = f.as_value(f.idiv(others, column_units))
        column = f.mul(f.as_value(f.irem(others, column_units)), given["n_block"])
        first = f.mul(row_unit, given["unit_row_blocks"])
        last = f.as_value(f.imin(f.iadd(first, given["unit_row_blocks"]), given["row_blocks"]))
        columns = self.up_to(column, given["n_block"], given["n"])
        lhs = self.at(env.lhs, (batch, given["lhs_batch"]))
        rhs = self.at(env.rhs, (batch, given["rhs_batch"]), (column, self.rhs_column))
        place = ((batch, given["out_batch"]), (self.row(first), given["out_row"]))
        result = f.gep(self.at(env.result, *place), column, self.cell)
        # The epilogue may load lanes behind the last row.
        tile = f.alloca(self.cell, self.TILE_BYTES // self.cell.bytes + self.columns, 64)
        out = f.select(env.is_plain(f), result, tile)

        def piece(start: Value, _: list[Value]) -> None:
            following = f.add(start, given["k_block"])
            self.piece(
                Piece(
                    self.at(lhs, (start, given["lhs_step"])),
                    self.at(rhs, (start, self.rhs_row)),
                    out,
                    start,
                    self.up_to(start, given["k_block"], given["k"]),
                    batch,
                    (first, last),
                    column,
                    columns,
                    f.as_condition(f.igt(start, 0)),
                    f.icmp("sge", following, given["k"]),
                )
            )

        f.loop(0, given["k"], given["k_block"], [], piece, at_least_once=True)

    def up_to(self, start: Value, count: Value, end: Value) -> Value:
        """Return how many of `count` positions from `start` on lie before `end`."""
        return self.f.as_value(self.f.isub(self.f.imin(self.f.iadd(start, count), end), start))

    def row(self, number: Value) -> Value:
        """Return the first row of a row block."""
        f, given = self.f, self.given
        above = f.as_value(f.imin(number, given["tall_blocks"]))
        return f.add(f.mul(number, given["low_rows"]), above)

    def piece(self, piece: Piece) -> None:
        """Emit the products of one piece of k: row block by row block, panel by panel."""
        f, given = self.f, self.given
        rhs = piece.rhs
        top = self.row(piece.rows[0])
        if self.panels is not None:
            self.pack(piece.rhs, self.panels, piece.columns, piece.depth)
            rhs = self.panels
        whole = f.as_value(f.imul(f.idiv(piece.columns, self.columns), self.columns))

        def row_block(number: Value, _: list[Value]) -> None:
            is_tall = f.icmp("slt", number, given["tall_blocks"])
            row = self.row(number)
            lhs = self.at(piece.lhs, (row, given["lhs_row"]))
            out = self.at(piece.out, (f.sub(row, top), given["block_row"]))
            run = f.select(is_tall, self.micro["tall"], self.micro["low"])

            def block(first: Value, run: Value, rest: Value) -> None:
                place = f.gep(out, first, self.cell)
                self.run(run, piece, (lhs, self._panel(rhs, first), place), given["lhs_row"], rest)

            f.loop(0, whole, self.columns, [], lambda at, _: block(at, run, f.const(lt.I64, 0)))

            def rest() -> None:
                masked = f.select(is_tall, self.micro["tall_rest"], self.micro["low_rest"])
                block(whole, masked, f.sub(piece.columns, whole))

            f.if_(f.icmp("slt", whole, piece.columns), rest)
            self.finish(piece, out, number, f.as_value(f.iadd(number, 1)))

        f.loop(*piece.rows, 1, [], row_block, at_least_once=True)

    def finish(self, piece: Piece, sums: Value, first: Value, last: Value) -> None:
        """Emit the epilogue of some row blocks, if their sums are whole."""
        f, row = self.f, self.row(first)
        rows = f.sub(self.row(last), row)
        place = [piece.batch, row, rows, f.const(lt.I64, 1), piece.column, piece.columns]
        f.if_(piece.is_last, lambda: self.env.finish(f, sums, place))

    def run(
        self,
        function: Value,
        piece: Piece,
        addresses: tuple[Value, Value, Value],
        lhs_row: Value,
        rest: Value,
    ) -> None:
        """Call a micro-kernel on one register block; `rest` columns of it, if it is masked."""
        given = self.given
        step = given["rhs_step"]
        if self.panels is not None:
            step = self.f.const(lt.I64, self.columns)
        across = () if self.form.is_dense else (given["lhs_step"],)
        strides = (lhs_row, *across, step, given["out_row"])
        args = [*addresses, piece.depth, piece.accumulate, rest, *strides]
        self.f.call_indirect(function, lt.VOID, self.signature, args)

    def _panel(self, rhs: Value, first: Value) -> Value:
        """Return the address of the panel whose first column is `first`."""
        if self.panels is None:
            return self.f.gep(rhs, first, self.cell)
        return self.at(rhs, (first, self.given["panel_depth"]))

    def pack(self, rhs: Value, panels: Value, columns: Value, depth: Value) -> None:
        """Emit the packing of columns of the rhs."""
        self.emitter.buffers[0] = rhs
        packer = Packer(self.f, self.emitter, self.form.element)
        n, k = Span("@n", 0, columns), Span("@k", 0, depth)
        shape = (self.form.lanes, self.columns, self.given["panel_depth"])
        packer.panels(self._operand(), panels, n, k, shape, self.form.rhs == "transposed")

    def _operand(self) -> Expr:
        step, n, k = (Dim.symbol(name) for name in ("rhs_step", "@n", "@k"))
        index = n * step + k if self.form.rhs == "transposed" else k * step + n
        return ex.make("load", self.form.element, (), Access(0, index))
