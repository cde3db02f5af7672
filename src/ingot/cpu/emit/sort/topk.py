# SPDX-License-Identifier: Apache-2.0
"""Selection as native functions of every size: the k greatest (or least) of each row, in order.

An element and its index make one 64-bit *candidate*, whose signed order is that of the result: the
element's key is the upper half, the complement of its index the lower, so of equal elements the
first is greatest and no two candidates are equal. A row is read in blocks; elements that beat the
k-th best so far join the candidates. When their room is full, the best k are kept (`keep_best`).
For a small k and a short row, each is the greatest of the candidates below the one before.

Invariant: a candidate is dropped only if it is less than k others that are kept.
"""

from __future__ import annotations

from ingot.cpu.emit.driver_records import driver_template
from ingot.cpu.emit.sort.merge_sort import Compared, sort
from ingot.cpu.emit.sort.selection_vectors import (
    WORST,
    Selection,
    fill_candidates,
    find_hits,
    find_last_hits,
    greatest_below,
    keep_best,
    list_keys,
    write_element,
)
from ingot.cpu.emit.template import Template
from ingot.hlo.dtype import PRED, S64
from ingot.hlo.opset.elementwise import CompareAttributes
from ingot.kernel import expr as ex
from ingot.kernel.sort.topk import BLOCK, SelectionNumbers
from ingot.native.functions import inlined, native
from ingot.native.operations import memcpy, trailing_zeros, unlikely
from ingot.native.pointers import Array, Pointer, Struct, sizeof
from ingot.native.types import i32, i64

BYTES = 8
"""Bytes of a candidate."""

LEAST_KEY = -(1 << 31)

_PAIR = (ex.argument(0, S64), ex.argument(1, S64))
CANDIDATES = Compared(
    ex.make("compare", PRED, _PAIR, CompareAttributes("GT")), (S64,), has_fma=False
)
"""Candidates in the order of the result."""


class Start(Struct, is_constant=True):
    """The start of env: the operand, both results and the scratch; the numbers follow."""

    operand: Pointer
    values: Pointer
    indices: Array[i32]
    scratch: Pointer


class Candidates(Struct):
    """Candidates for the best of a row: those in `area`, and the least key that may join them."""

    area: Array[i64]
    count: i64
    limit: i64
    k: i64
    room: i64


@inlined
def numbers_of(env: Start) -> SelectionNumbers:
    """Return the numbers of a selection."""
    return SelectionNumbers.at(env + sizeof(Start))


@inlined
def begin(env: Start, area: i64, found: Candidates) -> None:
    """Begin with no candidates, in area number `area` of the scratch."""
    numbers = numbers_of(env)
    found.area = Array[i64].at(env.scratch + area * numbers.area * BYTES)
    found.count = 0
    found.limit = LEAST_KEY
    found.k = numbers.k
    found.room = numbers.room


@native
def whole(of: Selection, env: Start, chunk: i64) -> None:
    """Select in each row of a chunk."""
    numbers = numbers_of(env)
    found = Candidates.on_stack()
    first = chunk * numbers.grain
    for row in range(first, min(first + numbers.grain, numbers.rows)):
        begin(env, chunk, found)
        if numbers.in_rounds != 0:
            select_in_rounds(of, env, row, found.area)
        else:
            data = env.operand + row * numbers.length * of.bytes
            gather(of, data, 0, numbers.length, found)
            finish(of, env, row, found.area)


@native
def part(of: Selection, env: Start, chunk: i64) -> None:
    """Leave the best k of one part of a row in the part's area."""
    numbers = numbers_of(env)
    found = Candidates.on_stack()
    begin(env, chunk, found)
    data = env.operand + chunk // numbers.parts * numbers.length * of.bytes
    low = chunk % numbers.parts * numbers.part
    gather(of, data, low, min(low + numbers.part, numbers.length), found)


@native
def joined(of: Selection, env: Start, row: i64) -> None:
    """Select among the best of the parts of one row."""
    numbers = numbers_of(env)
    found = Candidates.on_stack()
    begin(env, row * numbers.parts, found)
    best = numbers.k * BYTES
    for number in range(1, numbers.parts):
        source = found.area + number * numbers.area * BYTES
        memcpy(found.area + number * best, source, best)
    keep_best(found.area, numbers.parts * numbers.k, numbers.k)
    finish(of, env, row, found.area)


# ---- one after the other


@native
def select_in_rounds(of: Selection, env: Start, row: i64, area: Array[i64]) -> None:
    """Write the best k of a row, each found among the candidates, which are left in `area`."""
    numbers = numbers_of(env)
    data = env.operand + row * numbers.length * of.bytes
    best = fill_candidates(of, data, numbers.length, area)
    write(of, env, row * numbers.k, best)
    for rank in range(1, numbers.k):
        best = greatest_below(area, numbers.length, best)
        write(of, env, row * numbers.k + rank, best)


# ---- candidates


@native
def gather(of: Selection, data: Pointer, low: i64, high: i64, found: Candidates) -> None:
    """Leave the best k of elements low..high of a row; missing ones are `WORST`.

    Nothing is in order yet.
    """
    keys = Array[i32].on_stack(BLOCK)
    rest = low + (high - low) // BLOCK * BLOCK
    for position in range(low, rest, BLOCK):
        block = data + position * of.bytes
        hits = find_hits(of, block, found.limit)
        if unlikely(hits != 0):
            list_keys(of, block, keys)
            join(found, keys, position, hits)
    if rest < high:
        block = data + rest * of.bytes
        hits = find_last_hits(of, block, high - rest, found.limit, keys)
        join(found, keys, rest, hits)
    if found.count > found.k:
        keep_best(found.area, found.count, found.k)
    for number in range(found.count, found.k):
        found.area[number] = WORST


@native
def join(found: Candidates, keys: Array[i32], position: i64, hits: i64) -> None:
    """Add the elements of a block to `found`: those of lanes whose bits are set in `hits`.

    `keys` are the keys of the block's elements, the first of which has index `position` in the row.
    """
    bits = hits
    count = found.count
    while bits != 0:
        lane = trailing_zeros(bits)
        found.area[count] = (i64(keys[lane]) << 32) | (0xFFFFFFFF - position - lane)
        count += 1
        bits = bits & (bits - 1)
    if unlikely(count > found.room):
        found.limit = keep_best(found.area, count, found.k)
        count = found.k
    found.count = count


# ---- the result


@native
def finish(of: Selection, env: Start, row: i64, area: Array[i64]) -> None:
    """Write the k candidates in `area` to row number `row` of the results, in order."""
    k = numbers_of(env).k
    best = Array[i64].at(sort(CANDIDATES, area, area + k * BYTES, k, k))
    for rank in range(k):
        write(of, env, row * k + rank, best[rank])


@inlined
def write(of: Selection, env: Start, where: i64, candidate: i64) -> None:
    """Write the element and the index of a candidate."""
    write_element(of, env.values, where, candidate)
    env.indices[where] = i32(~candidate)


# ---- the template

FUNCTIONS = {"whole": whole, "part": part, "joined": joined}


def selection_template(of: Selection) -> Template:
    """Return the code of a variant: over whole rows, over parts of rows, over the parts' best."""
    names = SelectionNumbers.c_layout.names
    return driver_template(f"select_{of.name}", names, of, lambda: FUNCTIONS)
