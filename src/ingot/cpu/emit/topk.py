"""Selection kernels as LLVM functions: the k greatest (or least) elements of each row, in order.

An element and its index make one 64-bit *candidate*, whose signed order is that of the result: the
element's key above, the complement of its index below, so of equal elements the first is greatest
and no two candidates are equal. A row is read in blocks; what beats the k-th best so far joins the
candidates. When their room is full the best k of them are kept (`best`).

Invariant: what is dropped is less than k candidates that are kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.cpu.emit.best import WORST, keep_best
from ingot.cpu.emit.kernel_abi import EmittedKernel, Phase, open_kernel
from ingot.cpu.emit.merge_sort import MergeSorter
from ingot.cpu.emit.types import memory_type
from ingot.cpu.emit.values import IndexValue, ValueEmitter
from ingot.hlo.dtype import DType
from ingot.kernel.ir import TopKKernel
from ingot.kernel.topk import BLOCK, TopKSchedule, schedule_topk
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import vector
from ingot.llvm.values import Value

BYTES = 8


def emit_topk_kernel(
    module: ModuleBuilder, symbol: str, kernel: TopKKernel, target: TargetSpec
) -> EmittedKernel:
    """Emit the functions of a selection into `module`."""
    schedule = schedule_topk(kernel)
    count, area_bytes = len(kernel.buffers), schedule.area * BYTES
    if schedule.part:
        _emit_parts(module, f"{symbol}_part", kernel, schedule, target)
    f, emitter, scratch, chunk = open_kernel(module, symbol, count, kernel.symbols, target.has_fma)
    rows = RowSelector(f, emitter, kernel, schedule)

    def whole(row: Value, _: list[Value]) -> None:
        area = f.gep(scratch, f.imul(chunk, area_bytes))
        found = rows.gather(row, 0, emitter.index(kernel.length), area)
        if not isinstance(kernel.length, int):
            rows.pad(area, found)
        rows.finish(row, area)

    def joined(row: Value, _: list[Value]) -> None:
        area = f.gep(scratch, f.imul(row, schedule.parts * area_bytes))
        for part in range(1, schedule.parts):
            target, source = part * kernel.k * BYTES, part * area_bytes
            f.memcpy(f.gep(area, target), f.gep(area, source), kernel.k * BYTES)
        keep_best(f, area, f.const(lt.I64, schedule.parts * kernel.k), kernel.k)
        rows.finish(row, area)

    first = f.imul(chunk, emitter.index(schedule.grain))
    last = f.imin(f.iadd(first, emitter.index(schedule.grain)), emitter.index(schedule.rows))
    f.loop(first, last, 1, [], joined if schedule.part else whole)
    f.ret()
    phase = Phase(symbol, schedule.chunks)
    if not schedule.part:
        return EmittedKernel((phase,), count, kernel.symbols, schedule.chunks * area_bytes)
    parts = schedule.rows * schedule.parts
    phases = (Phase(f"{symbol}_part", parts), phase)
    return EmittedKernel(phases, count, kernel.symbols, parts * area_bytes)


def _emit_parts(
    module: ModuleBuilder,
    symbol: str,
    kernel: TopKKernel,
    schedule: TopKSchedule,
    target: TargetSpec,
) -> None:
    """Emit the function that leaves the best k of one part of a row in the part's area."""
    f, emitter, scratch, chunk = open_kernel(
        module, symbol, len(kernel.buffers), kernel.symbols, target.has_fma
    )
    rows = RowSelector(f, emitter, kernel, schedule)
    row, part = f.idiv(chunk, schedule.parts), f.irem(chunk, schedule.parts)
    low = f.imul(part, schedule.part)
    high = f.imin(f.iadd(low, schedule.part), emitter.index(kernel.length))
    area = f.gep(scratch, f.imul(chunk, schedule.area * BYTES))
    rows.pad(area, rows.gather(row, low, high, area))
    f.ret()


@dataclass(frozen=True, slots=True)
class Keys:
    """Emits the keys of one element type: s32 numbers whose order is that of the result.

    Floats are in total order: a negative one's lower bits are turned around, a float of as many
    bits read as an integer.
    """

    f: FunctionBuilder
    element: DType
    largest: bool

    def of(self, bits: Value) -> Value:
        """Return the keys of elements as they lie in memory (as integers)."""
        f = self.f
        key = self._ordered(bits)
        if key.type.element is not lt.I32:
            key = f.sext(key, vector(lt.I32, key.type.lanes))
        return key if self.largest else f.not_(key)

    def back(self, key: Value) -> Value:
        """Return the element of a key, as an integer of its width."""
        f = self.f
        key = key if self.largest else f.not_(key)
        width = self.bits_type()
        return self._ordered(key if width is lt.I32 else f.trunc(key, width))

    def bits_type(self) -> lt.Type:
        """Return the integer type of an element's width."""
        return lt.I32 if self.element.bits == 32 else memory_type(self.element)

    def _ordered(self, bits: Value) -> Value:
        """Return bits in signed order, or such numbers as bits: it is its own inverse."""
        f, width = self.f, self.element.bits
        if self.element.is_signed:
            return bits
        if not self.element.is_float:
            return f.xor(bits, f.const(bits.type, -(1 << (width - 1))))
        sign = f.ashr(bits, f.const(bits.type, width - 1))
        return f.xor(bits, f.and_(sign, f.const(bits.type, (1 << (width - 1)) - 1)))


