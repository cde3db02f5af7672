# SPDX-License-Identifier: Apache-2.0
"""Joined rows (`schedule.row_folds`): each row is folded along itself, then all of a block at once.

Each row of a block leaves a few partial results in memory, row after row. Their halves are
combined for all rows at once, until one of each row is left: a vector of results, with which the
later passes run.
"""

from __future__ import annotations

from functools import partial

from ingot.emit.loop.body import LoopEmitter, divides
from ingot.emit.loop.folds import Folding
from ingot.emit.loop.gather_indices import carrying_nothing
from ingot.emit.values.indices import IndexValue, Lanes
from ingot.kernel.ir import Axis, Pass
from ingot.kernel.schedule.loop_schedule import JoinedRows
from ingot.llvm import types as lt
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.types import vector
from ingot.llvm.values import Value
from ingot.support.records import record


@record
class _Room:
    """Memory for the accumulators of one reduction, of all rows of a block.

    Attributes:
        folding: the reduction.
        width: lanes that are left of each row.
        addresses: the address of each accumulator.
    """

    folding: Folding
    width: int
    addresses: list[Value]


class JoinedRowsEmitter(LoopEmitter):
    """Emits a kernel whose schedule joins rows."""

    collected: list[Value]

    @property
    def _rows(self) -> Axis:
        return self._strategy(JoinedRows).axis

    def passes(self) -> None:
        """Emit all passes of a block of rows: fold each row, then join the lanes of all at once."""
        f, axis = self.f, self._rows
        first = self.kernel.passes[0]
        block = self.schedule.block
        assert isinstance(block, int), "rows fill a register"
        low, high = self._block_bounds(axis)
        self._prepare(self.kernel.passes, self._pass_axes() | {axis.name})
        foldings = [Folding(self.emitter, first, reduction) for reduction in first.reductions]
        width = min(self.schedule.lanes[0], block)
        rooms = [
            _Room(
                folding,
                width,
                [f.alloca(type, block * width, LINE_BYTES) for type in folding.types],
            )
            for folding in foldings
        ]
        count = block if divides(block, axis.extent) else f.isub(high, low)
        f.for_range(count, lambda number: self._fold_row(low, number, rooms))
        numbers = f.const(vector(lt.I32, block), list(range(block)))
        mask = None
        if count is not block:
            narrow = f.trunc(f.as_value(count), lt.I32)
            mask = f.icmp("ult", numbers, f.splat(narrow, block))

        finish = carrying_nothing(partial(self._finish_rows, block, rooms))
        self._at(axis.name, low, Lanes(axis.name, block, mask, block), [], finish)

    def _fold_row(self, low: IndexValue, number: Value, rooms: list[_Room]) -> None:
        """Fold row `low + number` along itself; store the lanes that remain."""
        f, emitter = self.f, self.emitter
        emitter.names[self._rows.name] = f.iadd(low, number)
        emitter.open_scope()
        self.one_pass(self.kernel.passes[0], self.schedule.lanes[0])
        left = self.collected
        for room in rooms:
            parts = tuple(left[: len(room.addresses)])
            left = left[len(room.addresses) :]
            while parts[0].type.lanes > room.width:
                parts = room.folding.halved(parts, 1)
            for part, address in zip(parts, room.addresses, strict=True):
                f.store(part, f.gep(address, f.imul(number, room.width), part.type.element))
        emitter.close_scope()

    def _finish_rows(self, block: int, rooms: list[_Room]) -> None:
        """Join the lanes of each row of a block; run the passes behind in lanes of rows."""
        f = self.f
        for room in rooms:
            parts = tuple(
                f.load(vector(type, block * room.width), address)
                for address, type in zip(room.addresses, room.folding.types, strict=True)
            )
            while parts[0].type.lanes > block:
                parts = room.folding.halved(parts, block)
            self.bind(room.folding.reduction, room.folding.finished(parts))
        for item in self.kernel.passes[1:]:
            self._point(item, [])

    def finish(self, item: Pass, values: list[Value], lanes: int) -> None:
        """Collect the lanes of a row instead of joining them."""
        del item, lanes
        self.collected = values
