"""The driver of plain products: `void product(ptr env, i64 chunk)` for every size.

What a contraction kernel has as constants are loads from env here (`kernel.product.PARAMETERS`);
the micro-kernels of the two heights, whole and masked, are addresses in env. One driver for each
element type and placement of the rhs serves all plain products of the process.

Invariant: a unit writes its own elements of the result and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from ingot.cpu.emit.kernel_abi import SLOT_BYTES
from ingot.cpu.emit.microkernel import MicroKernel, shared
from ingot.cpu.emit.packing import Packer, Span, cell_type
from ingot.cpu.emit.values import ValueEmitter
from ingot.hlo.dim import Dim
from ingot.kernel import expr as ex
from ingot.kernel.contraction_schedule import PACK_BYTES
from ingot.kernel.expr import Access, Expr
from ingot.kernel.product import PARAMETERS, VECTORS, Form
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.target import TargetSpec
from ingot.llvm.values import Value

BUFFERS = 3
MICRO_KERNELS = ("low", "tall", "low_rest", "tall_rest")
"""Slots of micro-kernels behind the parameters; `rest`: columns behind the whole blocks."""


def micro_kernel(form: Form, rows: int, *, masked: bool) -> MicroKernel:
    """Return the micro-kernel of a product's row blocks."""
    a_step = 1 if form.is_dense else None
    cell = cell_type(form.element)
    return shared(cell, form.lanes, rows, VECTORS, masked=masked, a_step=a_step)


