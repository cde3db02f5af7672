# SPDX-License-Identifier: Apache-2.0
"""Integers sorted in vector registers: any register, every size, merges of runs of any length."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from ingot.cpu.emit.sort.vector_sort import VectorSorter, batcher
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import Library, link_object
from ingot.llvm.target import TargetSpec

HOST = TargetSpec.host()
REGISTERS = [(lt.I32, 4), (lt.I32, 8), (lt.I32, 16), (lt.I64, 2), (lt.I64, 4), (lt.I64, 8)]
ids = [f"{type_.suffix}x{lanes}" for type_, lanes in REGISTERS]


@pytest.mark.parametrize("count", [2, 4, 8, 16])
def test_networks_sort_all_zeros_and_ones(count: int) -> None:
    """A network that sorts all of these sorts everything (Knuth)."""
    for bits in itertools.product((0, 1), repeat=count):
        held = list(bits)
        for low, high in batcher(count):
            held[low], held[high] = sorted((held[low], held[high]))
        assert held == sorted(bits)


@cache
def _library(type_: lt.Type, lanes: int) -> Library:
    """Return `i64 sort(a, b, n)`, 1 if what is sorted is in b, and `merge(a, b, i, p, j, q)`."""
    module = ModuleBuilder.for_target("sorts", HOST)
    f = module.function("sort", lt.I64, [("a", lt.PTR), ("b", lt.PTR), ("n", lt.I64)])
    a, b, n = f.params
    (found,) = _sorter(f, type_, n, lanes).sort([a], [b])
    f.ret(f.zext(f.icmp("eq", found, b), lt.I64))
    names = [("a", lt.PTR), ("b", lt.PTR), *((name, lt.I64) for name in "ipjq")]
    f = module.function("merge", lt.VOID, names)
    a, b, i, p, j, q = f.params
    _sorter(f, type_, 0, lanes).merge([a], [b], [i, j, p, q], f.const(lt.I64, 0))
    f.ret()
    return link_object([compile_object(module.text(), HOST)])


def _sorter(f, type_: lt.Type, length, lanes: int) -> VectorSorter:
    order: Callable = lambda left, right: f.icmp("slt", left[0], right[0])  # noqa: E731
    return VectorSorter(f, [type_], length, order, True, lanes=lanes)


def _numbers(type_: lt.Type, count: int, seed: int) -> np.ndarray:
    """Return integers, extremes and equal ones among them."""
    dtype = np.int32 if type_ is lt.I32 else np.int64
    info, rng = np.iinfo(dtype), np.random.default_rng(seed)
    found = rng.integers(info.min, info.max, count, dtype, endpoint=True)
    found[::5] = rng.integers(-3, 3, found[::5].size)
    found[::17], found[1::19] = info.max, info.min
    return found


def _address(array: np.ndarray) -> int:
    return array.ctypes.data


@pytest.mark.parametrize(("type_", "lanes"), REGISTERS, ids=ids)
def test_whole_blocks(type_: lt.Type, lanes: int) -> None:
    block = 8 * lanes
    sort = _library(type_, lanes).function(
        "sort", ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
    )
    for count in (0, 1, 2, 3, 4, 5, 7, 16, 33):
        numbers = _numbers(type_, count * block, count)
        here = np.concatenate([numbers, np.zeros(block, numbers.dtype)])
        there = np.zeros_like(here)
        moved = sort(_address(here), _address(there), numbers.size)
        found = there if moved else here
        np.testing.assert_array_equal(found[: numbers.size], np.sort(numbers))


@pytest.mark.parametrize(("type_", "lanes"), REGISTERS, ids=ids)
def test_runs_of_any_length(type_: lt.Type, lanes: int) -> None:
    """Two runs that together fill whole vectors, with other elements before and behind them."""
    step = 2 * lanes
    merge = _library(type_, lanes).function(
        "merge", None, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 4
    )
    rng = np.random.default_rng(lanes)
    for total in (0, 1, 2, 3, 9):
        for left in {0, total * step, *rng.integers(0, total * step + 1, 6).tolist()}:
            source = _numbers(type_, total * step + 3 * step + 11, total + left)
            p, j = 3 + left, 3 + left + 5
            q = j + total * step - left
            source[3:p].sort()
            source[j:q].sort()
            target = np.zeros_like(source)
            merge(_address(source), _address(target), 3, p, j, q)
            wanted = np.sort(np.concatenate([source[3:p], source[j:q]]))
            np.testing.assert_array_equal(target[: total * step], wanted)
            assert not target[total * step :].any()
