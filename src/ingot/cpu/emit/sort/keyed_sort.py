# SPDX-License-Identifier: Apache-2.0
"""Sorts by one key as native functions, of every size: records are sorted, elements follow.

`keyed_rows` makes records of elements and elements of records; `quicksort` sorts records.

A row that is cut into parts is sorted in buckets. A sample of its records, in order, gives the
bounds of the buckets and of their halves. The first phase arranges the records of each part by
bucket; the second collects the pieces of a bucket, the lower half first; the last sorts the halves
and writes their elements. All of it depends on the elements alone, so results do not depend on
threads.
"""

from __future__ import annotations

from ingot.cpu.emit.driver_records import driver_template
from ingot.cpu.emit.kernel_abi import Phase
from ingot.cpu.emit.sort.keyed_row import COUNTS, FRONTS, KeyedSort, Numbers, Row
from ingot.cpu.emit.sort.keyed_rows import begin, go_to, numbers_of, read_row, write_row
from ingot.cpu.emit.sort.keyed_vectors import key_at
from ingot.cpu.emit.sort.quicksort import Splitters
from ingot.cpu.emit.sort.records import Range, Record, read_record, read_word, write_word
from ingot.cpu.emit.template import Template
from ingot.kernel.sort.sort import BLOCK, BUCKET_SAMPLES, MAX_PARTS, KeyedVariant, SortSchedule
from ingot.llvm.target import TargetSpec
from ingot.native.functions import inlined, native
from ingot.native.pointers import Array, Pointer, Struct
from ingot.native.types import i64

SAMPLE_BYTES = (BUCKET_SAMPLES * MAX_PARTS + BLOCK) * 8
"""Bytes that hold one word of all samples of a row."""

# ---- rows sorted whole


@native
def whole_rows(of: KeyedSort, env: Pointer, chunk: i64) -> None:
    """Sort the rows of a chunk."""
    row = Row.on_stack()
    given = Range.on_stack()
    begin(of, row, env, chunk)
    numbers = row.numbers
    first = chunk * numbers.grain
    for number in range(first, min(first + numbers.grain, numbers.rows)):
        go_to(of, row, number)
        read_row(of, row, 0, numbers.length)
        set_range(row, given, numbers.length)
        numbers.sort(given)
        write_row(of, row, 0, numbers.length)


@inlined
def set_range(row: Row, given: Range, count: i64) -> None:
    """Make `given` a row's first `count` records, as they are read."""
    given.data = row.here
    given.other = row.there
    given.target = row.target
    given.count = count
    given.distance = row.distance


# ---- rows cut into parts


