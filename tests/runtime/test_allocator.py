# SPDX-License-Identifier: Apache-2.0
"""The caching allocator: classes, reuse, limits, statistics, threads."""

import ctypes
import os
import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.runtime.memory.allocator import (
    BLOCK,
    BLOCK_HEADER_BYTES,
    HUGE_FROM_BYTES,
    MAP_FROM_BYTES,
    NUM_SIZE_CLASSES,
    capacity_of,
    size_class,
)
from ingot.runtime.native import allocator_statistics, default_cache_limit, native_runtime
from ingot.support.flags import ALLOCATOR_CACHE_BYTES, override


@pytest.fixture
def runtime():
    runtime = native_runtime()
    limit = runtime.allocator_statistics().cache_limit
    runtime.trim()
    yield runtime
    runtime.set_cache_limit(limit)


def allocate(size):
    return native_runtime().function("ingot_allocate", ctypes.c_void_p, ctypes.c_int64)(size)


def free(address):
    native_runtime().function("ingot_free", None, ctypes.c_void_p)(address)


@given(st.integers(1, 1 << 46))
def test_classes_are_tight_and_ordered(size):
    number = size_class(size)
    capacity = capacity_of(number)
    assert 0 <= number < NUM_SIZE_CLASSES
    assert capacity >= size
    assert capacity % 64 == 0
    assert capacity <= max(64, size * 5 // 4 + 64)
    assert size_class(capacity) == number
    assert size_class(capacity + 1) == number + 1


@pytest.mark.parametrize(
    "size",
    [0, 1, 64, 65, 255, 256, 257, 513, 641, 1000, 1025, 4096, MAP_FROM_BYTES, HUGE_FROM_BYTES + 1],
)
def test_blocks_are_aligned_writable_and_know_their_class(runtime, size):
    address = allocate(size)
    number = size_class(max(size, 1))
    capacity = capacity_of(number)
    assert address % 64 == 0
    header = address - BLOCK_HEADER_BYTES
    assert BLOCK.read(header, "size_class") == number
    assert BLOCK.read(header, "capacity") == capacity
    ctypes.memset(address, 0xAB, capacity)
    assert BLOCK.read(header, "capacity") == capacity
    free(address)


def test_huge_blocks_start_on_huge_pages(runtime):
    address = allocate(HUGE_FROM_BYTES)
    base = BLOCK.read(address - BLOCK_HEADER_BYTES, "base")
    assert base % (2 << 20) == 0
    assert 0 < address - base <= 64 + 63 * 64
    free(address)


def test_large_blocks_start_at_different_offsets_in_a_page(runtime):
    blocks = [allocate(1 << 20) for _ in range(64)]
    assert len({address % 4096 for address in blocks}) == 64
    for address in blocks:
        free(address)
    runtime.trim()


def test_a_freed_block_is_used_again(runtime):
    first = allocate(5000)
    before = runtime.allocator_statistics()
    free(first)
    assert allocate(4900) == first
    after = runtime.allocator_statistics()
    assert after.system_allocations == before.system_allocations
    assert after.bytes_in_use == before.bytes_in_use
    free(first)


def test_statistics_count_bytes_and_peak(runtime):
    runtime.reset_peak()
    start = runtime.allocator_statistics()
    blocks = [allocate(1 << 20) for _ in range(3)]
    during = runtime.allocator_statistics()
    assert during.bytes_in_use - start.bytes_in_use == 3 << 20
    for block in blocks:
        free(block)
    end = runtime.allocator_statistics()
    assert end.bytes_in_use == start.bytes_in_use
    assert end.peak_bytes == start.bytes_in_use + (3 << 20)
    assert end.bytes_cached >= 3 << 20
    assert end.allocations - start.allocations == end.frees - start.frees == 3


def test_the_cache_keeps_to_its_limit(runtime):
    runtime.set_cache_limit(3 << 20)
    blocks = [allocate(1 << 20) for _ in range(8)]
    for block in blocks:
        free(block)
    assert 0 < runtime.allocator_statistics().bytes_cached <= 3 << 20
    runtime.set_cache_limit(0)
    assert runtime.allocator_statistics().bytes_cached == 0
    free(allocate(1 << 20))
    assert runtime.allocator_statistics().bytes_cached == 0


def test_a_block_larger_than_the_limit_leaves_the_cache_alone(runtime):
    runtime.set_cache_limit(1 << 20)
    free(allocate(1000))
    cached = runtime.allocator_statistics().bytes_cached
    free(allocate(8 << 20))
    assert runtime.allocator_statistics().bytes_cached == cached > 0


@pytest.mark.parametrize("size", [1 << 45, (1 << 46) + 1, -1])
def test_too_much_memory_is_null_and_counts_nothing(runtime, size):
    before = runtime.allocator_statistics()
    assert allocate(size) is None
    after = runtime.allocator_statistics()
    assert after.bytes_in_use == before.bytes_in_use
    assert after.allocations == before.allocations


def test_null_may_be_freed(runtime):
    before = allocator_statistics()
    free(None)
    assert allocator_statistics() == before


def test_threads_never_share_a_block(runtime):
    before = runtime.allocator_statistics()
    clashes = []

    def work(seed):
        chooser = random.Random(seed)
        held = []
        for _ in range(300):
            size = chooser.choice([64, 200, 3000, 300_000])
            address = allocate(size)
            ctypes.memset(address, seed, 64)
            held.append(address)
            if len(held) > 5:
                victim = held.pop(chooser.randrange(len(held)))
                if ctypes.string_at(victim, 64) != bytes([seed]) * 64:
                    clashes.append(victim)
                free(victim)
        for address in held:
            free(address)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = runtime.allocator_statistics()
    assert clashes == []
    assert after.bytes_in_use == before.bytes_in_use
    assert after.allocations - before.allocations == after.frees - before.frees == 1200


def test_the_limit_comes_from_the_switch_or_the_memory():
    with override(ALLOCATOR_CACHE_BYTES, 12345):
        assert default_cache_limit() == 12345
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert default_cache_limit() == memory // 4
