# SPDX-License-Identifier: Apache-2.0
"""No memory: whichever small allocation of a call fails, the call says so and leaves nothing."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from tests.client.pjrt.host import Host, PjrtError

from ingot.client.pjrt.native_code import module as native_module
from ingot.client.pjrt.plugin import Plugin
from ingot.runtime.native import allocator_statistics, native_runtime

pytest.importorskip("jaxlib", reason="it reads MLIR")

X = np.arange(6, dtype=np.float32).reshape(2, 3)
LARGE = np.zeros(1 << 14, np.float32)
RESOURCE_EXHAUSTED = 8
HEAD = """
func.func @main(%x: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}) -> tensor<2x3xf32> {
"""
SHORT = f"""{HEAD}
  %0 = stablehlo.add %x, %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}}
"""
QUEUED = f"""{HEAD}
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<2x3xf32>
    cond {{
      %c = stablehlo.compare LT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }} do {{
      %j = stablehlo.add %i, %one : tensor<i32>
      %w = stablehlo.add %v, %v : tensor<2x3xf32>
      stablehlo.return %j, %w : tensor<i32>, tensor<2x3xf32>
    }}
  return %r#1 : tensor<2x3xf32>
}}
"""


class Memory:
    """An allocator in place of the runtime's: gives memory `left` times, then none."""

    def __init__(self) -> None:
        self.runtime = native_runtime()
        self.left = -1
        self.refused = 0
        kind = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)
        self._real = self.runtime.function("ingot_allocate", ctypes.c_void_p, ctypes.c_int64)
        self._replacement = kind(self._allocate)

    def _allocate(self, size: int) -> int | None:
        if self.left == 0:
            self.refused += 1
            return None
        self.left -= 1
        return self._real(size)

    def address(self, name: str) -> int:
        """Return the address of a function of the runtime, as `NativeRuntime.address` does."""
        if name == "ingot_allocate":
            return ctypes.cast(self._replacement, ctypes.c_void_p).value or 0
        return self.runtime.address(name)


class World:
    """A client whose machine code allocates from `memory`."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.host = Host(Plugin().address)
        self.client = self.host.client()
        self.programs = [self.host.compile(self.client, text) for text in (SHORT, QUEUED)]

    def put(self, array: np.ndarray = X, semantics: int = 0) -> int:
        buffer, event = self.host.put(self.client, array, semantics)
        self.host.call("Event_Destroy", event=event)
        return buffer

    def end(self, *buffers: int) -> None:
        for buffer in buffers:
            self.host.call("Buffer_Destroy", buffer=buffer)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    memory = Memory()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native_module, "native_runtime", lambda: memory)
        made = World(memory)
    yield made
    memory.left = -1


def run(world: World, program: int) -> None:
    x = world.put()
    try:
        (y,) = world.host.execute(world.programs[program], [x], 1)
    except PjrtError:
        world.memory.left = -1
        np.testing.assert_array_equal(world.host.get(x, X), X)  # Nothing has changed.
        world.end(x)
        raise
    try:
        np.testing.assert_array_equal(world.host.get(y, X), X * 2)
    finally:
        world.end(x, y)


def copy(world: World) -> None:
    x = world.put()
    try:
        (y,) = world.host.execute(world.programs[1], [x], 1)  # Not ready yet, perhaps.
        world.end(x)
        x = y
        memories = world.host.call("Client_AddressableMemories", client=world.client)
        place = ctypes.c_void_p.from_address(memories.addressable_memories).value or 0
        made = world.host.call("Buffer_CopyToMemory", buffer=y, dst_memory=place).dst_buffer
        world.end(made)
    finally:
        world.end(x)


def in_place(world: World) -> None:
    world.end(world.put(LARGE, 2))


def strided(world: World) -> None:
    world.end(world.put(X.T))


def event(world: World) -> None:
    world.host.call("Event_Destroy", event=world.host.call("Event_Create").event)


CALLS: dict[str, Callable[[World], None]] = {
    "short": lambda world: run(world, 0),
    "queued": lambda world: run(world, 1),
    "copy": copy,
    "in place": in_place,
    "strided": strided,
    "event": event,
}


@pytest.mark.parametrize("name", CALLS)
def test_every_allocation_may_fail(world: World, name: str) -> None:
    before = allocator_statistics()
    failures = 0
    for count in range(40):
        world.memory.left, world.memory.refused = count, 0
        try:
            CALLS[name](world)
        except PjrtError as error:
            if error.code != RESOURCE_EXHAUSTED:
                raise
            failures += 1
        refused, world.memory.left = world.memory.refused, -1
        if not refused:
            break
    else:
        pytest.fail("it always wants more")
    assert failures > 0
    CALLS[name](world)
    after = allocator_statistics()
    assert after.allocations - after.frees == before.allocations - before.frees
