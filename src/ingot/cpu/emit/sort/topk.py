# SPDX-License-Identifier: Apache-2.0
"""Selection as LLVM functions of every size: the k greatest (or least) of each row, in order.

An element and its index make one 64-bit *candidate*, whose signed order is that of the result: the
element's key is the upper half, the complement of its index the lower, so of equal elements the
first is greatest and no two candidates are equal. A row is read in blocks; elements that beat the
k-th best so far join the candidates. When their room is full, the best k are kept (`best`). For a
small k and a short row, each is the greatest of the candidates below the one before.

Invariant: a candidate is dropped only if it is less than k others that are kept.
"""

from __future__ import annotations

from ingot.cpu.emit.kernel_abi import for_units, open_kernel, scratch_of
from ingot.cpu.emit.sort.best import LANES, WORST, keep_best
from ingot.cpu.emit.sort.merge_sort import MergeSorter
from ingot.cpu.emit.sort.selection_keys import Keys
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.values import ValueEmitter
from ingot.hlo.dtype import DType
from ingot.kernel.sort.topk import BLOCK, PARAMETERS
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import vector
from ingot.llvm.values import Value
from ingot.support.records import record

BYTES = 8


@record
class SelectionVariant:
    """What selections must have in common to share code: element type and direction."""

    element: DType
    largest: bool

    @property
    def name(self) -> str:
        """A name that says all of it."""
        return f"{self.element.name}_{'greatest' if self.largest else 'least'}"


def emit_selection(
    module: ModuleBuilder,
    symbols: tuple[str, str, str],
    variant: SelectionVariant,
    target: TargetSpec,
) -> None:
    """Emit the functions of a variant: over whole rows, over parts, over their best."""
    _emit_whole(module, symbols[0], variant, target)
    _emit_parts(module, symbols[1], variant, target)
    _emit_joined(module, symbols[2], variant, target)


def _emit_whole(
    module: ModuleBuilder, symbol: str, variant: SelectionVariant, target: TargetSpec
) -> None:
    """Emit the function that selects in each row of a chunk."""
    f, rows, scratch, chunk = _open(module, symbol, variant, target)
    area = f.gep(scratch, f.imul(chunk, rows.area_bytes))

    def whole(row: Value) -> None:
        f.if_(f.ine(rows.given("in_rounds"), 0), lambda: in_rounds(row), lambda: at_once(row))

    def in_rounds(row: Value) -> None:
        rows.select(row, area)

    def at_once(row: Value) -> None:
        found = rows.gather(row, 0, rows.length, area)
        rows.pad(area, found)
        rows.finish(row, area)

    for_units(f, chunk, rows.given("grain"), rows.given("rows"), whole)
    f.ret()


def _emit_parts(
    module: ModuleBuilder, symbol: str, variant: SelectionVariant, target: TargetSpec
) -> None:
    """Emit the function that leaves the best k of one part of a row in the part's area."""
    f, rows, scratch, chunk = _open(module, symbol, variant, target)
    parts, size = rows.given("parts"), rows.given("part")
    row, part = f.idiv(chunk, parts), f.irem(chunk, parts)
    low = f.imul(part, size)
    high = f.imin(f.iadd(low, size), rows.length)
    area = f.gep(scratch, f.imul(chunk, rows.area_bytes))
    rows.pad(area, rows.gather(row, low, high, area))
    f.ret()


def _emit_joined(
    module: ModuleBuilder, symbol: str, variant: SelectionVariant, target: TargetSpec
) -> None:
    """Emit the function that selects among the best of the parts of one row."""
    f, rows, scratch, row = _open(module, symbol, variant, target)
    parts, best_bytes = rows.given("parts"), f.imul(rows.k, BYTES)
    area = f.gep(scratch, f.imul(row, f.imul(parts, rows.area_bytes)))

    def join(part: Value) -> None:
        target = f.gep(area, f.imul(part, best_bytes))
        f.memcpy(target, f.gep(area, f.imul(part, rows.area_bytes)), best_bytes)

    f.for_range(parts, join, start=1)
    keep_best(f, area, f.as_value(f.imul(parts, rows.k)), rows.k)
    rows.finish(row, area)
    f.ret()


def _open(
    module: ModuleBuilder, symbol: str, variant: SelectionVariant, target: TargetSpec
) -> tuple[FunctionBuilder, RowSelector, Value, Value]:
    f, emitter, chunk = open_kernel(module, symbol, 3, PARAMETERS, target.has_fma)
    return f, RowSelector(f, emitter, variant), scratch_of(f, 3), chunk


