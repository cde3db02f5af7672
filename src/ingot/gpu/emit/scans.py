# SPDX-License-Identifier: Apache-2.0
"""Scans by a warp: each step takes an element for each lane.

Each lane combines its value with those of the lanes 1, 2, 4, ... before it, then with the total of
all steps before. Lanes behind the end have the identity, and store nothing.

Invariant: a result folds the elements up to its own; the order of sums depends on lanes alone.
Source: Hillis and Steele, Data parallel algorithms (1986).
"""

from __future__ import annotations

from ingot.emit.values.types import register_type
from ingot.emit.values.values import combine
from ingot.gpu.emit.groups import WarpRowsEmitter
from ingot.gpu.intrinsics import WARP, from_lane, from_lane_before
from ingot.kernel.ir import Axis, Pass, Reduction
from ingot.llvm import types as lt
from ingot.llvm.values import Value
from ingot.semantics.identities import identity_of


class WarpScanEmitter(WarpRowsEmitter):
    """Emits a kernel of one running fold."""

    def _axes_loop(
        self, item: Pass, axes: tuple[Axis, ...], lanes: int, values: list[Value]
    ) -> list[Value]:
        f, emitter, (axis,), (fold,) = self.f, self.emitter, axes, item.reductions
        length = emitter.index(axis.extent)

        def step(start: Value, carried: list[Value]) -> list[Value]:
            position = f.iadd(start, self.me)
            inside = f.as_condition(f.ilt(position, length))
            emitter.names[axis.name] = f.imin(position, f.isub(length, 1))
            emitter.open_scope()
            value = f.select(inside, emitter.value(fold.inputs[0]), self._identity(fold))
            prefix = self._prefix(fold, value)
            found = combine(emitter, fold.combiner, (carried[0], prefix))[0]
            self._bind_running(fold, [found], item)
            self.values.guard = inside
            emitter.store_all(item.stores)
            self.values.guard = None
            emitter.close_scope()
            return [from_lane(f, found, WARP - 1)]

        return f.loop(0, length, WARP, values, step)

    def _identity(self, fold: Reduction) -> Value:
        element = fold.inputs[0].dtype
        return self.f.const(
            register_type(element), identity_of(fold.combiner.opcode or "", element)
        )

    def _prefix(self, fold: Reduction, value: Value) -> Value:
        """Return the fold of this lane's value with those of the lanes before it."""
        f, count = self.f, 1
        while count < WARP:
            before = from_lane_before(f, value, count)
            both = combine(self.emitter, fold.combiner, (before, value))[0]
            value = f.select(f.icmp("uge", self.me, f.const(lt.I64, count)), both, value)
            count *= 2
        return value
