# SPDX-License-Identifier: Apache-2.0
"""Rows folded together (`schedule.row_folds`): each along itself, then a block's lanes at once.

A block's rows leave their lanes side by side on the stack. Joined are the halves of every row at
once, until one lane of each is left: a vector of results, with which the later passes run.
"""

from __future__ import annotations

from ingot.emit.loop.body import LoopEmitter, divides
from ingot.emit.loop.folds import Folding
from ingot.emit.values.indices import Lanes
from ingot.kernel.ir import Axis, Pass
from ingot.kernel.schedule.loop_schedule import JoinedRows
from ingot.llvm import types as lt
from ingot.llvm.types import vector
from ingot.llvm.values import Value

Parts = tuple[Value, ...]
"""The accumulators of one reduction."""


class JoinedRowsEmitter(LoopEmitter):
    """Emits a kernel whose schedule joins rows."""

    collected: list[Value]

    def _cut_axes(self) -> list[Axis]:
        return [self._rows]

    @property
    def _rows(self) -> Axis:
        return self._strategy(JoinedRows).axis

    def passes(self) -> None:
        """Emit all passes of a block of rows."""
        f, emitter, axis = self.f, self.emitter, self._rows
        first, *rest = self.kernel.passes
        block = self.schedule.block
        assert isinstance(block, int), "rows fill a register"
        low, high = self._block_bounds(axis)
        self._prepare(self.kernel.passes, self._pass_axes() | {axis.name})
        foldings = [Folding(emitter, first, reduction) for reduction in first.reductions]
        width = min(self.schedule.lanes[0], block)
        rooms = [
            [f.alloca(type, block * width, 64) for type in folding.types] for folding in foldings
        ]

        def fold_row(number: Value, _: list[Value]) -> list[Value]:
            emitter.names[axis.name] = f.iadd(low, number)
            emitter.open_scope()
            self.one_pass(first, self.schedule.lanes[0])
            left = self.collected
            for folding, held in zip(foldings, rooms, strict=True):
                parts = tuple(left[: len(held)])
                left = left[len(held) :]
                while parts[0].type.lanes > width:
                    parts = folding.halved(parts, 1)
                for part, room in zip(parts, held, strict=True):
                    f.store(part, f.gep(room, f.imul(number, width), part.type.element))
            emitter.close_scope()
            return []

        count = block if divides(block, axis.extent) else f.isub(high, low)
        f.loop(0, count, 1, [], fold_row)
        numbers = f.const(vector(lt.I32, block), list(range(block)))
        mask = None
        if count is not block:
            narrow = f.trunc(f.as_value(count), lt.I32)
            mask = f.icmp("ult", numbers, f.splat(narrow, block))

        def finish(_: list[Value]) -> list[Value]:
            for folding, held in zip(foldings, rooms, strict=True):
                parts = tuple(
                    f.load(vector(type, block * width), room)
                    for room, type in zip(held, folding.types, strict=True)
                )
                while parts[0].type.lanes > block:
                    parts = folding.halved(parts, block)
                self.bind(folding.reduction, folding.finished(parts))
            for item in rest:
                self._point(item, [])
            return []

        self._at(axis.name, low, Lanes(axis.name, block, mask, block), [], finish)

    def finish(self, item: Pass, values: list[Value], lanes: int) -> None:
        """Collect the lanes of a row instead of joining them."""
        del item, lanes
        self.collected = values
