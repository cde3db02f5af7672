# SPDX-License-Identifier: Apache-2.0
"""The epilogue of a contraction: from a tile of sums to the kernel's stores.

A function of its own, called once per row block while its sums are in the L1 cache. It goes row by
row with lanes along n; a last vector that is not whole is masked. The sums are the value of the
`accumulator` leaf; everything else is loaded where it is needed.

Invariant: each element is read and written only here, by one thread, so a result may share memory
with an operand that the epilogue reads at the same index.
"""

from __future__ import annotations

from ingot.cpu.emit.contraction.packing import cell_type, lane_mask
from ingot.cpu.emit.kernel_abi import bind_env
from ingot.emit.values.indices import Lanes
from ingot.emit.values.values import ValueEmitter
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import PRED
from ingot.kernel.contraction.schedule import ContractionSchedule
from ingot.kernel.expr import is_expensive_op, walk
from ingot.kernel.ir import ContractionKernel
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import vector
from ingot.llvm.values import FunctionRef, Value

CALLED_VECTORS = 4
"""Vectors that a function is called for at a time."""

MOST_WASTED = 0.125
"""Share of empty lanes up to which CALLED_VECTORS are worth it."""


def emit_epilogue(
    module: ModuleBuilder,
    symbol: str,
    kernel: ContractionKernel,
    schedule: ContractionSchedule,
    target: TargetSpec,
) -> FunctionRef:
    """Emit `void epilogue(env, tile, batch, row, rows, row_step, column, columns)`; return it.

    The tile has `rows` rows, which are `row_step` apart in the result.
    """
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
        self, emitter: ValueEmitter, kernel: ContractionKernel, schedule: ContractionSchedule
    ) -> None:
        self.f = emitter.f
        self.emitter = emitter
        self.kernel = kernel
        self.n_block = schedule.n_block
        self.lanes = _epilogue_lanes(kernel, schedule)
        self.has_rest = not _is_even(kernel, schedule, self.lanes)
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
        self.f.for_range(rows, self._row)
        emitter.close_scope()

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
        if self.has_rest:

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
        address = f.gep(at, column, self.cell)
        value = f.load(vector(self.cell, self.lanes), address, self.cell.alignment)
        if kernel.accumulate is PRED:
            value = f.icmp("ne", value, f.zero(value.type))
        for item in self.sums:
            emitter.bind(item, value)
        emitter.store_all(kernel.stores)
        emitter.close_scope()
        emitter.lanes = None


def _is_even(kernel: ContractionKernel, schedule: ContractionSchedule, lanes: int) -> bool:
    """Whether the columns of every tile fill whole vectors."""
    extent = kernel.n.extent
    even = isinstance(extent, int) and extent % lanes == 0
    return lanes == 1 or (even and schedule.n_block % lanes == 0)


def _epilogue_lanes(kernel: ContractionKernel, schedule: ContractionSchedule) -> int:
    """Return two vectors' lanes where the register block has them, four where functions are called.

    A function is a subroutine, whose steps wait for one another (`kernel.schedule.lane_counts`).
    """
    if kernel.n.extent == 1:
        return 1
    wide = schedule.lanes * CALLED_VECTORS
    exprs = tuple(item for store in kernel.stores for item in store.exprs)
    if (
        schedule.n_block % wide == 0
        and _wasted(kernel.n.extent, wide) <= MOST_WASTED
        and any(is_expensive_op(item.op) for item in walk(exprs))
    ):
        return wide
    return schedule.lanes * (2 if schedule.columns > schedule.lanes else 1)


def _wasted(extent: int | Dim, lanes: int) -> float:
    """Return the share of the lanes along a row that hold nothing; none if it is not known."""
    if not isinstance(extent, int):
        return 0
    return 1 - extent / (-(-extent // lanes) * lanes)
