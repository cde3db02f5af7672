# SPDX-License-Identifier: Apache-2.0
"""Records of sorts in memory: one as a struct of native functions, and many in arrays.

Each word of a record has an array of its own; the arrays lie at one distance from the next. Vectors
of records are in `records`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.cpu.emit.sort.records import RecordType
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.values import Value
from ingot.native.functions import inlined
from ingot.native.operations import memcpy
from ingot.native.pointers import Array, Pointer, Struct
from ingot.native.types import i32, i64


class Record(Struct):
    """A record: its key, and its position, 0 where records have none."""

    key: i64
    position: i64


class Range(Struct):
    """A range of records: `data` holds them, `other` is free, in `target` they shall be in order.

    All records are from the least to the greatest one, both included. `budget` is how many more
    pivots may be chosen; `distance` is bytes from one word's array to the next's.
    """

    data: Pointer
    other: Pointer
    target: Pointer
    count: i64
    distance: i64
    budget: i64
    least_key: i64
    least_position: i64
    most_key: i64
    most_position: i64


@inlined
def is_before(key: i64, position: i64, other_key: i64, other_position: i64) -> bool:
    """Return whether (`key`, `position`) comes before (`other_key`, `other_position`)."""
    return key < other_key or (key == other_key and position < other_position)


@inlined
def read_word(of: RecordType, words: Pointer, index: i64) -> i64:
    """Return a word of an array."""
    if of.bytes == 4:
        return i64(Array[i32].at(words)[index])
    return Array[i64].at(words)[index]


@inlined
def write_word(of: RecordType, words: Pointer, index: i64, word: i64) -> None:
    """Set a word of an array."""
    if of.bytes == 4:
        Array[i32].at(words)[index] = i32(word)
    else:
        Array[i64].at(words)[index] = word


@inlined
def read_record(of: RecordType, record: Record, words: Pointer, index: i64, distance: i64) -> None:
    """Set `record` to one of an array."""
    record.key = read_word(of, words, index)
    record.position = read_word(of, words + distance, index) if of.has_positions else 0


@inlined
def copy_records(
    of: RecordType, target: Pointer, source: Pointer, count: i64, distance: i64
) -> None:
    """Copy `count` records from `source` to `target`, which do not overlap.

    In both, the array of positions begins `distance` bytes behind that of keys.
    """
    memcpy(target, source, count * of.bytes)
    if of.has_positions:
        memcpy(target + distance, source + distance, count * of.bytes)


def words_of(f: FunctionBuilder, of: RecordType, record: Value) -> list[Value]:
    """Return the words of a record in memory, as values of their type."""
    held = [Record.c_layout.load(f, record, name) for name in Record.c_layout.names]
    words = held[: of.words]
    return words if of.word is lt.I64 else [f.trunc(word, of.word) for word in words]


def store_words(f: FunctionBuilder, record: Value, words: Sequence[Value]) -> None:
    """Set a record in memory to words; its position is 0 if it has none."""
    wide = [word if word.type is lt.I64 else f.sext(word, lt.I64) for word in words]
    for number, word in enumerate([*wide, f.const(lt.I64, 0)][: len(Record.c_layout.names)]):
        f.store(word, f.gep(record, number, lt.I64))
