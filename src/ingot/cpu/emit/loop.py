"""Loop kernels as LLVM functions: `void k(ptr env, i64 chunk)`.

`env` holds 8-byte slots: buffer addresses, the scratch address, symbolic sizes. A chunk runs its
units; a unit runs the passes. A pass in lanes runs whole blocks, then one masked block for what is
left. A split reduction is two functions: one writes partial results, one combines them in order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ingot.cpu.emit.types import memory_type, register_type
from ingot.cpu.emit.values import IndexValue, Lanes, ValueEmitter, combine
from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import DType
from ingot.kernel.expr import make
from ingot.kernel.ir import Axis, LoopKernel, Pass, Reduction
from ingot.kernel.schedule import LANE_COMBINERS, LoopSchedule, Split
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import vector
from ingot.llvm.values import Value

SLOT_BYTES = 8


@dataclass(frozen=True, slots=True)
class Phase:
    """One parallel loop: call `symbol(env, chunk)` for each chunk."""

    symbol: str
    chunks: int | Dim


@dataclass(frozen=True, slots=True)
class EmittedKernel:
    """What the host program must know to run a kernel.

    Attributes:
        phases: parallel loops, one after the other.
        buffers: number of buffer slots at the start of env; then scratch, then `symbols`.
        symbols: size names in env order.
        scratch_bytes: bytes that all phases share.
    """

    phases: tuple[Phase, ...]
    buffers: int
    symbols: tuple[str, ...]
    scratch_bytes: int | Dim = 0

    @property
    def slots(self) -> int:
        """Slots of env."""
        return self.buffers + 1 + len(self.symbols)


def open_kernel(
    module: ModuleBuilder, symbol: str, buffers: int, symbols: tuple[str, ...], fma: bool
) -> tuple[FunctionBuilder, ValueEmitter, Value, Value]:
    """Start a kernel function; return it with its emitter, the scratch address and the chunk."""
    f = module.function(
        symbol, lt.VOID, [("env", lt.PTR), ("chunk", lt.I64)], attrs="nounwind uwtable"
    )
    env, chunk = f.params
    emitter, scratch = bind_env(f, env, buffers, symbols, fma)
    return f, emitter, scratch, chunk


def bind_env(
    f: FunctionBuilder, env: Value, buffers: int, symbols: tuple[str, ...], fma: bool
) -> tuple[ValueEmitter, Value]:
    """Return an emitter over the slots of `env`, and the scratch address."""

    def slot(number: int, type_: lt.Type) -> Value:
        return f.load(type_, f.gep(env, number * SLOT_BYTES), 8, invariant=True)

    addresses = {number: slot(number, lt.PTR) for number in range(buffers)}
    scratch = slot(buffers, lt.PTR)
    sizes = {name: slot(buffers + 1 + n, lt.I64) for n, name in enumerate(symbols)}
    return ValueEmitter(f, addresses, sizes, fma), scratch


def emit_loop_kernel(
    module: ModuleBuilder, symbol: str, kernel: LoopKernel, schedule: LoopSchedule, fma: bool
) -> EmittedKernel:
    """Emit the functions of a loop kernel into `module`."""
    count = len(kernel.buffers)
    if schedule.split is not None:
        return _emit_split(module, symbol, kernel, schedule, schedule.split, fma)
    f, emitter, _, chunk = open_kernel(module, symbol, count, kernel.symbols, fma)
    for number, buffer in enumerate(kernel.kept, count):
        assert isinstance(buffer.size, int), "kept rows have static lengths"
        emitter.buffers[number] = f.alloca(memory_type(buffer.dtype), buffer.size, 64)
    body = LoopEmitter(f, emitter, kernel, schedule)
    grain, units = emitter.index(schedule.grain), emitter.index(schedule.units)
    first = f.imul(chunk, grain)
    last = f.imin(f.iadd(first, grain), units)
    f.loop(first, last, 1, [], lambda unit, _: body.unit(unit, body.passes))
    f.ret()
    return EmittedKernel((Phase(symbol, schedule.chunks),), count, kernel.symbols)


class LoopEmitter:
    """Emits units and passes of one kernel into one function."""

    def __init__(
        self,
        f: FunctionBuilder,
        emitter: ValueEmitter,
        kernel: LoopKernel,
        schedule: LoopSchedule,
    ) -> None:
        """Emit `kernel` as `schedule` says."""
        self.f = f
        self.emitter = emitter
        self.kernel = kernel
        self.schedule = schedule
        self.bounds: tuple[IndexValue, IndexValue] | None = None
        self.part_length: int | Dim = 0

    def passes(self) -> None:
        """Emit all passes of the current grid point (or block of points)."""
        for number, item in enumerate(self.kernel.passes):
            self.one_pass(item, self.schedule.lanes[number])

    def unit(self, unit: IndexValue, body: object) -> list[Value]:
        """Bind the grid axes of unit number `unit` and run `body` there."""
        vector_axis = self.schedule.vector_axis
        rest: IndexValue = unit
        for axis in reversed(self._unit_axes()):
            extent = self.emitter.index(axis.extent)
            is_outermost = axis is self._unit_axes()[0]
            position = rest if is_outermost else self.f.irem(rest, extent)
            rest = rest if is_outermost else self.f.idiv(rest, extent)
            self.emitter.names[axis.name] = position
        self.emitter.open_scope()
        if vector_axis is None:
            body()  # type: ignore[operator]
        else:
            self._vector_block(vector_axis, self.emitter.names[vector_axis.name], body)
        self.emitter.close_scope()
        return []

    def _unit_axes(self) -> list[Axis]:
        """Return the axes that units count, the blocks of the vector axis last."""
        vector_axis, block = self.schedule.vector_axis, self.schedule.block
        axes = [axis for axis in self.kernel.grid if axis != vector_axis]
        if vector_axis is not None:
            blocks = dim.floordiv(vector_axis.extent + block - 1, block)
            axes.append(Axis(vector_axis.name, blocks))
        return axes

    def _vector_block(self, axis: Axis, block: IndexValue, body: object) -> None:
        """Run `body` for each vector of one block of a vector grid axis, the last one masked."""
        f, lanes = self.f, self.schedule.lanes[0]
        extent = self.emitter.index(axis.extent)
        low = f.imul(block, self.schedule.block)
        high = f.imin(f.iadd(low, self.schedule.block), extent)
        changing = frozenset((axis.name,))
        self._prepare(self.kernel.passes, changing | self._pass_axes())
        whole = divides(lanes, axis.extent, self.schedule.block)
        self.vectorize(axis.name, low, high, lanes, [], lambda _: body() or [], whole)  # type: ignore

    def _pass_axes(self) -> frozenset[str]:
        return frozenset(a.name for item in self.kernel.passes for a in item.axes)

    def _prepare(self, passes: tuple[Pass, ...], changing: frozenset[str]) -> None:
        self.emitter.prepare([e for item in passes for e in item.exprs], changing)

    def vectorize(
        self,
        name: str,
        low: IndexValue,
        high: IndexValue,
        lanes: int,
        carried: list[Value],
        body: object,
        only_whole: bool = False,
    ) -> list[Value]:
        """Run `body(carried)` for blocks of lanes from low to high; return what it carries.

        `only_whole`: the caller knows that nothing is left over, so no masked block is emitted.
        """
        f = self.f
        rounded = f.iadd(low, f.imul(f.idiv(f.isub(high, low), lanes), lanes))
        whole = high if only_whole else rounded

        def full(position: Value, values: list[Value]) -> list[Value]:
            return self._at(name, position, Lanes(name, lanes), values, body)

        values = f.loop(low, whole, lanes, carried, full)
        if lanes == 1 or only_whole or f.ieq(whole, high) is True:
            return values

        def tail() -> list[Value]:
            left = f.as_value(f.isub(high, whole))
            narrow = f.splat(f.trunc(left, lt.I32), lanes)
            numbers = f.const(vector(lt.I32, lanes), list(range(lanes)))
            mask = f.icmp("ult", numbers, narrow)
            return self._at(name, whole, Lanes(name, lanes, mask), values, body)

        return f.if_(f.ilt(whole, high), tail, otherwise=values)

    def _at(
        self, name: str, position: IndexValue, lanes: Lanes, values: list[Value], body: object
    ) -> list[Value]:
        emitter = self.emitter
        saved = emitter.lanes
        emitter.names[name] = position
        emitter.lanes = lanes
        emitter.open_scope()
        results = body(values)  # type: ignore[operator]
        emitter.close_scope()
        emitter.lanes = saved
        return results

    # ---- passes

    def one_pass(self, item: Pass, lanes: int) -> None:
        """Emit one pass and bind its reductions.

        A pass without axes is one point (reductions over dimensions of extent 1 are such).
        """
        if not item.axes:
            width = lanes if self.schedule.vector_axis is not None else 1
            self.finish(item, self._point(item, self._initial(item, width)), 1)
            return
        changing = frozenset(axis.name for axis in item.axes)
        self._prepare((item,), changing)
        own_lanes = lanes if self.schedule.vector_axis is None else 1
        start = self._initial(item, lanes)
        values = self._axes_loop(item, item.axes, own_lanes, start)
        self.finish(item, values, own_lanes)

    def _initial(self, item: Pass, lanes: int) -> list[Value]:
        """Return the accumulators: identities where lanes are folded, else the initial values."""
        found: list[Value] = []
        for reduction in item.reductions:
            for init, value in zip(reduction.inits, reduction.inputs, strict=True):
                if starts_from_identity(reduction):
                    element = value.dtype
                    identity = identity_of(reduction.combiner.opcode or "", element)
                    scalar = self.f.const(register_type(element), identity)
                else:
                    scalar = self.emitter.value(init)
                found.append(self.f.splat(scalar, lanes) if lanes > 1 else scalar)
        return found

    def _axes_loop(
        self, item: Pass, axes: tuple[Axis, ...], lanes: int, values: list[Value]
    ) -> list[Value]:
        axis, *inner = axes
        low: IndexValue = 0
        high = self.emitter.index(axis.extent)
        if self.bounds is not None and axis is item.axes[0]:
            low, high = self.bounds
        if inner:

            def body(position: Value, carried: list[Value]) -> list[Value]:
                self.emitter.names[axis.name] = position
                self.emitter.open_scope()
                self._prepare((item,), frozenset(a.name for a in inner))
                results = self._axes_loop(item, tuple(inner), lanes, carried)
                self.emitter.close_scope()
                return results

            return self.f.loop(low, high, 1, values, body)
        if lanes > 1:
            part = self.part_length if axis is item.axes[0] else 0
            whole = divides(lanes, axis.extent, part)
            return self.vectorize(
                axis.name,
                low,
                high,
                lanes,
                values,
                lambda carried: self._point(item, carried),
                whole,
            )

        def scalar(position: Value, carried: list[Value]) -> list[Value]:
            self.emitter.names[axis.name] = position
            self.emitter.open_scope()
            results = self._point(item, carried)
            self.emitter.close_scope()
            return results

        return self.f.loop(low, high, 1, values, scalar)

    def _point(self, item: Pass, carried: list[Value]) -> list[Value]:
        """Emit one point (or vector) of a pass; return the new accumulators."""
        emitter = self.emitter
        results: list[Value] = []
        offset = 0
        for reduction in item.reductions:
            count = len(reduction.inputs)
            old = carried[offset : offset + count]
            offset += count
            inputs = [
                emitter.vector_value(value, accumulator.type.lanes)
                for value, accumulator in zip(reduction.inputs, old, strict=True)
            ]
            new = combine(emitter, reduction.combiner, (*old, *inputs))
            results.extend(self._masked(tuple(new), old))
        # All values before any store: an output may lie where another value is still to be read.
        for store in item.stores:
            for value in store.exprs:
                emitter.value(value)
        for store in item.stores:
            emitter.store(store)
        return results

    def _masked(self, new: tuple[Value, ...], old: list[Value]) -> list[Value]:
        lanes = self.emitter.lanes
        if lanes is None or lanes.mask is None or self.schedule.vector_axis is not None:
            return list(new)
        return [self.f.select(lanes.mask, a, b) for a, b in zip(new, old, strict=True)]

    def finish(self, item: Pass, values: list[Value], lanes: int) -> None:
        """Fold lanes, apply initial values, bind the reductions' results."""
        offset = 0
        for reduction in item.reductions:
            count = len(reduction.inputs)
            parts = tuple(values[offset : offset + count])
            offset += count
            if lanes > 1:
                parts = self._fold(reduction, parts)
            self.bind(reduction, parts)

    def _fold(self, reduction: Reduction, parts: tuple[Value, ...]) -> tuple[Value, ...]:
        """Combine the lanes pairwise, in an order that depends on the lane count alone."""
        f = self.f
        while parts[0].type.lanes > 1:
            half = parts[0].type.lanes // 2
            low = tuple(f.slice_lanes(part, 0, half) for part in parts)
            high = tuple(f.slice_lanes(part, half, half) for part in parts)
            parts = combine(self.emitter, reduction.combiner, (*low, *high))
        return parts

    def bind(self, reduction: Reduction, parts: tuple[Value, ...]) -> None:
        """Make the finished values of a reduction known to the emitter."""
        emitter = self.emitter
        if starts_from_identity(reduction):
            inits = tuple(emitter.value(init) for init in reduction.inits)
            parts = combine(emitter, reduction.combiner, (*inits, *parts))
        names = frozenset(axis.name for axis in self.kernel.grid)
        for number, (value, part) in enumerate(zip(reduction.inputs, parts, strict=True)):
            expr = make("reduced", value.dtype, (), (reduction.number, number, names))
            emitter.bind(expr, part)
        emitter.bind(("reduction", reduction.number), parts[0])


