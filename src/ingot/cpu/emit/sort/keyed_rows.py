# SPDX-License-Identifier: Apache-2.0
"""Rows of sorts by one key, as native functions: records of elements, and elements of records.

The code for several elements at once is in `keyed_vectors`.

Invariant: records of one row are distinct or mean equal elements, so the order is stable. The
exception are keys that several different elements share: where a row has such a key, these elements
are read again, in their order.
"""

from __future__ import annotations

from ingot.artifact.abi import SLOT_BYTES
from ingot.cpu.emit.sort.keyed_row import FLAG_BYTES, PART_BYTES, KeyedSort, Numbers, Row
from ingot.cpu.emit.sort.keyed_vectors import (
    copy_first,
    copy_others,
    is_shared,
    key_at,
    list_shared,
    read_records,
    replace_all,
    replace_few,
    write_element,
    write_elements,
)
from ingot.cpu.emit.sort.records import read_word
from ingot.native.functions import inlined, native
from ingot.native.operations import unlikely
from ingot.native.pointers import Array, Pointer
from ingot.native.types import i64


@inlined
def numbers_of(of: KeyedSort, env: Pointer) -> Numbers:
    """Return the numbers of a sort, which follow its operands, results and scratch in env."""
    return Numbers.at(env + (2 * of.num_operands + 1) * SLOT_BYTES)


@native
def begin(of: KeyedSort, row: Row, env: Pointer, area: i64) -> None:
    """Begin with the rows of area number `area` of the scratch; tables come behind all areas."""
    numbers = numbers_of(of, env)
    scratch = Array[Pointer].at(env)[2 * of.num_operands]
    row.env = env
    row.numbers = numbers
    row.distance = numbers.area
    size = numbers.area * of.type.words
    arrays = i64(1) if is_in_result(of, numbers) else 2
    row.here = scratch + area * arrays * size
    row.spare = row.here + size
    row.there = row.spare
    row.target = row.here
    tables = numbers.rows * arrays * size + area * numbers.parts * PART_BYTES
    row.tables = Array[i64].at(scratch + tables)


@inlined
def is_in_result(of: KeyedSort, numbers: Numbers) -> bool:
    """Return whether results are sorted where they are."""
    return of.in_result and numbers.inner == 1


@native
def go_to(of: KeyedSort, row: Row, number: i64) -> None:
    """Go to row number `number`."""
    numbers = row.numbers
    inner = numbers.inner
    row.start = number // inner * (numbers.length * inner) + number % inner
    if is_in_result(of, numbers):
        result = Array[Pointer].at(row.env)[of.num_operands]
        row.there = result + row.start * of.type.bytes
        row.target = row.there


# ---- records of elements


@native
def read_row(of: KeyedSort, row: Row, low: i64, high: i64) -> None:
    """Make the records of elements low..high, at the same indices."""
    numbers = row.numbers
    part = low // numbers.part if low != 0 else i64(0)
    if of.finds_lost:
        flags_of(row)[part] = 0
    count = high - low
    if numbers.inner != 1 or count < of.few.lanes:
        for index in range(low, high):
            read_some(of.single, row, row.start + index * numbers.inner, index, part)
    elif count < of.lanes:
        read_dense(of.few, row, low, high, part)
    else:
        read_dense(of, row, low, high, part)


@native
def read_dense(of: KeyedSort, row: Row, low: i64, high: i64, part: i64) -> None:
    """Make records of elements side by side, for some of them twice: the last end with the row."""
    last = high - of.lanes
    for index in range(low, last, of.lanes):
        read_some(of, row, row.start + index, index, part)
    read_some(of, row, row.start + last, last, part)


@inlined
def read_some(of: KeyedSort, row: Row, where: i64, index: i64, part: i64) -> None:
    """Make the records of `of.lanes` elements; note in the flag of the part if one is lost."""
    if unlikely(read_records(of, row, where, index)):
        flags_of(row)[part] = 1


@inlined
def flags_of(row: Row) -> Array[i64]:
    """Return the flags of a row's parts: whether a key does not give its element back."""
    return Array[i64].at(row.here + row.distance + -FLAG_BYTES)


# ---- elements of records


