# SPDX-License-Identifier: Apache-2.0
"""Sorts by one key as LLVM functions of every size: records are sorted, elements follow from them.

`keyed_records` makes records of elements and elements of records; `quicksort` sorts records.

A row that is cut into parts is sorted in buckets. A sample of its records, in order, gives the
bounds of the buckets and of their halves. The first phase arranges the records of each part by
bucket; the second collects the pieces of a bucket, the lower half first; the last sorts the halves
and writes their elements. All of it depends on the elements alone, so results do not depend on
threads.
"""

from __future__ import annotations

from ingot.cpu.emit.kernel_abi import Phase, bind_env, for_units, scratch_of
from ingot.cpu.emit.sort.keyed_records import Keys, Pairs, Words, sorts_in_result
from ingot.cpu.emit.sort.keyed_rows import FRONTS, KeyedRows
from ingot.cpu.emit.sort.records import Record
from ingot.cpu.emit.sort.sort_phases import Numbers, emit_phase
from ingot.emit.values.indices import IndexValue
from ingot.kernel.sort.keys import RecordKind
from ingot.kernel.sort.sort import (
    BLOCK,
    BUCKET_SAMPLES,
    KEYED_PARAMETERS,
    MAX_PARTS,
    KeyedVariant,
    SortSchedule,
)
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.target import TargetSpec
from ingot.llvm.values import Value

CALLED = ("sort", "split", "partition")
"""Functions of `Quicksort` whose addresses are in env, behind the numbers."""

MAX_SAMPLES = BUCKET_SAMPLES * MAX_PARTS


def emit_keyed_sort(
    module: ModuleBuilder, symbol: str, variant: KeyedVariant, target: TargetSpec
) -> None:
    """Emit the functions of a variant of sorts into `module`."""
    count = 2 * len(variant.elements)

    def start(f: FunctionBuilder) -> KeyedRows:
        emitter = bind_env(f, f.params[0], count, (*KEYED_PARAMETERS, *CALLED), target.has_fma)
        given = {name: emitter.names[name] for name in KEYED_PARAMETERS}
        area = given.pop("area")
        numbers = Numbers(**given, areas=[area] * variant.record.num_words)
        kinds = {RecordKind.PAIR: Pairs, RecordKind.WORD: Words}
        rows = kinds.get(variant.record, Keys)(f, emitter, numbers, variant)
        if isinstance(rows, Keys):
            rows.in_result = sorts_in_result(variant, target)
        rows.step = 2 * target.vector_bits // variant.record.bits
        return rows

    for name, body in _PHASES.items():
        f = emit_phase(module, symbol + name)
        body(start(f), f.params[1], scratch_of(f, count))
        f.ret()


def keyed_phases(symbol: str, schedule: SortSchedule) -> tuple[Phase, ...]:
    """Return the phases of a sort by one key, without those that are known to do nothing."""
    chunks = (schedule.whole_chunks, *[schedule.part_chunks] * 2, 2 * schedule.part_chunks)
    phases = [Phase(symbol + name, each) for name, each in zip(_PHASES, chunks, strict=True)]
    return tuple(phase for phase in phases if phase.chunks != 0) or (phases[0],)


def _whole_rows(rows: KeyedRows, chunk: Value, scratch: Value) -> None:
    """Sort the rows of a chunk."""
    f, numbers = rows.f, rows.numbers
    rows.use_areas(scratch, chunk)

    def row(number: Value) -> None:
        rows.use_row(number)
        rows.read(number, 0, numbers.length)
        rows.call("sort", [rows.here, rows.there, rows.target, numbers.length, rows.distance])
        rows.write(number, 0, numbers.length)

    for_units(f, chunk, numbers.grain, numbers.rows, row)