@native
def arrange_part(of: KeyedSort, env: Pointer, chunk: i64) -> None:
    """Read a part, and bring its records into the order of the buckets."""
    row = Row.on_stack()
    part = begin_piece(of, row, env, chunk)
    numbers = row.numbers
    samples = Array[i64].on_stack(2 * SAMPLE_BYTES // 8)
    sort_samples(of, row, samples)
    words = Array[i64].on_stack(2 * MAX_PARTS)
    choose(of, words, samples, numbers.parts, 1)
    if part == 0:
        choose(of, row.tables, samples, numbers.parts, 2)
    low = part * numbers.part
    # The last part may be empty, and begin behind the end.
    high = max(min(low + numbers.part, numbers.length), low)
    read_row(of, row, low, high)
    given = Range.on_stack()
    set_range(row, given, high - low)
    given.data = row.here + low * of.type.bytes
    given.other = row.there + low * of.type.bytes
    given.target = given.data
    by = Splitters.on_stack()
    by.words = words
    by.first = 0
    by.last = numbers.parts - 1
    by.counts = counts_of(row, part)
    numbers.split(given, by)


@native
def sort_samples(of: KeyedSort, row: Row, samples: Pointer) -> None:
    """Set `samples` to some of the row's records, in order."""
    numbers = row.numbers
    spare = Array[i64].on_stack(2 * SAMPLE_BYTES // 8)
    count = numbers.parts * BUCKET_SAMPLES
    stretch = numbers.length // count
    for number in range(count):
        # Not at even distances: what repeats itself would look alike.
        mixed = (number * 0x9E3779B1) & 0xFFFFFFFF
        index = number * stretch + ((mixed * stretch) >> 32)
        key = key_at(of, row.env, row.start + index * numbers.inner)
        word = key if of.variant.record.is_key or of.is_pair else (key << 32) | index
        write_word(of.type, samples, number, word)
        if of.is_pair:
            write_word(of.type, samples + SAMPLE_BYTES, number, index)
    given = Range.on_stack()
    given.data = samples
    given.other = spare
    given.target = samples
    given.count = count
    given.distance = SAMPLE_BYTES
    numbers.sort(given)


@native
def choose(of: KeyedSort, to: Pointer, samples: Pointer, parts: i64, halves: i64) -> None:
    """Set `to` to the samples that buckets (or each of two halves of them) begin with."""
    for number in range(parts * halves - 1):
        index = (number + 1) * (BUCKET_SAMPLES // halves)
        write_word(of.type, to, number, read_word(of.type, samples, index))
        if of.is_pair:
            position = read_word(of.type, samples + SAMPLE_BYTES, index)
            write_word(of.type, to + halves * MAX_PARTS * of.type.bytes, number, position)


@native
def collect_bucket(of: KeyedSort, env: Pointer, chunk: i64) -> None:
    """Bring the records of a bucket together: the lower half to the front, the other behind."""
    row = Row.on_stack()
    bucket = begin_piece(of, row, env, chunk)
    numbers = row.numbers
    pivot = Record.on_stack()
    read_record(of.type, pivot, row.tables, 2 * bucket, 2 * MAX_PARTS * of.type.bytes)
    given = Range.on_stack()
    bounds = Bounds.on_stack()
    find_bounds(row, bucket, bounds)
    front = bounds.first
    back = bounds.last
    for part in range(numbers.parts):
        start = part * numbers.part + records_before(counts_of(row, part), bucket)
        count = counts_of(row, part)[bucket]
        set_range(row, given, count)
        given.data = row.here + start * of.type.bytes
        to = row.there + front * of.type.bytes
        before = numbers.partition(given, to, row.there + back * of.type.bytes, pivot)
        front += before
        back -= count - before
    row.tables[FRONTS + bucket] = front


@native
def sort_half(of: KeyedSort, env: Pointer, chunk: i64) -> None:
    """Sort the half of a bucket, and write it."""
    row = Row.on_stack()
    bucket = begin_piece(of, row, env, chunk // 2)
    bounds = Bounds.on_stack()
    find_bounds(row, bucket, bounds)
    middle = row.tables[FRONTS + bucket]
    low = bounds.first if chunk % 2 == 0 else middle
    high = middle if chunk % 2 == 0 else bounds.last
    given = Range.on_stack()
    set_range(row, given, high - low)
    given.data = row.there + low * of.type.bytes
    given.other = row.here + low * of.type.bytes
    given.target = row.target + low * of.type.bytes
    row.numbers.sort(given)
    write_row(of, row, low, high)


# ---- pieces: parts and buckets


class Bounds(Struct):
    """The first of a bucket's records in a row, and what comes behind the last."""

    first: i64
    last: i64


@native
def begin_piece(of: KeyedSort, row: Row, env: Pointer, chunk: i64) -> i64:
    """Begin with the row of a chunk; return which part or bucket of it the chunk is."""
    parts = numbers_of(of, env).parts
    begin(of, row, env, chunk // parts)
    go_to(of, row, chunk // parts)
    return chunk % parts


@native
def find_bounds(row: Row, bucket: i64, bounds: Bounds) -> None:
    """Set `bounds` to those of a bucket."""
    first: i64 = 0
    count: i64 = 0
    for part in range(row.numbers.parts):
        counts = counts_of(row, part)
        first += records_before(counts, bucket)
        count += counts[bucket]
    bounds.first = first
    bounds.last = first + count


@native
def records_before(counts: Array[i64], bucket: i64) -> i64:
    """Return how many records of a part come before a bucket."""
    total: i64 = 0
    for number in range(bucket):
        total += counts[number]
    return total


@inlined
def counts_of(row: Row, part: i64) -> Array[i64]:
    """Return how many records of a part each bucket has."""
    return Array[i64].at(row.tables + (COUNTS + part * MAX_PARTS) * 8)


# ---- the template

FUNCTIONS = {
    "rows": whole_rows,
    "part": arrange_part,
    "bucket": collect_bucket,
    "half": sort_half,
}
"""The functions of a variant: rows sorted whole, or in three phases."""


def keyed_template(variant: KeyedVariant, target: TargetSpec) -> Template:
    """Return the code of a variant."""
    of = KeyedSort.of(variant, target)
    return driver_template(f"sort_{variant.name}", Numbers.c_layout.names, of, lambda: FUNCTIONS)


def keyed_phases(name: str, schedule: SortSchedule) -> tuple[Phase, ...]:
    """Return the phases of a sort by one key, without those that are known to do nothing."""
    chunks = (schedule.whole_chunks, *[schedule.part_chunks] * 2, 2 * schedule.part_chunks)
    phases = [Phase(f"{name}_{each}", n) for each, n in zip(FUNCTIONS, chunks, strict=True)]
    return tuple(phase for phase in phases if phase.chunks != 0) or (phases[0],)