@native
def write_row(of: KeyedSort, row: Row, low: i64, high: i64) -> None:
    """Write the elements of the records low..high to the results."""
    if of.variant.record.is_key:
        write_keys(of, row, low, high)
    elif of.is_pair:
        write_pairs(of, row.env, row, low, high)
    else:
        write_words(of, row.env, row, low, high)


@native
def write_pairs(of: KeyedSort, env: Pointer, row: Row, low: i64, high: i64) -> None:
    """Write every operand's elements in the order of the positions."""
    start = row.start
    inner = row.numbers.inner
    positions = Array[i64].at(row.here + row.distance)
    for index in range(low, high):
        source = start + positions[index] * inner
        where = start + index * inner
        copy_first(of, env, source, where)
        copy_others(of, env, source, where)


@native
def write_words(of: KeyedSort, env: Pointer, row: Row, low: i64, high: i64) -> None:
    """Write elements in the order of records that are a key above a position.

    The first operand's follow from their keys, where these are not shared: reading them in this
    order would wait for memory.
    """
    start = row.start
    inner = row.numbers.inner
    words = Array[i64].at(row.here)
    for index in range(low, high):
        word = words[index]
        source = start + (word & 0xFFFFFFFF) * inner
        where = start + index * inner
        if of.variant.gives_back:
            write_element(of, env, where, word >> 32)
            if unlikely(is_shared(of, word >> 32)):
                copy_first(of, env, source, where)
        else:
            copy_first(of, env, source, where)
        copy_others(of, env, source, where)


@native
def write_keys(of: KeyedSort, row: Row, low: i64, high: i64) -> None:
    """Write the elements of keys, then those that share a key, if one of these is lost."""
    is_lost = of.finds_lost and low < high and has_lost(row)
    if is_lost:
        row.first_key = read_word(of.type, row.target, low)
        row.last_key = read_word(of.type, row.target, high - 1)
    count = high - low
    if is_in_result(of, row.numbers):
        replace_keys(of, row, low, high)
    elif row.numbers.inner != 1 or count < of.few.lanes:
        for index in range(low, high):
            write_elements(of.single, row, row.start + index * row.numbers.inner, index)
    elif count < of.lanes:
        write_dense(of.few, row, low, high)
    else:
        write_dense(of, row, low, high)
    if is_lost:
        write_shared(of, row, low, high)


@native
def replace_keys(of: KeyedSort, row: Row, low: i64, high: i64) -> None:
    """Make elements of keys where these lie, which is in the result."""
    whole = low + max(high - low, 0) // of.lanes * of.lanes
    for index in range(low, whole, of.lanes):
        replace_all(of, row.target + index * of.type.bytes)
    replace_few(of, row.target + whole * of.type.bytes, high - whole)


@native
def write_dense(of: KeyedSort, row: Row, low: i64, high: i64) -> None:
    """Write elements side by side, some of them twice: the last end with the row."""
    last = high - of.lanes
    for index in range(low, last, of.lanes):
        write_elements(of, row, row.start + index, index)
    write_elements(of, row, row.start + last, last)


# ---- keys that several elements share


@native
def has_lost(row: Row) -> bool:
    """Return whether a row has an element that its key does not give back."""
    flags = flags_of(row)
    lost: i64 = 0
    for part in range(row.numbers.parts):
        lost |= flags[part]
    return lost != 0


@native
def write_shared(of: KeyedSort, row: Row, low: i64, high: i64) -> None:
    """Write the elements of shared keys again."""
    keys = Array[i64].on_stack(of.num_shared)
    list_shared(of, keys)
    for number in range(of.num_shared):
        if row.first_key <= keys[number] <= row.last_key:
            write_again(of, row, low, high, keys[number])


@native
def write_again(of: KeyedSort, row: Row, low: i64, high: i64, key: i64) -> None:
    """Write the elements of a key to those of their indices that are in low..high."""
    inner = row.numbers.inner
    index: i64 = 0
    for number in range(row.numbers.length):
        index += i64(key_at(of, row.env, row.start + number * inner) < key)
    for number in range(row.numbers.length):
        source = row.start + number * inner
        if key_at(of, row.env, source) == key:
            if low <= index < high:
                copy_first(of, row.env, source, row.start + index * inner)
            index += 1
