# SPDX-License-Identifier: Apache-2.0
"""Sorts by any comparator as native functions of every size: rows sorted whole, or in parts.

Elements of all operands are copied to scratch, sorted there (`merge_sort`) and copied to the
results. `whole_rows` does so for the rows of a chunk. A long row is cut into parts
(`kernel.sort.sort`): `part_of_row` sorts a part, then each of up to `LEVELS` phases merges pairs of
runs, of twice the length of those of the phase before (`piece_of_merge`). A piece of a merge has
the length of a part, so all threads have work to the end. The last phase writes the results.

Invariant: where a piece begins depends on the elements alone, so results do not depend on threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ingot.artifact.abi import SLOT_BYTES
from ingot.cpu.emit.driver_records import driver_template
from ingot.cpu.emit.kernel_abi import Phase
from ingot.cpu.emit.sort.merge_sort import (
    Compared,
    Runs,
    Split,
    element,
    go_on,
    merge,
    read_element,
    sort,
    times_merged,
    write_element,
)
from ingot.cpu.emit.template import Template
from ingot.kernel.sort.sort import LEVELS, SortNumbers, SortSchedule
from ingot.native.functions import inlined, native
from ingot.native.pointers import Array, Pointer, Struct
from ingot.native.types import i64


class Row(Struct):
    """A row, or a part of one: elements `low` to `high`.

    `start` is the row's first element in operands and results; `here` and `there` are areas of
    scratch with room for all of its elements.
    """

    numbers: SortNumbers
    start: i64
    low: i64
    high: i64
    here: Pointer
    there: Pointer


@native
def whole_rows(of: Compared, env: Pointer, chunk: i64) -> None:
    """Sort the rows of a chunk."""
    row = Row.on_stack()
    begin(of, row, env, chunk)
    numbers = row.numbers
    row.low = 0
    row.high = numbers.length
    first = chunk * numbers.grain
    for number in range(first, min(first + numbers.grain, numbers.rows)):
        go_to(row, number)
        read(of, env, row)
        write(of, env, row, sort(of, row.here, row.there, row.high, row.high))


@native
def part_of_row(of: Compared, env: Pointer, chunk: i64) -> None:
    """Sort the part of a row that is number `chunk`; `env` gives arrays, scratch and numbers."""
    row = Row.on_stack()
    begin_part(of, row, env, chunk)
    read(of, env, row)
    before = row.low * of.bytes
    # The last part may be empty, and begin behind the end.
    sort(of, row.here + before, row.there + before, row.high - row.low, row.numbers.part)


@native
def piece_of_merge(of: Compared, env: Pointer, chunk: i64, level: i64) -> None:
    """Merge one piece of two runs of 2^level parts; write it if no merge follows."""
    row = Row.on_stack()
    begin_part(of, row, env, chunk)
    if row.low >= row.high:
        return
    numbers = row.numbers
    # The first area that elements are sorted to is `there`.
    is_here = (times_merged(numbers.part) + level) % 2 != 0
    source = row.here if is_here else row.there
    target = row.there if is_here else row.here
    width = numbers.part << level
    runs = Runs.on_stack()
    runs.left = row.low // (2 * width) * (2 * width)
    runs.left_end = min(runs.left + width, numbers.length)
    runs.right = runs.left_end
    runs.right_end = min(runs.left + 2 * width, numbers.length)
    cut_piece(of, row, source, runs)
    merge(of, target, row.low, source, runs)
    if 2 * width >= numbers.part * numbers.parts:
        write(of, env, row, target)


@native
def cut_piece(of: Compared, row: Row, source: Pointer, runs: Runs) -> None:
    """Change two runs to those of their elements that elements low..high of the row will be."""
    part = row.numbers.part
    split = Split.on_stack()
    split.count = 0
    split.from_left = 0
    low = runs.left
    for count in range(part, row.low - low + 1, part):
        go_on(of, source, runs, split, count)
    left = low + split.from_left
    right = runs.right + split.count - split.from_left
    go_on(of, source, runs, split, row.high - low)
    runs.left_end = low + split.from_left
    runs.right_end = runs.right + split.count - split.from_left
    runs.left = left
    runs.right = right


# ---- rows


@native
def begin(of: Compared, row: Row, env: Pointer, area: i64) -> None:
    """Begin with pair number `area` of scratch's areas; the numbers follow scratch in env."""
    numbers = SortNumbers.at(env + (2 * of.num_operands + 1) * SLOT_BYTES)
    row.numbers = numbers
    row.here = Array[Pointer].at(env)[2 * of.num_operands] + 2 * area * numbers.area
    row.there = row.here + numbers.area


@native
def begin_part(of: Compared, row: Row, env: Pointer, chunk: i64) -> None:
    """Begin with the part of a row that a chunk is."""
    numbers = SortNumbers.at(env + (2 * of.num_operands + 1) * SLOT_BYTES)
    number = chunk // numbers.parts
    begin(of, row, env, number)
    go_to(row, number)
    row.low = chunk % numbers.parts * numbers.part
    row.high = min(row.low + numbers.part, numbers.length)


@inlined
def go_to(row: Row, number: i64) -> None:
    """Go to row number `number`."""
    inner = row.numbers.inner
    row.start = number // inner * (row.numbers.length * inner) + number % inner


@native
def read(of: Compared, env: Pointer, row: Row) -> None:
    """Copy the elements low..high of a row to the same indices of `here`."""
    start = row.start
    inner = row.numbers.inner
    here = row.here
    for index in range(row.low, row.high):
        read_element(of, env, start + index * inner, element(of, here, index))


@native
def write(of: Compared, env: Pointer, row: Row, area: Pointer) -> None:
    """Copy the elements low..high of an area to the same indices of a row of the results."""
    start = row.start
    inner = row.numbers.inner
    for index in range(row.low, row.high):
        write_element(of, env, start + index * inner, element(of, area, index))


# ---- the template


def _merge_of(level: int) -> Callable[[Compared, Pointer, i64], None]:
    """Return the phase that merges runs of 2^level parts."""

    @native
    def merge_level(of: Compared, env: Pointer, chunk: i64) -> None:
        piece_of_merge(of, env, chunk, level)

    return merge_level


ROWS = {"whole": whole_rows}
PARTS = {"part": part_of_row, **{f"merge{level}": _merge_of(level) for level in range(LEVELS)}}
"""The phases, by template: rows sorted whole; or parts sorted, then merged level by level."""


def merge_code(of: Compared, schedule: SortSchedule) -> Iterator[tuple[Template, list[Phase]]]:
    """Yield the templates that a sort needs, each with those of its phases that may have work.

    Both templates have the same parameters, `SortNumbers`.
    """
    parameters = SortNumbers.c_layout.names
    if schedule.whole_chunks != 0 or schedule.part_chunks == 0:
        name = f"merge_sort_rows_{of.name}"
        phases = [Phase(f"{name}_whole", schedule.whole_chunks)]
        yield driver_template(name, parameters, of, lambda: ROWS), phases
    if schedule.part_chunks != 0:
        name = f"merge_sort_parts_{of.name}"
        chunks = [schedule.part_chunks, *map(schedule.merge_chunks, range(LEVELS))]
        phases = [
            Phase(f"{name}_{each}", n) for each, n in zip(PARTS, chunks, strict=True) if n != 0
        ]
        yield driver_template(name, parameters, of, lambda: PARTS), phases