def divides(lanes: int, *sizes: int | Dim) -> bool:
    """Whether every one of `sizes` is known to be a multiple of `lanes`."""
    return all(isinstance(size, int) and size % lanes == 0 for size in sizes)


def starts_from_identity(reduction: Reduction) -> bool:
    """Whether accumulators start from the combiner's identity, the initial value coming last."""
    return reduction.combiner.opcode in LANE_COMBINERS


def identity_of(opcode: str, element: DType) -> float | int | bool:
    """Return e with combine(e, x) == x for every x."""
    if opcode == "add":
        # -0.0 + x is x for both zeros.
        return -0.0 if element.is_float else 0
    if opcode == "multiply":
        return 1.0 if element.is_float else 1
    if opcode in ("or", "xor"):
        return False if element.name == "pred" else 0
    if opcode == "and":
        return True if element.name == "pred" else -1
    return _extreme(element, lowest=opcode == "maximum")


def _extreme(element: DType, *, lowest: bool) -> float | int | bool:
    if element.is_float:
        return float("-inf") if lowest else float("inf")
    if element.name == "pred":
        return not lowest
    if element.is_signed:
        return -(1 << (element.bits - 1)) if lowest else (1 << (element.bits - 1)) - 1
    return 0 if lowest else (1 << element.bits) - 1


