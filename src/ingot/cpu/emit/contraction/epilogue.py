# SPDX-License-Identifier: Apache-2.0
"""The epilogue of a contraction: from a tile of sums to the kernel's stores.

A function of its own, called once per row block while its sums are in the L1 cache. It goes row by
row with lanes along n; a last vector that is not whole is masked. The sums are the value of the
`accumulator` leaf; everything else is loaded where it is needed. Where the rows of a column lie
side by side in the result, squares of results are transposed in registers.

Invariant: each element is read and written only here, by one thread, so a result may share memory
with an operand that the epilogue reads at the same index.
"""

from __future__ import annotations

from functools import partial

from ingot.cpu.emit.contraction.packing import cell_type, lane_mask
from ingot.cpu.emit.kernel_abi import bind_env
from ingot.emit.values.indices import IndexValue, Lanes
from ingot.emit.values.squares import transpose
from ingot.emit.values.types import narrow
from ingot.emit.values.values import ValueEmitter
from ingot.hlo.dtype import PRED
from ingot.kernel.contraction.epilogue import EpilogueSchedule
from ingot.kernel.contraction.operands import oriented
from ingot.kernel.expr import walk
from ingot.kernel.ir import ContractionKernel
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import vector
from ingot.llvm.values import FunctionRef, Value


def emit_epilogue(
    module: ModuleBuilder,
    symbol: str,
    kernel: ContractionKernel,
    schedule: EpilogueSchedule,
    target: TargetSpec,
) -> FunctionRef:
    """Emit `void epilogue(env, tile, batch, row, rows, row_step, column, columns)`; return it.

    The tile has `rows` rows, which are `row_step` apart in the result.

    Args:
        module: the module that the function is added to.
        symbol: its name.
        kernel: the contraction whose stores it computes.
        schedule: how it takes the sums.
        target: the machine that it is compiled for.
    """
    kernel = oriented(kernel) if schedule.swapped else kernel
    params = [("env", lt.PTR), ("tile", lt.PTR)]
    numbers = ("batch", "row", "rows", "row_step", "column", "columns")
    params += [(name, lt.I64) for name in numbers]
    f = module.function(symbol, lt.VOID, params, attrs="nounwind noinline")
    emitter = bind_env(f, f.params[0], len(kernel.buffers), kernel.symbols, target.has_fma)
    _Epilogue(emitter, kernel, schedule).emit()
    f.ret()
    return f.reference


