# SPDX-License-Identifier: Apache-2.0
"""Units of a loop kernel: one grid point each, or one block of a vector grid axis.

Above `body`, which emits a unit. Invariant: units run in the order of the grid, the
last axis fastest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from ingot.emit.values.indices import IndexValue
from ingot.emit.values.values import ValueEmitter
from ingot.hlo import dim
from ingot.kernel.expr import Expr, walk
from ingot.kernel.ir import Axis, LoopKernel
from ingot.kernel.schedule.loop_schedule import LoopSchedule, UnitAxes
from ingot.llvm import types as lt
from ingot.llvm.values import Value

_Kind = TypeVar("_Kind")

LONG = 4
"""Ops, one after the other, that are worth a register over the loop: a clamped index has three.
Fewer are done in each unit beside its loads, and LLVM moves those without loads itself."""


class UnitEmitter(ABC):
    """Emits the loop over units of one kernel into one function."""

    def __init__(self, emitter: ValueEmitter, kernel: LoopKernel, schedule: LoopSchedule) -> None:
        """Emit `kernel` as `schedule` says, into the emitter's function."""
        self.f = emitter.f
        self.emitter = emitter
        self.kernel = kernel
        self.schedule = schedule

    def _strategy(self, kind: type[_Kind]) -> _Kind:
        """Return the schedule's strategy, which is of the kind that this emitter spells out."""
        found = self.schedule.strategy
        assert isinstance(found, kind), "each kind of strategy has its emitter"
        return found

    @abstractmethod
    def _vector_block(self, axis: Axis, body: Callable[[], None]) -> None:
        """Run `body` for each vector of one block of a vector grid axis."""

    def units(self, first: IndexValue, last: IndexValue, body: Callable[[], None]) -> None:
        """Run `body` in units first..last - 1.

        Divisions by numbers are cheap, those by sizes are not: the next position follows then.
        """
        f = self.f
        for item in long_constants(self.kernel):
            self.emitter.value(item)
        inner = [axis.extent for axis in self._unit_axes()[1:]]
        if all(isinstance(extent, int) for extent in inner):
            f.for_range(last, lambda unit: self.unit(unit, body), start=first)
            return
        # Before the loop, so that where there are no units nothing is divided by an extent of 0.
        extents = [f.as_value(f.imax(self.emitter.index(extent), 1)) for extent in inner]

        def here(_: Value, positions: list[Value]) -> list[Value]:
            self._at_positions(positions, body)
            return self._next_positions(positions, extents)

        start = list(map(f.as_value, self._positions(first, extents)))
        f.loop(first, last, 1, start, here)

    def unit(self, unit: IndexValue, body: Callable[[], None]) -> list[Value]:
        """Bind the grid axes of unit number `unit` and run `body` there."""
        extents = [self.emitter.index(axis.extent) for axis in self._unit_axes()[1:]]
        self._at_positions(self._positions(unit, extents), body)
        return []

    def _positions(self, unit: IndexValue, extents: Sequence[IndexValue]) -> list[IndexValue]:
        """Return where a unit is on each axis that units count: the first has no end."""
        found: list[IndexValue] = []
        for extent in reversed(extents):
            found.append(self.f.irem(unit, extent))
            unit = self.f.idiv(unit, extent)
        return [unit, *reversed(found)]

    def _next_positions(self, positions: list[Value], extents: list[Value]) -> list[Value]:
        """Return the positions of the next unit."""
        f = self.f
        carry = f.const(lt.I64, 1)
        found: list[Value] = []
        for position, extent in zip(reversed(positions[1:]), reversed(extents), strict=True):
            following = f.add(position, carry)
            is_over = f.icmp("eq", following, extent)
            found.append(f.select(is_over, f.const(lt.I64, 0), following))
            carry = f.zext(is_over, lt.I64)
        return [f.add(positions[0], carry), *reversed(found)]

    def _at_positions(self, positions: Sequence[IndexValue], body: Callable[[], None]) -> None:
        vector_axis = self.schedule.vector_axis
        for axis, position in zip(self._unit_axes(), positions, strict=False):
            self.emitter.names[axis.name] = position
        self.emitter.open_scope()
        if vector_axis is None:
            body()
        else:
            self._vector_block(vector_axis, body)
        self.emitter.close_scope()

    def _unit_axes(self) -> list[Axis]:
        """Return the axes that units count, the axes that are cut into blocks last."""
        axes, cut = self._axes_of_units()
        counted = [axis for axis in axes if axis not in cut]
        along = self.schedule.block_along
        return counted + [Axis(a.name, dim.ceil_div(a.extent, along(a))) for a in cut]

    def _axes_of_units(self) -> UnitAxes:
        return self.schedule.unit_axes(self.kernel)

    def _block_bounds(self, axis: Axis) -> tuple[IndexValue, IndexValue]:
        """Return the first point of the current block of a cut axis, and the one after its last."""
        f = self.f
        block = self.emitter.index(self.schedule.block_along(axis))
        low = f.imul(self.emitter.names[axis.name], block)
        return low, f.imin(f.iadd(low, block), self.emitter.index(axis.extent))


def long_constants(kernel: LoopKernel) -> list[Expr]:
    """Return costly values that are the same at every point, such as a random scale of an image.

    Nothing of it is read from memory that the kernel writes, or only under a mask.
    """
    stores = kernel.stores
    written = {store.buffer for store in stores}
    written.update(range(len(kernel.buffers), len(kernel.buffers) + len(kernel.local_buffers)))
    found: dict[Expr, None] = {}
    same: set[Expr] = set()
    for item in walk(kernel.exprs):
        is_load = item.op == "load"
        if (
            item.axes
            or item.op in ("accumulator", "reduced")
            or (is_load and (item.args or item.payload.buffer in written))
            or not same.issuperset(item.args)
        ):
            found.update((arg, None) for arg in item.args if arg in same and arg.height >= LONG)
        else:
            same.add(item)
    found.update((root, None) for root in kernel.exprs if root in same and root.height >= LONG)
    return list(found)
