# SPDX-License-Identifier: Apache-2.0
"""Split reductions: a large reduction of few units runs in parts, then the parts are combined.

`<symbol>_part` computes one part of every unit into scratch, unit after unit or some rows of all
units before the next rows; `<symbol>` combines the parts in order and runs the rest of the kernel.
The cut depends on sizes alone (`kernel.schedule.decide`), so results do not depend on the number of
threads.
"""

from __future__ import annotations

from ingot.cpu.emit.kernel_abi import EmittedKernel, Phase, open_kernel, scratch_of
from ingot.cpu.emit.template import Template
from ingot.emit.loop.body import LoopEmitter, divides
from ingot.emit.loop.folds import Folding, held_types
from ingot.emit.values.indices import IndexValue, Lanes
from ingot.emit.values.types import accumulator_type
from ingot.emit.values.values import ValueEmitter
from ingot.hlo.dim import Dim
from ingot.kernel.ir import Axis, LoopKernel, Pass
from ingot.kernel.schedule.loop_schedule import Effort, InLanes, LoopSchedule
from ingot.kernel.schedule.splits import SplitReduction
from ingot.kernel.text import fingerprint
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import vector
from ingot.llvm.values import Value
from ingot.support.records import record, replace


def emit_split_kernel(
    module: ModuleBuilder, symbol: str, kernel: LoopKernel, schedule: LoopSchedule, fma: bool
) -> EmittedKernel:
    """Emit a reduction in parts: `<symbol>_part` per part, then `<symbol>` for the rest."""
    split, count = schedule.strategy, len(kernel.buffers)
    assert isinstance(split, SplitReduction)
    is_simple = schedule.effort is Effort.MEMORY_BOUND
    cut = _SplitKernel(module, kernel, schedule, split, fma, is_simple)
    cut.emit_parts(f"{symbol}_part")
    scratch_bytes = split.count * schedule.units * cut.layout.bytes
    parts = Phase(f"{symbol}_part", split.count)
    if split.fold is not None:
        fold = fold_template(split.fold, schedule, fma)
        phases, sizes = (parts, Phase(fold.name, 1)), (split.count,)
        return EmittedKernel(phases, count, sizes, scratch_bytes, (fold,))
    cut.emit_rest(symbol)
    phases = (parts, Phase(symbol, 1))
    return EmittedKernel(phases, count, kernel.symbols, scratch_bytes)


def fold_template(fold: LoopKernel, schedule: LoopSchedule, fma: bool) -> Template:
    """Return the template that folds the parts of a split reduction (`SplitReduction.fold`).

    Its name says the fold, the lanes, and where env has result, scratch and number of parts.

    Args:
        fold: the kernel of every reduction that ends so.
        schedule: that of the reduction.
        fma: whether the target fuses a product and a sum.
    """
    (count,) = fold.parameters
    name = f"fold_{fingerprint(fold)}_{schedule.lanes[0]}_{len(fold.buffers)}"
    plain = replace(schedule, strategy=InLanes(), effort=Effort.FULL, masks_all_blocks=False)
    parts = Dim.symbol(count)

    def define(module: ModuleBuilder) -> None:
        cut = _SplitKernel(module, fold, plain, SplitReduction(parts, parts), fma, is_simple=False)
        cut.emit_rest(name)

    return Template(name, define, fold.parameters)


def _combine_all(
    emitter: ValueEmitter, item: Pass, old: list[Value], more: list[Value]
) -> list[Value]:
    results: list[Value] = []
    for reduction in item.reductions:
        start, count = len(results), len(reduction.inputs)
        parts = (tuple(values[start : start + count]) for values in (old, more))
        results.extend(Folding(emitter, item, reduction).merged(*parts))
    return results