class _Epilogue:
    """Emits an epilogue into its function, whose parameters `emit_epilogue` lists."""

    def __init__(
        self, emitter: ValueEmitter, kernel: ContractionKernel, schedule: EpilogueSchedule
    ) -> None:
        self.f = emitter.f
        self.emitter = emitter
        self.kernel = kernel
        self.schedule = schedule
        self.n_block, self.lanes, self.side = schedule.n_block, schedule.lanes, schedule.side
        self.cell = cell_type(kernel.accumulate)
        self.exprs = [item for store in kernel.stores for item in store.exprs]
        self.sums = [item for item in walk(tuple(self.exprs)) if item.op == "accumulator"]

    def emit(self) -> None:
        """Emit all rows."""
        emitter, kernel = self.emitter, self.kernel
        batch, rows = self.f.params[2], self.f.params[4]
        emitter.names[kernel.batch.name] = batch
        emitter.open_scope()
        emitter.prepare(self.exprs, frozenset((kernel.m.name, kernel.n.name)))
        if self.schedule.plane is None:
            self.f.for_range(rows, self._row)
        else:
            fits = self._fits(self.schedule.plane)
            self.f.if_(fits, self._all_squares, lambda: self.f.for_range(rows, self._row))
        emitter.close_scope()

    def _fits(self, plane: int) -> Value:
        """Return whether the rows are side by side in one plane, and a square's side at least."""
        f = self.f
        _, _, _, first, rows, row_step, _, _ = f.params
        end = f.as_value(f.iadd(f.irem(first, plane), rows))
        is_dense = f.icmp("eq", row_step, f.const(lt.I64, 1))
        is_long = f.icmp("sge", rows, f.const(lt.I64, self.side))
        return f.and_(is_dense, f.and_(is_long, f.icmp("sle", end, f.const(lt.I64, plane))))

    def _all_squares(self) -> None:
        """Emit all rows in squares, some rows at a time: down one column, then down the next.

        From side to side, planes a multiple of 4096 bytes apart would share a set of the L1 cache,
        which has fewer lines than a row of squares touches.
        """
        f, side = self.f, self.side
        rows, columns = f.params[4], f.params[7]
        whole = f.imul(f.idiv(columns, side), side)

        def some(first: Value) -> None:
            f.for_range(whole, lambda column: self._strip(first, column, None), step=side)
            extent = self.kernel.n.extent
            if not isinstance(extent, int) or extent % side:
                left = f.isub(columns, whole)
                f.if_(f.ilt(0, left), lambda: self._strip(first, f.as_value(whole), left))

        f.for_range(rows, some, step=self.schedule.strip_rows)

    def _strip(self, first: Value, column: Value, left: IndexValue | None) -> None:
        """Emit a column of squares from a row on; `left`: see `_square`."""
        f, rows = self.f, self.f.params[4]
        last = f.isub(rows, self.side)

        def square(row: Value) -> None:
            # The last square of all begins sooner.
            self._square(f.as_value(f.imin(row, last)), column, left)

        f.for_range(
            f.imin(f.iadd(first, self.schedule.strip_rows), rows),
            square,
            start=first,
            step=self.side,
        )

    def _square(self, row: Value, column: Value, left: IndexValue | None) -> None:
        """Emit a square of results, with `left` columns if they are fewer than its side."""
        f, emitter, kernel, side = self.f, self.emitter, self.kernel, self.side
        _, tile, _, first_row, _, _, first_column, _ = f.params
        (store,), plane = kernel.stores, self.schedule.plane or 0
        emitter.names[kernel.n.name] = f.iadd(first_column, column)
        emitter.names[kernel.m.name] = f.iadd(first_row, row)
        emitter.open_scope()
        start = emitter.index(store.index)
        emitter.close_scope()
        mask = None if left is None else lane_mask(f, left, side)
        emitter.lanes = Lanes(kernel.n.name, side, mask)
        results = list[Value]()
        for number in range(side):
            emitter.names[kernel.m.name] = f.iadd(first_row, f.iadd(row, number))
            at = f.gep(tile, f.imul(f.iadd(row, number), self.n_block), self.cell)
            emitter.open_scope()
            self._bind_sums(f.gep(at, column, self.cell), side)
            emitter.value(store.value)
            value = emitter.vector_value(store.value, side)
            results.append(narrow(f, value, store.value.dtype, emitter.has_f16c))
            emitter.close_scope()
        emitter.lanes = None
        buffer = emitter.buffers[store.buffer]
        for number, one in enumerate(transpose(f, results)):
            element = one.type.element
            at = f.gep(buffer, f.iadd(start, f.imul(number, plane)), element)
            is_there = True if left is None else f.ilt(number, left)
            f.if_(is_there, partial(f.store, one, at, element.bytes))

    def _row(self, number: Value) -> None:
        """Emit row `number` of the tile: whole vectors, then a masked one."""
        f, emitter, lanes = self.f, self.emitter, self.lanes
        _, tile, _, first_row, _, row_step, _, columns = f.params
        at = f.gep(tile, f.imul(number, self.n_block), self.cell)
        emitter.names[self.kernel.m.name] = f.iadd(first_row, f.imul(number, row_step))
        emitter.open_scope()
        emitter.prepare(self.exprs, frozenset((self.kernel.n.name,)))
        whole = f.imul(f.idiv(columns, lanes), lanes)
        f.for_range(whole, lambda column: self._vector(at, column, None), step=lanes)
        if not self.schedule.is_even:

            def rest() -> None:
                mask = lane_mask(f, f.isub(columns, whole), lanes)
                self._vector(at, f.as_value(whole), mask)

            f.if_(f.ilt(whole, columns), rest)
        emitter.close_scope()

    def _vector(self, at: Value, column: Value, mask: Value | None) -> None:
        """Emit the stores of a vector of sums, which begins at `column` of the row at `at`."""
        f, emitter, kernel = self.f, self.emitter, self.kernel
        emitter.names[kernel.n.name] = f.iadd(f.params[6], column)
        emitter.lanes = Lanes(kernel.n.name, self.lanes, mask)
        emitter.open_scope()
        self._bind_sums(f.gep(at, column, self.cell), self.lanes)
        emitter.store_all(kernel.stores)
        emitter.close_scope()
        emitter.lanes = None

    def _bind_sums(self, address: Value, lanes: int) -> None:
        """Make a vector of sums the value of the `accumulator` leaves."""
        f = self.f
        value = f.load(vector(self.cell, lanes), address, self.cell.alignment)
        if self.kernel.accumulate is PRED:
            value = f.icmp("ne", value, f.zero(value.type))
        for item in self.sums:
            self.emitter.bind(item, value)
