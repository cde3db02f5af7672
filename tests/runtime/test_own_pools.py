# SPDX-License-Identifier: Apache-2.0
"""Pools of their own: each device has its share of the threads, and works like the process's."""

from __future__ import annotations

import numpy as np
import pytest
from tests.runtime.foreign.collectives.programs import one_each

import ingot
from ingot.runtime.native import native_runtime, num_threads, set_num_threads
from ingot.runtime.own_pools import OwnPool
from ingot.runtime.records import POOL, RUNTIME


@pytest.fixture(autouse=True)
def _threads():
    before = num_threads()
    yield
    set_num_threads(before)


@pytest.mark.parametrize(("threads", "devices", "share"), [(8, 2, 4), (8, 3, 2), (2, 4, 1)])
def test_devices_share_the_threads(threads, devices, share):
    set_num_threads(threads)
    pool, record = OwnPool(), RUNTIME.structure()
    pool.give_share(record, devices)
    assert (record.pool, record.num_threads) == (pool.address, share)
    assert POOL.read(pool.address, "num_threads") == share
    shared = RUNTIME.read(native_runtime().record, "pool")
    assert POOL.read(pool.address, "spin") == POOL.read(shared, "spin")


def test_a_forked_child_has_no_workers():
    pool = OwnPool()
    spin = POOL.read(pool.address, "spin")
    for name in ("started", "lock", "sleepers", "state"):
        POOL.write(pool.address, name, 7)
    pool.forget_workers()
    assert [POOL.read(pool.address, name) for name in ("started", "lock", "state")] == [0, 0, 0]
    assert POOL.read(pool.address, "spin") == spin


@pytest.mark.parametrize("threads", [1, 2, 5, 8])
def test_results_do_not_depend_on_the_threads(threads):
    body = """t = f32[700,900] transpose(x), dimensions={1,0}
    p = f32[900,900] dot(t, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ROOT r = f32[900,900] all-reduce(p), replica_groups={}, to_apply=add"""
    text, _ = one_each(body.replace("f32[700,900] t", "f32[900,700] t"), "f32", (700, 900), (2, 1))
    draw = np.random.default_rng(0)
    inputs = [[draw.standard_normal((700, 900)).astype(np.float32)] for _ in range(2)]
    executable = ingot.compile(ingot.parse_hlo(text))
    set_num_threads(2)
    wanted = executable.execute_replicated(inputs)
    set_num_threads(threads)
    for got, want in zip(executable.execute_replicated(inputs), wanted, strict=True):
        np.testing.assert_array_equal(got, want)
