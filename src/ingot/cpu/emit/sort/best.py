# SPDX-License-Identifier: Apache-2.0
"""The best k of a list of distinct candidates, as native functions.

A candidate is an i64: a key (s32) in the upper half, and in the lower half a number that orders
equal keys, less for later ones.

The k-th greatest is found by halving the range of numbers that holds it: 64 counts at most, each of
them vector work whose time does not depend on the data. Lesser ones are dropped, the rest stays in
order.
"""

from __future__ import annotations

from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import vector
from ingot.llvm.values import Value
from ingot.native.functions import native, vectors
from ingot.native.pointers import Array
from ingot.native.types import i64

WORST = -(1 << 63)
"""Less than every candidate."""

MOST = (1 << 63) - 1
MOST_KEY = (1 << 31) - 1

LANES = 16
"""Candidates that are counted at once; behind the last one there is room for as many."""


@native
def keep_best(area: Array[i64], count: i64, k: i64) -> i64:
    """Leave the best k of `count` candidates (k or more) in `area`, as they come.

    Returns the least key that a later candidate must have to be among the best k.
    """
    for lane in range(LANES):
        area[count + lane] = WORST
    least: i64 = WORST
    step: i64 = WORST
    while step != 0:
        trial = least + step
        number = count_from(area, count, trial)
        if number >= k:
            least = trial
        step = (step >> 1) & MOST
        if number == k:
            step = 0
    end: i64 = 0
    for number in range(count):
        candidate = area[number]
        area[end] = candidate
        end += i64(candidate >= least)
    # Later elements of the same key lose by their index. The greatest key may come again: it joins,
    # and loses later.
    return min((least >> 32) + 1, MOST_KEY)


def _emit_count(f: FunctionBuilder, area: Value, count: Value, trial: Value) -> Value:
    wide = vector(lt.I64, LANES)
    limit = f.splat(trial, LANES)

    def block(position: Value, values: list[Value]) -> list[Value]:
        some = f.load(wide, f.gep(area, position, lt.I64))
        return [f.sub(values[0], f.sext(f.icmp("sge", some, limit), wide))]

    (lanes,) = f.loop(0, count, LANES, [f.const(wide, 0)], block)
    return f.reduce("add", lanes)


@vectors(_emit_count)
def count_from(area: Array[i64], count: i64, trial: i64) -> i64:
    """Return how many candidates are no less than `trial`; the last block is padded."""
    ...