@record
class PartialLayout:
    """Where partial results lie: part major, then unit, then accumulator (64-byte rows)."""

    types: tuple[lt.Type, ...]
    offsets: tuple[int, ...]
    bytes: int
    lanes: int
    units: int | Dim

    @staticmethod
    def of(schedule: LoopSchedule, item: Pass, vector_bits: int) -> PartialLayout:
        """Return the layout of the partial results of a pass."""
        lanes = schedule.lanes[0]
        types: list[lt.Type] = []
        offsets: list[int] = []
        total = 0
        for reduction in item.reductions:
            for element in held_types(item, reduction, vector_bits):
                types.append(element)
                offsets.append(total)
                total += -(-lanes * accumulator_type(element).bytes // 64) * 64
        return PartialLayout(tuple(types), tuple(offsets), total, lanes, schedule.units)

    def address(
        self, emitter: ValueEmitter, scratch: Value, part: IndexValue, unit: IndexValue
    ) -> Value:
        """Return where the partial results of a part and unit start."""
        f = emitter.f
        number = f.iadd(f.imul(part, emitter.index(self.units)), unit)
        return f.gep(scratch, f.imul(number, self.bytes))

    def load(self, f: FunctionBuilder, address: Value) -> list[Value]:
        """Return the accumulators stored at `address`."""
        found: list[Value] = []
        for element, offset in zip(self.types, self.offsets, strict=True):
            value = f.load(vector(accumulator_type(element), self.lanes), f.gep(address, offset))
            is_bool = element is lt.I1
            found.append(f.icmp("ne", value, f.zero(value.type)) if is_bool else value)
        return found

    def store(self, f: FunctionBuilder, address: Value, values: list[Value]) -> None:
        """Store accumulators at `address`."""
        for value, element, offset in zip(values, self.types, self.offsets, strict=True):
            stored = vector(accumulator_type(element), value.type.lanes)
            widened = f.zext(value, stored) if element is lt.I1 else value
            f.store(widened, f.gep(address, offset))


@record
class _SplitKernel:
    """A reduction that is cut into parts, and the module that gets its functions."""

    module: ModuleBuilder
    kernel: LoopKernel
    schedule: LoopSchedule
    split: SplitReduction
    fma: bool
    is_simple: bool

    @property
    def layout(self) -> PartialLayout:
        """Where the partial results lie."""
        return PartialLayout.of(self.schedule, self.kernel.passes[0], self.module.vector_bits)

    def _open(self, symbol: str) -> tuple[FunctionBuilder, ValueEmitter, Value]:
        kernel = self.kernel
        return open_kernel(
            self.module,
            symbol,
            len(kernel.buffers),
            kernel.symbols,
            self.fma,
            is_simple=self.is_simple,
        )

    def emit_parts(self, symbol: str) -> None:
        """Emit the function that computes part number `chunk` of every unit."""
        kernel, schedule, split, layout = self.kernel, self.schedule, self.split, self.layout
        f, emitter, chunk = self._open(symbol)
        scratch = scratch_of(f, len(kernel.buffers))
        parts = PartEmitter(emitter, kernel, schedule)
        length = emitter.index(split.length)
        low = f.imul(chunk, length)
        high = f.imin(f.iadd(low, length), emitter.index(kernel.passes[0].axes[0].extent))
        parts.bounds = (low, high)
        parts.part_length = split.length
        parts.runs = split.runs

        units = emitter.index(schedule.units)

        def unit(number: Value) -> list[Value]:
            address = layout.address(emitter, scratch, chunk, number)

            def body() -> None:
                parts.collected = []
                parts.held = layout.load(f, address) if split.rows else None
                parts.one_pass(kernel.passes[0], schedule.lanes[0])
                layout.store(f, address, parts.collected)

            return parts.unit(number, body)

        def begin(number: Value) -> None:
            start = parts.initial(kernel.passes[0], schedule.lanes[0])
            layout.store(f, layout.address(emitter, scratch, chunk, number), start)

        def rows(position: Value) -> None:
            parts.bounds = (position, f.imin(f.iadd(position, split.rows), high))
            f.for_range(units, unit)

        if split.rows:
            f.for_range(units, begin)
            f.for_range(high, rows, start=low, step=split.rows)
        else:
            f.for_range(units, unit)
        f.ret()

    def emit_rest(self, symbol: str) -> None:
        """Emit the function that combines the parts and runs the passes after the reduction."""
        kernel, schedule, layout = self.kernel, self.schedule, self.layout
        first = kernel.passes[0]
        f, emitter, _ = self._open(symbol)
        scratch = scratch_of(f, len(kernel.buffers))
        body = LoopEmitter(emitter, kernel, schedule)
        parts = emitter.index(self.split.count)
        units = emitter.index(schedule.units)

        def unit(number: Value) -> list[Value]:
            def rest() -> None:
                start = layout.load(f, layout.address(emitter, scratch, 0, number))

                def add(part: Value, values: list[Value]) -> list[Value]:
                    more = layout.load(f, layout.address(emitter, scratch, part, number))
                    return _combine_all(emitter, first, values, more)

                values = f.loop(1, parts, 1, start, add)
                # Lanes are folded once, behind the last part: folding them is much code.
                body.finish(first, values, layout.lanes if schedule.vector_axis is None else 1)
                for later, item in enumerate(kernel.passes[1:], 1):
                    body.one_pass(item, schedule.lanes[later])

            return body.unit(number, rest)

        f.for_range(units, unit)
        f.ret()


class PartEmitter(LoopEmitter):
    """Emits a pass whose reductions stay partial: no initial value, lanes not folded, collected.

    `held`: accumulators that go on, if they do not begin. `runs`: of a part, read in turn.
    """

    collected: list[Value]
    held: list[Value] | None = None
    runs: int = 1

    def _axes_loop(
        self, item: Pass, axes: tuple[Axis, ...], lanes: int, values: list[Value]
    ) -> list[Value]:
        if self.runs == 1:
            return super()._axes_loop(item, axes, lanes, values)
        assert self.bounds is not None, "a part has bounds"
        f, (axis,), (low, high), count = self.f, axes, self.bounds, len(values)
        together = lanes * self.runs
        length = f.imul(f.idiv(f.isub(high, low), together), lanes)
        starts = [f.iadd(low, f.imul(length, number)) for number in range(self.runs + 1)]
        aligned = lanes if divides(lanes, self.part_length) else 1

        def point(carried: list[Value]) -> list[Value]:
            return self._point(item, carried)

        def blocks(position: Value, carried: list[Value]) -> list[Value]:
            found: list[Value] = []
            vector_axis = Lanes(axis.name, lanes, None, aligned)
            for start in starts[:-1]:
                here, old = f.iadd(start, position), carried[len(found) : len(found) + count]
                found += self._at(axis.name, here, vector_axis, old, point)
            return found

        folded = f.loop(0, length, lanes, values * self.runs, blocks)
        total, *others = [folded[at : at + count] for at in range(0, len(folded), count)]
        # What is left over lies behind the last run: too little for blocks without masks.
        if not divides(together, axis.extent, self.part_length):

            def masked(position: Value, carried: list[Value]) -> list[Value]:
                mask = self._first_lanes(f.imin(f.isub(high, position), lanes), lanes)
                vector_axis = Lanes(axis.name, lanes, mask, aligned)
                return self._at(axis.name, position, vector_axis, carried, point)

            others[-1] = f.loop(starts[-1], high, lanes, others[-1], masked)
        for run in others:
            total = _combine_all(self.emitter, item, total, run)
        return total

    def initial(self, item: Pass, lanes: int) -> list[Value]:
        """Return the accumulators that go on, or those of no element."""
        return super().initial(item, lanes) if self.held is None else self.held

    def finish(self, item: Pass, values: list[Value], lanes: int) -> None:
        """Collect the partial results instead of finishing them."""
        del item, lanes
        self.collected.extend(values)
