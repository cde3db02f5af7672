# SPDX-License-Identifier: Apache-2.0
"""Quicksort of records in scratch as library code: `sort`, `split` and `partition`, of every size.

Two arrays of the same size are used: a range of records is in one of them, at the same indices the
other one is free. A partition leaves lesser records at the front of their array and moves the
others to the back of the other one. Few records are sorted by `networks`.

Of every range the least and the greatest possible record are known. The pivot is more than the
least, so equal records end as a range whose bounds are equal. After twice as many partitions as
even ones would be, the range of values is halved instead, so no record is moved more often than
2 log2(count) and the bits of a record together.

Invariant: where registers have no masks there is room for `BLOCK` records (`kernel.sort.sort`)
behind each array, which may be read.
Source: J. Wassenberg, M. Blacher, J. Giesen, P. Sanders, Vectorized and performance-portable
Quicksort (2022); D. Musser, Introspective sorting and selection algorithms (1997).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from ingot.cpu.emit.sort.networks import sort_block
from ingot.cpu.emit.sort.partition import PARAMS, define_partition
from ingot.cpu.emit.sort.records import Record, Records, RecordType, Registers
from ingot.cpu.emit.template import Template
from ingot.kernel.sort.sort import MAX_PARTS
from ingot.llvm import types as lt
from ingot.llvm.builder import ALIGNED_STACK, FunctionBuilder, FunctionRef, ModuleBuilder
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import vector
from ingot.llvm.values import Value

SAMPLES = 9
"""Registers that a pivot is chosen from."""

_ARRAYS = [(name, lt.PTR) for name in ("data", "other", "target")]
SORT = [*_ARRAYS, ("count", lt.I64), ("distance", lt.I64)]
"""Parameters of `sort`: the array that holds the records, the other one, which of both they shall
be in (or a third array), how many there are, and bytes from one word's array to the next's."""

SPLIT = [*SORT, ("splitters", lt.PTR), ("first", lt.I64), ("last", lt.I64), ("counts", lt.PTR)]
"""Parameters of `split`: as of `sort`, then the splitters in order, each word's `MAX_PARTS` behind
those of the word before, the numbers of the first of them and of what is behind the last, and where
the number of records between two splitters goes to."""


@dataclass(frozen=True, slots=True)
class Quicksort:
    """Sorts that share code: those of one type of records."""

    type: RecordType

    @property
    def name(self) -> str:
        """A name that says all of it."""
        return f"quicksort_{self.type.name}"

    def symbol(self, function: str) -> str:
        """Return the symbol of `sort`, `split` or `partition`."""
        return f"{self.name}_{function}"

    def params(self, function: str) -> list[lt.Type]:
        """Return the types of a function's parameters."""
        partition = [*PARAMS, SORT[-1], *self.type.params("pivot")]
        named = {"sort": SORT, "split": SPLIT, "partition": partition}[function]
        return [type_ for _, type_ in named]

    def template(self, target: TargetSpec) -> Template:
        """Return the code of the functions for a target."""

        def define(module: ModuleBuilder) -> None:
            registers = Registers.of(target, self.type)
            partition = define_partition(module, self.symbol("partition"), self.type, registers)
            bounds = [*self.type.params("least"), *self.type.params("most")]
            params = [*SORT, ("budget", lt.I64), *bounds]
            f = _function(module, self.symbol("range"), params, "internal")
            _Range(f, self.type, registers, partition).define()
            self._define_sort(module, f.reference)
            self._define_split(module, partition)

        return Template(self.name, define)

    def _define_sort(self, module: ModuleBuilder, sort_range: FunctionRef) -> None:
        """Define the function that sorts: a range that may hold everything."""
        f = _function(module, self.symbol("sort"), SORT)
        zeros = f.intrinsic("llvm.ctlz", lt.I64, [f.params[3], f.const(lt.I1, False)])
        budget = f.as_value(f.imul(f.isub(64, zeros), 2))
        bounds = [f.const(self.type.word, n) for n in (*self.type.least, *self.type.greatest)]
        f.call(sort_range, [*f.params, budget, *bounds])
        f.ret()

    def _define_split(self, module: ModuleBuilder, partition: FunctionRef) -> None:
        """Define the function that splits: by the splitter in the middle, then both sides."""
        f = _function(module, self.symbol("split"), SPLIT)
        data, other, target, count, distance, splitters, first, last, counts = f.params
        records = Records(f, self.type, distance)

        def keep() -> None:
            f.store(count, f.gep(counts, first, lt.I64))
            is_elsewhere = f.icmp("ne", data, target)
            f.if_(is_elsewhere, lambda: records.copy(data, target, count))

        def divide() -> None:
            middle = f.as_value(f.idiv(f.iadd(first, last), 2))
            indices = [f.iadd(middle, n * MAX_PARTS) for n in range(self.type.words)]
            pivot = [f.load(self.type.word, records.at(splitters, index)) for index in indices]
            end = records.at(other, count)
            before = f.call(partition, [data, data, end, count, distance, *pivot])
            rest = [splitters, first, middle, counts]
            f.call(f.reference, [data, other, target, before, distance, *rest])
            after = [records.at(array, before) for array in (other, data, target)]
            rest = [splitters, f.as_value(f.iadd(middle, 1)), last, counts]
            f.call(f.reference, [*after, f.sub(count, before), distance, *rest])

        f.if_(f.icmp("eq", first, last), keep, divide)
        f.ret()