@dataclass(frozen=True, slots=True)
class RowSelector:
    """Emits the selection in one row or a part of it."""

    f: FunctionBuilder
    emitter: ValueEmitter
    kernel: TopKKernel
    schedule: TopKSchedule

    @property
    def keys(self) -> Keys:
        """The keys of the elements."""
        return Keys(self.f, self.kernel.buffers[0].dtype, self.kernel.largest)

    # ---- candidates

    def gather(self, row: IndexValue, low: IndexValue, high: IndexValue, area: Value) -> Value:
        """Leave the best k of elements low..high in `area`; return how many there are (k or fewer).

        Nothing is in order yet.
        """
        f, keys = self.f, self.keys
        width = keys.bits_type()
        start = f.imul(row, self.emitter.index(self.kernel.length))
        data = f.gep(self.emitter.buffers[0], start, width)
        whole = f.iadd(low, f.imul(f.idiv(f.isub(high, low), BLOCK), BLOCK))
        room = f.alloca(lt.I32, BLOCK, 64)
        wide = vector(width, BLOCK)

        def block(position: Value, values: list[Value]) -> list[Value]:
            loaded = f.load(wide, f.gep(data, position, width))
            return self._join(keys.of(loaded), position, values, None, area, room)

        begin = [f.const(lt.I64, 0), f.const(lt.I32, -(1 << 31))]
        values = f.loop(low, whole, BLOCK, begin, block)

        def rest() -> list[Value]:
            left = f.splat(f.trunc(f.as_value(f.isub(high, whole)), lt.I32), BLOCK)
            mask = f.icmp("ult", f.const(left.type, list(range(BLOCK))), left)
            loaded = f.masked_load(wide, f.gep(data, whole, width, inbounds=False), mask)
            return self._join(keys.of(loaded), f.as_value(whole), values, mask, area, room)

        count = f.if_(f.ilt(whole, high), rest, otherwise=values)[0]

        def cut() -> list[Value]:
            keep_best(f, area, count, self.kernel.k)
            return [f.const(lt.I64, self.kernel.k)]

        return f.if_(f.igt(count, self.kernel.k), cut, otherwise=[count])[0]

    def _join(
        self,
        keys: Value,
        position: Value,
        values: list[Value],
        mask: Value | None,
        area: Value,
        room: Value,
    ) -> list[Value]:
        """Add the elements of a block that are no less than the limit; return count and limit."""
        f = self.f
        count, limit = values
        hits = f.icmp("sge", keys, f.splat(limit, BLOCK))
        hits = hits if mask is None else f.and_(hits, mask)
        bits = f.bitcast(hits, lt.I64)

        def take() -> list[Value]:
            f.store(keys, room)
            last = f.sub(f.const(lt.I64, (1 << 32) - 1), position)

            def one(inner: list[Value]) -> list[Value]:
                bits, number = inner
                lane = f.intrinsic("llvm.cttz", lt.I64, [bits, f.const(lt.I1, True)])
                key = f.zext(f.load(lt.I32, f.gep(room, lane, lt.I32)), lt.I64)
                candidate = f.or_(f.shl(key, f.const(lt.I64, 32)), f.sub(last, lane))
                f.store(candidate, f.gep(area, number, lt.I64))
                without = f.and_(bits, f.sub(bits, f.const(lt.I64, 1)))
                return [without, f.add(number, f.const(lt.I64, 1))]

            nothing = f.const(lt.I64, 0)
            _, number = f.while_([bits, count], lambda v: f.icmp("ne", v[0], nothing), one)

            def full() -> list[Value]:
                return [f.const(lt.I64, self.kernel.k), keep_best(f, area, number, self.kernel.k)]

            is_full = f.igt(number, self.schedule.room)
            return f.if_(is_full, full, otherwise=[number, limit], likely=False)

        return f.if_(f.ine(bits, 0), take, otherwise=values, likely=False)

    def pad(self, area: Value, count: Value) -> None:
        """Fill up to k candidates with the worst."""
        f = self.f

        def one(number: Value, _: list[Value]) -> None:
            f.store(f.const(lt.I64, WORST), f.gep(area, number, lt.I64))

        f.loop(count, self.kernel.k, 1, [], one)

    # ---- the result

    def finish(self, row: Value, area: Value) -> None:
        """Write the k candidates in `area` to row number `row` of the results, in order."""
        f, k, keys = self.f, self.kernel.k, self.keys
        spare = f.gep(area, k * BYTES)
        sorter = MergeSorter(f, [lt.I64], k, lambda left, right: f.icmp("sgt", left[0], right[0]))
        (done,) = sorter.sort([area], [spare])
        numbers = self.emitter.buffers
        count = len(numbers)
        width = keys.bits_type()
        start = f.imul(row, k)
        values = f.gep(numbers[count - 2], start, width)
        indices = f.gep(numbers[count - 1], start, lt.I32)

        def write(place: Value, _: list[Value]) -> None:
            candidate = f.load(lt.I64, f.gep(done, place, lt.I64))
            key = f.trunc(f.ashr(candidate, f.const(lt.I64, 32)), lt.I32)
            f.store(keys.back(key), f.gep(values, place, width))
            f.store(f.not_(f.trunc(candidate, lt.I32)), f.gep(indices, place, lt.I32))

        f.loop(0, k, 1, [], write)