def _part_of_row(rows: KeyedRows, chunk: Value, scratch: Value) -> None:
    """Read a part, and bring its records into the order of the buckets."""
    f, parts = rows.f, rows.numbers.parts
    row, low, high = rows.piece(chunk)
    rows.use_areas(scratch, row)
    rows.use_row(row)
    part = f.as_value(f.irem(chunk, parts))
    samples = _samples(rows, row)
    splitters = f.alloca(rows.word, len(rows.types) * MAX_PARTS, 64)

    def choose(number: Value, halves: int, to: Value) -> None:
        index = f.imul(f.iadd(number, 1), BUCKET_SAMPLES // halves)
        for word, source in enumerate(samples):
            value = f.load(rows.word, f.gep(source, index, rows.word))
            target = f.iadd(number, halves * word * MAX_PARTS)
            f.store(value, f.gep(to, target, rows.word))

    last = f.isub(parts, 1)
    f.for_range(last, lambda number: choose(number, 1, splitters))

    def keep() -> None:
        doubled = f.isub(f.imul(parts, 2), 1)
        to = rows.known
        f.for_range(doubled, lambda number: choose(number, 2, to))

    f.if_(f.icmp("eq", part, f.const(lt.I64, 0)), keep)
    # The last part may be empty, and begin behind the end.
    rows.read(row, low, high)
    counts = rows.counts(part)
    here, there = (f.gep(area, low, rows.word) for area in (rows.here, rows.there))
    count = f.imax(f.isub(high, low), 0)
    rows.call("split", [here, there, here, count, rows.distance, splitters, 0, last, counts])


def _samples(rows: KeyedRows, row: Value) -> Record:
    """Return where the words of some of a row's records lie, in order."""
    f, length = rows.f, rows.numbers.length
    count = f.as_value(f.imul(rows.numbers.parts, BUCKET_SAMPLES))
    room = (MAX_SAMPLES + BLOCK) * rows.word.bytes
    here, there = (f.alloca(lt.I8, room * len(rows.types), 64) for _ in range(2))
    stretch = f.as_value(f.idiv(length, count))

    def one(number: Value) -> None:
        # Not at even distances: what repeats itself would look alike.
        mixed = f.and_(f.mul(number, f.const(lt.I64, 0x9E3779B1)), f.const(lt.I64, 0xFFFFFFFF))
        jitter = f.lshr(f.mul(mixed, stretch), f.const(lt.I64, 32))
        index = f.add(f.mul(number, stretch), jitter)
        where = f.iadd(rows.start_of(row), f.imul(index, rows.numbers.inner))
        for word, value in enumerate(rows.record(where, index)):
            f.store(value, f.gep(f.gep(here, word * room), number, rows.word))

    f.for_range(count, one)
    rows.call("sort", [here, there, here, count, room])
    return [f.gep(here, word * room) for word in range(len(rows.types))]


def _bucket_of_row(rows: KeyedRows, chunk: Value, scratch: Value) -> None:
    """Bring the records of a bucket together: the lower half to the front, the other behind."""
    f, parts = rows.f, rows.numbers.parts
    row, bucket = f.as_value(f.idiv(chunk, parts)), f.as_value(f.irem(chunk, parts))
    rows.use_areas(scratch, row)
    rows.use_row(row)
    first, last = _bounds_of(rows, bucket)
    middle = f.imul(bucket, 2)
    to = rows.known
    pivot = [
        f.load(rows.word, f.gep(to, f.iadd(middle, 2 * word * MAX_PARTS), rows.word))
        for word in range(len(rows.types))
    ]

    def piece(part: Value, state: list[Value]) -> list[Value]:
        front, back = state
        counts = rows.counts(part)
        start = f.imul(part, rows.numbers.part)
        index = f.iadd(start, _sum(rows, counts, 0, bucket))
        count = f.load(lt.I64, f.gep(counts, bucket, lt.I64))
        source = f.gep(rows.here, index, rows.word)
        indices = [f.gep(rows.there, each, rows.word) for each in (front, back)]
        arguments = [source, *indices, count, rows.distance, *pivot]
        found = rows.call("partition", arguments, lt.I64)
        return [f.add(front, found), f.sub(back, f.sub(count, found))]

    middle, _ = f.loop(0, parts, 1, [first, last], piece)
    f.store(middle, f.gep(rows.table(FRONTS), bucket, lt.I64))


def _half_of_bucket(rows: KeyedRows, chunk: Value, scratch: Value) -> None:
    """Sort the half of a bucket, and write it."""
    f, parts = rows.f, rows.numbers.parts
    half, bucket = f.irem(chunk, 2), f.idiv(chunk, 2)
    row, bucket = f.as_value(f.idiv(bucket, parts)), f.as_value(f.irem(bucket, parts))
    rows.use_areas(scratch, row)
    rows.use_row(row)
    first, last = _bounds_of(rows, bucket)
    middle = f.load(lt.I64, f.gep(rows.table(FRONTS), bucket, lt.I64))
    is_front = f.icmp("eq", f.as_value(half), f.const(lt.I64, 0))
    low, high = f.select(is_front, first, middle), f.select(is_front, middle, last)
    here, there = (f.gep(area, low, rows.word) for area in (rows.here, rows.there))
    target = f.gep(rows.target, low, rows.word)
    rows.call("sort", [there, here, target, f.isub(high, low), rows.distance])
    rows.write(row, low, high)


def _bounds_of(rows: KeyedRows, bucket: Value) -> tuple[Value, Value]:
    """Return where a bucket of a row begins and ends."""
    f = rows.f

    def add(part: Value, state: list[Value]) -> list[Value]:
        counts = rows.counts(part)
        count = f.load(lt.I64, f.gep(counts, bucket, lt.I64))
        return [f.add(state[0], _sum(rows, counts, 0, bucket)), f.add(state[1], count)]

    zero = f.const(lt.I64, 0)
    first, count = f.loop(0, rows.numbers.parts, 1, [zero, zero], add)
    return first, f.add(first, count)


def _sum(rows: KeyedRows, numbers: Value, first: IndexValue, last: IndexValue) -> Value:
    f = rows.f

    def add(index: Value, state: list[Value]) -> list[Value]:
        return [f.add(state[0], f.load(lt.I64, f.gep(numbers, index, lt.I64)))]

    return f.loop(first, last, 1, [f.const(lt.I64, 0)], add)[0]


_PHASES = {
    "": _whole_rows,
    "_part": _part_of_row,
    "_bucket": _bucket_of_row,
    "_half": _half_of_bucket,
}
"""The functions of a variant, by the end of their names: rows sorted whole, or in three phases."""