def _function(
    module: ModuleBuilder, symbol: str, params: list[tuple[str, lt.Type]], linkage: str = ""
) -> FunctionBuilder:
    attributes = f"noinline nounwind {ALIGNED_STACK}"
    return module.function(symbol, lt.VOID, params, linkage=linkage, attrs=attributes)


class _Range:
    """Emits the function that sorts a range whose least and greatest record are known.

    It has the parameters of `sort`, how many times it may choose a pivot, and both records.
    """

    def __init__(
        self,
        f: FunctionBuilder,
        type_: RecordType,
        registers: Registers,
        partition: FunctionRef,
    ) -> None:
        self.f = f
        self.registers = registers
        self.partition = partition
        self.distance = f.params[4]
        self.records = Records(f, type_, self.distance)

    def define(self) -> None:
        """Emit partitions, of which the side of fewer records is sorted by a call."""
        f, records = self.f, self.records
        data, other, target, count, distance, *rest = f.params
        block = f.const(lt.I64, self.registers.block)

        def goes_on(state: list[Value]) -> Value:
            least, most = self._bounds(state)
            return f.and_(f.icmp("sgt", state[3], block), records.less(least, most))

        def halve(state: list[Value]) -> list[Value]:
            data, other, target, count, budget, *_ = state
            least, most = self._bounds(state)
            (*pivot,) = f.if_(
                f.icmp("sgt", budget, f.const(lt.I64, 0)),
                lambda: list(self._chosen(data, count, least)),
                lambda: list(self._middle(least, most)),
            )
            end = records.at(other, count)
            before = f.call(self.partition, [data, data, end, count, distance, *pivot])
            after, left = f.sub(count, before), f.sub(budget, f.const(lt.I64, 1))
            front = [data, other, target, before, left, *least, *self._preceding(pivot)]
            arrays = [records.at(each, before) for each in (other, data, target)]
            back = [*arrays, after, left, *pivot, *most]
            is_front = f.icmp("slt", before, after)
            few = records.select(is_front, front, back)
            f.call(f.reference, [*few[:4], distance, *few[4:]])
            return list(records.select(is_front, back, front))

        state = f.while_([data, other, target, count, *rest], goes_on, halve)
        data, _, target, count, *_ = state
        least, _ = self._bounds(state)
        f.if_(
            f.icmp("sle", count, block),
            lambda: self._sort_few(data, target, count),
            lambda: self._fill(target, count, least),
        )
        f.ret()

    def _bounds(self, state: list[Value]) -> tuple[Record, Record]:
        words = self.records.type.words
        return state[5 : 5 + words], state[5 + words :]

    # ---- pivots

    def _chosen(self, data: Value, count: Value, least: Record) -> Record:
        """Return a record near the median of some; more than the least that there may be."""
        f, records, lanes = self.f, self.records, self.registers.lanes
        step = f.idiv(f.isub(count, lanes), SAMPLES - 1)
        indices = [f.imul(step, number) for number in range(SAMPLES)]
        held = [records.load(records.at(data, index), lanes) for index in indices]
        while len(held) > 1:
            thirds = [held[first : first + 3] for first in range(0, len(held), 3)]
            held = [records.median(*third) for third in thirds]
        (row,) = held
        some = [[f.extract(word, lanes * part // 3) for word in row] for part in range(3)]
        pivot = records.median(*some) if lanes > 2 else some[0]
        following = [*least[:-1], f.add(least[-1], f.const(records.type.word, 1))]
        return records.ordered(pivot, following)[1]

    def _middle(self, least: Record, most: Record) -> Record:
        """Return the middle of the range: of its keys, of the positions where there is one key."""
        f, one = self.f, self.f.const(self.records.type.word, 1)

        def between(low: Value, high: Value) -> Value:
            return f.add(f.add(low, f.lshr(f.sub(high, low), one)), one)

        by_key = between(least[0], most[0])
        if len(least) == 1:
            return [by_key]
        is_key = f.icmp("eq", least[0], most[0])
        by_position = [least[0], between(least[1], most[1])]
        return self.records.select(is_key, by_position, [by_key, f.const(one.type, 0)])

    def _preceding(self, record: Record) -> Record:
        """Return the greatest record that is less than a record."""
        f, records = self.f, self.records
        one = f.const(records.type.word, 1)
        before = [*record[:-1], f.sub(record[-1], one)]
        if len(record) == 1:
            return before
        is_first = f.icmp("eq", record[1], f.const(one.type, 0))
        greatest = f.const(one.type, records.type.greatest[1])
        return records.select(is_first, [f.sub(record[0], one), greatest], before)

    # ---- the rest

    def _fill(self, target: Value, count: Value, record: Record) -> None:
        """Write a range of equal records."""
        f, records, lanes = self.f, self.records, self.registers.lanes
        whole = f.imul(f.idiv(count, lanes), lanes)
        for first, last, step in ((0, whole, lanes), (whole, count, 1)):
            held = records.splat(record, step)

            def one(index: Value, held: Record = held) -> None:
                records.store(held, records.at(target, index))

            f.for_range(last, one, start=first, step=step)

    def _sort_few(self, data: Value, target: Value, count: Value) -> None:
        """Sort no more records than a block has, in the least block of some that holds them."""
        f, registers = self.f, self.registers
        sizes = [1 << bit for bit in range(registers.rows.bit_length())]
        sizes.insert(-1, registers.rows // 4 * 3)

        def here(fewer: int, rows: int) -> None:
            self._sort_rows(data, target, count, (fewer, rows))

        def choose(fewer: int, rows: int, less: Callable[[], None]) -> None:
            fits = f.icmp("sle", count, f.const(lt.I64, fewer * registers.lanes))
            f.if_(fits, less, lambda: here(fewer, rows))

        emit = partial(here, 0, sizes[0])
        for fewer, rows in pairwise(sizes):
            emit = partial(choose, fewer, rows, emit)
        emit()

    def _sort_rows(self, data: Value, target: Value, count: Value, sizes: tuple[int, int]) -> None:
        """Sort records in registers; `sizes`: how many are full for certain, and how many."""
        records, lanes = self.records, self.registers.lanes
        full, number = sizes
        masks: list[Value | None] = [None] * number
        rows: list[Record] = []
        last = records.constant(records.type.greatest, lanes)
        for row in range(number):
            address = records.at(data, row * lanes)
            if row >= full:
                masks[row] = mask = records.first_lanes(count, lanes, row * lanes)
                rows.append(records.load_some(address, mask, last))
            else:
                rows.append(records.load(address, lanes))
        sort_block(records, rows)
        if self.registers.has_masks:
            for row, record in enumerate(rows):
                records.store(record, records.at(target, row * lanes), masks[row])
        else:
            self._store_by_stack(rows, target, count)

    def _store_by_stack(self, rows: list[Record], target: Value, count: Value) -> None:
        """Store records in registers that whole registers have no room for."""
        f, type_ = self.f, self.records.type
        wide = vector(type_.word, self.registers.lanes)
        size = len(rows) * wide.bytes
        room = f.alloca(lt.I8, size * type_.words, wide.bytes)
        apart = Records(f, type_, f.const(lt.I64, size))
        for row, record in enumerate(rows):
            apart.store(record, apart.at(room, row * self.registers.lanes))
        for word in range(type_.words):
            to = f.gep(target, f.imul(self.distance, word), inbounds=False)
            f.memcpy(to, f.gep(room, word * size), f.as_value(f.imul(count, type_.word.bytes)))