def emit_product_driver(module: ModuleBuilder, symbol: str, form: Form, target: TargetSpec) -> None:
    """Emit the driver of a form of products."""
    f = module.function(
        symbol, lt.VOID, [("env", lt.PTR), ("chunk", lt.I64)], attrs="nounwind uwtable"
    )
    env, chunk = f.params
    slots = count()

    def slot(type_: lt.Type) -> Value:
        return f.load(type_, f.gep(env, next(slots) * SLOT_BYTES), 8, invariant=True)

    lhs, right, out, _ = (slot(lt.PTR) for _ in range(BUFFERS + 1))
    given = {name: slot(lt.I64) for name in PARAMETERS}
    micro = {name: slot(lt.PTR) for name in MICRO_KERNELS}
    emitter = ValueEmitter(f, {}, given, target.has_fma)
    driver = _Driver(f, emitter, form, given, micro)
    first = f.mul(chunk, given["grain"])
    last = f.imin(f.iadd(first, given["grain"]), given["units"])
    f.loop(first, last, 1, [], lambda unit, _: driver.unit(unit, (lhs, right, out)))
    f.ret()


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of k of a unit: first elements of the operands and the result."""

    lhs: Value
    rhs: Value
    out: Value
    rows: tuple[Value, Value]
    columns: Value
    depth: Value
    accumulate: Value


class _Driver:
    """Emits one driver; `given` are its parameters."""

    def __init__(
        self,
        f: FunctionBuilder,
        emitter: ValueEmitter,
        form: Form,
        given: dict[str, Value],
        micro: dict[str, Value],
    ) -> None:
        self.f = f
        self.emitter = emitter
        self.form = form
        self.cell = cell_type(form.element)
        self.rhs = form.rhs
        self.columns = VECTORS * form.lanes
        self.given = given
        self.micro = micro
        self.signature = [type_ for _, type_ in micro_kernel(form, 1, masked=False).params]
        size = PACK_BYTES // self.cell.bytes
        self.panels = None if form.rhs == "direct" else f.alloca(self.cell, size, 64)

    def _at(self, base: Value, *terms: tuple[Value, Value]) -> Value:
        """Return the address of element sum(a * b) of `base`."""
        offset: Value | int = 0
        for a, b in terms:
            offset = self.f.iadd(offset, self.f.mul(a, b))
        return self.f.gep(base, offset, self.cell)

    def unit(self, number: Value, addresses: tuple[Value, Value, Value]) -> None:
        """Emit a unit: rows fastest, then columns, then batch."""
        f, given = self.f, self.given
        lhs, rhs, out = addresses
        row_units = f.as_value(f.iceildiv(given["row_blocks"], given["unit_row_blocks"]))
        column_units = f.as_value(f.iceildiv(given["n"], given["n_block"]))
        row_unit = f.as_value(f.irem(number, row_units))
        others = f.idiv(number, row_units)
        batch = f.as_value(f.idiv(others, column_units))
        column = f.mul(f.as_value(f.irem(others, column_units)), given["n_block"])
        first = f.mul(row_unit, given["unit_row_blocks"])
        last = f.as_value(f.imin(f.iadd(first, given["unit_row_blocks"]), given["row_blocks"]))
        columns = f.sub(f.as_value(f.imin(f.iadd(column, given["n_block"]), given["n"])), column)
        lhs = self._at(lhs, (batch, given["lhs_batch"]))
        rhs = self._at(rhs, (batch, given["rhs_batch"]))
        column_step = given["rhs_step"] if self.rhs == "transposed" else f.const(lt.I64, 1)
        row_step = f.const(lt.I64, 1) if self.rhs == "transposed" else given["rhs_step"]
        rhs = self._at(rhs, (column, column_step))
        out = f.gep(self._at(out, (batch, given["out_batch"])), column, self.cell)

        def piece(start: Value, _: list[Value]) -> None:
            end = f.imin(f.iadd(start, given["k_block"]), given["k"])
            self._piece(
                _Piece(
                    self._at(lhs, (start, given["lhs_step"])),
                    self._at(rhs, (start, row_step)),
                    out,
                    (first, last),
                    columns,
                    f.as_value(f.isub(end, start)),
                    f.as_condition(f.igt(start, 0)),
                )
            )

        f.loop(0, given["k"], given["k_block"], [], piece, at_least_once=True)

    def _piece(self, piece: _Piece) -> None:
        """Emit the products of one piece of k: row block by row block, panel by panel."""
        f, given = self.f, self.given
        rhs = piece.rhs if self.panels is None else self._pack(piece)
        whole = f.as_value(f.imul(f.idiv(piece.columns, self.columns), self.columns))

        def row_block(number: Value, _: list[Value]) -> None:
            is_tall = f.icmp("slt", number, given["tall_blocks"])
            above = f.as_value(f.imin(number, given["tall_blocks"]))
            row = f.add(f.mul(number, given["low_rows"]), above)
            lhs = self._at(piece.lhs, (row, given["lhs_row"]))
            out = self._at(piece.out, (row, given["out_row"]))
            run = f.select(is_tall, self.micro["tall"], self.micro["low"])

            def block(first: Value, run: Value, rest: Value) -> None:
                self._run(run, piece, (lhs, self._panel(rhs, first), out), first, rest)

            f.loop(0, whole, self.columns, [], lambda at, _: block(at, run, f.const(lt.I64, 0)))

            def rest() -> None:
                masked = f.select(is_tall, self.micro["tall_rest"], self.micro["low_rest"])
                block(whole, masked, f.sub(piece.columns, whole))

            f.if_(f.icmp("slt", whole, piece.columns), rest)

        f.loop(*piece.rows, 1, [], row_block, at_least_once=True)

    def _run(
        self,
        function: Value,
        piece: _Piece,
        addresses: tuple[Value, Value, Value],
        first: Value,
        rest: Value,
    ) -> None:
        """Call a micro-kernel on one register block, whose columns begin at `first`."""
        f, given = self.f, self.given
        lhs, rhs, out = addresses
        step = given["rhs_step"] if self.panels is None else f.const(lt.I64, self.columns)
        across = () if self.form.is_dense else (given["lhs_step"],)
        strides = (given["lhs_row"], *across, step, given["out_row"])
        out = f.gep(out, first, self.cell)
        args = [lhs, rhs, out, piece.depth, piece.accumulate, rest, *strides]
        f.call_indirect(function, lt.VOID, self.signature, args)

    def _panel(self, rhs: Value, first: Value) -> Value:
        """Return the address of the panel whose first column is `first`."""
        if self.panels is None:
            return self.f.gep(rhs, first, self.cell)
        return self._at(rhs, (first, self.given["panel_depth"]))

    def _pack(self, piece: _Piece) -> Value:
        """Emit the packing of the unit's columns of the rhs; return the panels' address."""
        assert self.panels is not None, "only what is packed has panels"
        self.emitter.buffers[0] = piece.rhs
        packer = Packer(self.f, self.emitter, self.form.element)
        n, k = Span("@n", 0, piece.columns), Span("@k", 0, piece.depth)
        shape = (self.form.lanes, self.columns, self.given["panel_depth"])
        is_transposed = self.rhs == "transposed"
        packer.panels(self._operand(), self.panels, n, k, shape, is_transposed)
        return self.panels

    def _operand(self) -> Expr:
        step, n, k = (Dim.symbol(name) for name in ("rhs_step", "@n", "@k"))
        index = n * step + k if self.rhs == "transposed" else k * step + n
        return ex.make("load", self.form.element, (), Access(0, index))