# ---- split reductions


def _emit_split(
    module: ModuleBuilder,
    symbol: str,
    kernel: LoopKernel,
    schedule: LoopSchedule,
    split: Split,
    fma: bool,
) -> EmittedKernel:
    """Emit a reduction in parts: `<symbol>_part` per part, then `<symbol>` for the rest."""
    count = len(kernel.buffers)
    first = kernel.passes[0]
    layout = PartialLayout.of(kernel, schedule, first)
    _emit_parts(module, f"{symbol}_part", kernel, schedule, split, layout, fma)
    f, emitter, scratch, _ = open_kernel(module, symbol, count, kernel.symbols, fma)
    body = LoopEmitter(f, emitter, kernel, schedule)
    parts = emitter.index(split.count)
    units = emitter.index(schedule.units)

    def unit(number: Value, _: list[Value]) -> list[Value]:
        def rest() -> None:
            own = layout.lanes if schedule.vector_axis is not None else 1
            start = layout.load(f, layout.address(f, emitter, scratch, 0, number), own)

            def add(part: Value, values: list[Value]) -> list[Value]:
                address = layout.address(f, emitter, scratch, part, number)
                more = layout.load(f, address, own)
                return _combine_all(emitter, first, values, more)

            values = f.loop(1, parts, 1, start, add)
            offset = 0
            for reduction in first.reductions:
                size = len(reduction.inputs)
                body.bind(reduction, tuple(values[offset : offset + size]))
                offset += size
            for place, item in enumerate(kernel.passes[1:], 1):
                body.one_pass(item, schedule.lanes[place])

        return body.unit(number, rest)

    f.loop(0, units, 1, [], unit)
    f.ret()
    scratch_bytes = split.count * schedule.units * layout.bytes
    phases = (Phase(f"{symbol}_part", split.count), Phase(symbol, 1))
    return EmittedKernel(phases, count, kernel.symbols, scratch_bytes)