@record
class RowSelector:
    """Emits the selection in one row or a part of it."""

    f: FunctionBuilder
    emitter: ValueEmitter
    variant: SelectionVariant

    @property
    def keys(self) -> Keys:
        """The keys of the elements."""
        return Keys(self.f, self.variant.element, self.variant.largest)

    def given(self, name: str) -> Value:
        """Return a parameter."""
        return self.f.as_value(self.emitter.names[name])

    @property
    def length(self) -> Value:
        """Elements of a row."""
        return self.given("length")

    @property
    def k(self) -> Value:
        """Elements that are wanted."""
        return self.given("k")

    @property
    def area_bytes(self) -> IndexValue:
        """Bytes of an area of candidates."""
        return self.f.imul(self.given("area"), BYTES)

    # ---- one after the other

    def select(self, row: Value, area: Value) -> None:
        """Write the best k of a row, each found among the candidates, which are left in `area`."""
        f, wide = self.f, vector(lt.I64, LANES)
        none = f.const(wide, WORST)

        def fill(position: Value, best: list[Value]) -> list[Value]:
            found = self._candidates(row, position)
            f.store(found, f.gep(area, position, lt.I64))
            return [f.intrinsic("llvm.smax", wide, [best[0], found])]

        def write(rank: IndexValue, best: Value) -> Value:
            greatest = f.reduce("smax", best)
            self.write(f.iadd(f.imul(row, self.k), rank), greatest)
            return greatest

        def following(rank: Value, last: list[Value]) -> list[Value]:
            limit = f.splat(last[0], LANES)

            def block(position: Value, best: list[Value]) -> list[Value]:
                some = f.load(wide, f.gep(area, position, lt.I64))
                left = f.select(f.icmp("slt", some, limit), some, none)
                return [f.intrinsic("llvm.smax", wide, [best[0], left])]

            return [write(rank, f.loop(0, self.length, LANES, [none], block)[0])]

        (first,) = f.loop(0, self.length, LANES, [none], fill)
        f.loop(1, self.k, 1, [write(0, first)], following)

    def _candidates(self, row: Value, position: Value) -> Value:
        """Return the candidates of a block of a row; those behind its end are the worst."""
        f, keys = self.f, self.keys
        width, wide = keys.bits_type(), vector(lt.I64, LANES)
        indices = f.add(f.splat(position, LANES), f.const(wide, list(range(LANES))))
        inside = f.icmp("slt", indices, f.splat(self.length, LANES))
        start = f.iadd(f.imul(row, self.length), position)
        data = f.gep(self.emitter.buffers[0], start, width, inbounds=False)
        loaded = f.masked_load(vector(width, LANES), data, inside)
        key = f.shl(f.zext(keys.of(loaded), wide), f.const(wide, 32))
        last = f.sub(f.const(wide, (1 << 32) - 1), indices)
        return f.select(inside, f.or_(key, last), f.const(wide, WORST))

    # ---- candidates

    def gather(self, row: IndexValue, low: IndexValue, high: IndexValue, area: Value) -> Value:
        """Leave the best k of elements low..high in `area`; return how many there are (k or fewer).

        Nothing is in order yet.
        """
        f, keys = self.f, self.keys
        width = keys.bits_type()
        start = f.imul(row, self.length)
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
            keep_best(f, area, count, self.k)
            return [self.k]

        return f.if_(f.igt(count, self.k), cut, otherwise=[count])[0]

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
                return [self.k, keep_best(f, area, number, self.k)]

            is_full = f.igt(number, self.given("room"))
            return f.if_(is_full, full, otherwise=[number, limit], likely=False)

        return f.if_(f.ine(bits, 0), take, otherwise=values, likely=False)

    def pad(self, area: Value, count: Value) -> None:
        """Fill up to k candidates with the worst."""
        f = self.f

        def one(number: Value) -> None:
            f.store(f.const(lt.I64, WORST), f.gep(area, number, lt.I64))

        f.for_range(self.k, one, start=count)

    # ---- the result

    def finish(self, row: Value, area: Value) -> None:
        """Write the k candidates in `area` to row number `row` of the results, in order."""
        f, k = self.f, self.k
        spare = f.gep(area, k, lt.I64)
        sorter = MergeSorter(f, [lt.I64], k, lambda left, right: f.icmp("sgt", left[0], right[0]))
        (done,) = sorter.sort([area], [spare])
        start = f.imul(row, k)

        def element(number: Value) -> None:
            self.write(f.iadd(start, number), f.load(lt.I64, f.gep(done, number, lt.I64)))

        f.for_range(k, element)

    def write(self, where: IndexValue, candidate: Value) -> None:
        """Write the element and the index of a candidate to index `where` of the results."""
        f, keys = self.f, self.keys
        width = keys.bits_type()
        key = f.trunc(f.ashr(candidate, f.const(lt.I64, 32)), lt.I32)
        f.store(keys.back(key), f.gep(self.emitter.buffers[1], where, width))
        index = f.not_(f.trunc(candidate, lt.I32))
        f.store(index, f.gep(self.emitter.buffers[2], where, lt.I32))
