# SPDX-License-Identifier: Apache-2.0
"""Buffers that one thread deletes while others use them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from tests.client.pjrt.host import Host, PjrtError

from ingot.runtime.native import allocator_statistics

pytest.importorskip("jaxlib", reason="it reads MLIR")

SIZE = 1 << 12
PROGRAM = f"""
func.func @main(%x: tensor<{SIZE}xf32>) -> tensor<{SIZE}xf32> {{
  %0 = stablehlo.add %x, %x : tensor<{SIZE}xf32>
  return %0 : tensor<{SIZE}xf32>
}}
"""
DONATING = PROGRAM.replace("xf32>)", "xf32> {tf.aliasing_output = 0 : i32})", 1)
X = np.ones(SIZE, np.float32)
ROUNDS = 150


def at_once(*actions: Callable[[], None]) -> None:
    """Run actions on a thread each, all beginning together."""
    barrier = threading.Barrier(len(actions))
    failures: list[BaseException] = []

    def run(action: Callable[[], None]) -> None:
        barrier.wait()
        try:
            action()
        except BaseException as problem:
            failures.append(problem)

    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for failure in failures:
        raise failure


def expect_deleted(error: PjrtError) -> None:
    if "deleted or donated" not in str(error):
        raise error


@pytest.mark.parametrize("program", [PROGRAM, DONATING], ids=["plain", "donating"])
def test_delete_while_others_run_and_read(program: str) -> None:
    host = Host()
    client = host.client()
    executable = host.compile(client, program)
    before = allocator_statistics()
    deleted = 0
    for number in range(ROUNDS):
        x, event = host.put(client, X)
        host.wait(event)

        def execute(x: int = x) -> None:
            nonlocal deleted
            try:
                (y,) = host.execute(executable, [x], 1)
            except PjrtError as error:
                expect_deleted(error)
                deleted += 1
                return
            np.testing.assert_array_equal(host.get(y, X), X + X)
            host.call("Buffer_Destroy", buffer=y)

        def read(x: int = x) -> None:
            try:
                host.get(x, X)
            except PjrtError as error:
                expect_deleted(error)

        def delete(x: int = x, delay: float = number % 4 * 2e-4) -> None:
            time.sleep(delay)  # Without, it would be first every time on some machines.
            host.call("Buffer_Delete", buffer=x)

        at_once(execute, read, delete)
        host.call("Buffer_Destroy", buffer=x)
    after = allocator_statistics()
    assert after.allocations - after.frees == before.allocations - before.frees
    assert deleted < ROUNDS


def test_unaligned_memory_is_left_while_others_run_and_read() -> None:
    host = Host()
    client = host.client()
    executable = host.compile(client, PROGRAM)
    room = np.ones(SIZE + 32, np.float32)
    array = room[-room.ctypes.data % 64 // 4 + 4 :][:SIZE]
    before = allocator_statistics()
    for _ in range(ROUNDS):
        x, event = host.put(client, array, semantics=2)

        def execute(x: int = x) -> None:
            for _ in range(2):
                (y,) = host.execute(executable, [x], 1)
                np.testing.assert_array_equal(host.get(y, X), X + X)
                host.call("Buffer_Destroy", buffer=y)

        def read(x: int = x) -> None:
            np.testing.assert_array_equal(host.get(x, X), X)

        at_once(execute, execute, read)
        host.call("Buffer_Destroy", buffer=x)
        host.wait(event)
    after = allocator_statistics()
    assert after.allocations - after.frees == before.allocations - before.frees


def test_a_storage_stays_while_it_is_used() -> None:
    host = Host()
    x, event = host.put(host.client(), X)
    host.wait(event)
    before = allocator_statistics().frees
    host.call("Buffer_IncreaseExternalReferenceCount", buffer=x)
    host.call("Buffer_Delete", buffer=x)
    assert allocator_statistics().frees == before
    host.call("Buffer_DecreaseExternalReferenceCount", buffer=x)
    assert allocator_statistics().frees == before + 1
    host.call("Buffer_Destroy", buffer=x)