def _combine_all(
    emitter: ValueEmitter, item: Pass, old: list[Value], more: list[Value]
) -> list[Value]:
    results: list[Value] = []
    for reduction in item.reductions:
        start, count = len(results), len(reduction.inputs)
        pair = (*old[start : start + count], *more[start : start + count])
        results.extend(combine(emitter, reduction.combiner, pair))
    return results


@dataclass(frozen=True, slots=True)
class PartialLayout:
    """Where partial results lie: part major, then unit, then accumulator (64-byte rows)."""

    types: tuple[lt.Type, ...]
    offsets: tuple[int, ...]
    bytes: int
    lanes: int
    units: int | Dim

    @staticmethod
    def of(kernel: LoopKernel, schedule: LoopSchedule, item: Pass) -> PartialLayout:
        """Return the layout of the partial results of a pass."""
        lanes = schedule.lanes[0] if schedule.vector_axis is not None else 1
        types: list[lt.Type] = []
        offsets: list[int] = []
        total = 0
        for reduction in item.reductions:
            for value in reduction.inputs:
                element = register_type(value.dtype)
                stored = memory_type(value.dtype) if element is lt.I1 else element
                types.append(stored)
                offsets.append(total)
                total += -(-lanes * stored.bytes // 64) * 64
        return PartialLayout(tuple(types), tuple(offsets), total, lanes, schedule.units)

    def address(
        self,
        f: FunctionBuilder,
        emitter: ValueEmitter,
        scratch: Value,
        part: IndexValue,
        unit: IndexValue,
    ) -> Value:
        """Return where the partial results of a part and unit start."""
        number = f.iadd(f.imul(part, emitter.index(self.units)), unit)
        return f.gep(scratch, f.imul(number, self.bytes))

    def load(self, f: FunctionBuilder, address: Value, lanes: int) -> list[Value]:
        """Return the accumulators stored at `address`."""
        found: list[Value] = []
        for stored, offset in zip(self.types, self.offsets, strict=True):
            value = f.load(vector(stored, lanes), f.gep(address, offset))
            is_bool = stored is lt.I8
            found.append(f.icmp("ne", value, f.zero(value.type)) if is_bool else value)
        return found

    def store(self, f: FunctionBuilder, address: Value, values: list[Value]) -> None:
        """Store accumulators at `address`."""
        for value, stored, offset in zip(values, self.types, self.offsets, strict=True):
            is_bool = value.type.element is lt.I1
            kept = f.zext(value, vector(stored, value.type.lanes)) if is_bool else value
            f.store(kept, f.gep(address, offset))


def _emit_parts(
    module: ModuleBuilder,
    symbol: str,
    kernel: LoopKernel,
    schedule: LoopSchedule,
    split: Split,
    layout: PartialLayout,
    fma: bool,
) -> None:
    """Emit the function that computes part number `chunk` of every unit."""
    f, emitter, scratch, chunk = open_kernel(
        module, symbol, len(kernel.buffers), kernel.symbols, fma
    )
    parts = PartEmitter(f, emitter, kernel, replace(schedule, split=None))
    length = emitter.index(split.length)
    low = f.imul(chunk, length)
    extent = emitter.index(kernel.passes[0].axes[0].extent)
    parts.bounds = (low, f.imin(f.iadd(low, length), extent))
    parts.part_length = split.length

    def unit(number: Value, _: list[Value]) -> list[Value]:
        def body() -> None:
            parts.collected = []
            parts.one_pass(kernel.passes[0], schedule.lanes[0])
            layout.store(f, layout.address(f, emitter, scratch, chunk, number), parts.collected)

        return parts.unit(number, body)

    f.loop(0, emitter.index(schedule.units), 1, [], unit)
    f.ret()


class PartEmitter(LoopEmitter):
    """Emits a pass whose reductions stay partial: no initial value, results collected."""

    collected: list[Value]

    def bind(self, reduction: Reduction, parts: tuple[Value, ...]) -> None:
        """Collect the partial results instead of finishing them."""
        del reduction
        self.collected.extend(parts)
