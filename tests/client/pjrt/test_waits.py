# SPDX-License-Identifier: Apache-2.0
"""Where a long program runs: in the call if the host waits for it anyway, else on the worker."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
from tests.client.pjrt.host import Host, balanced

from ingot.client.pjrt.native_code.backlog import MOST_AHEAD, most_ahead
from ingot.client.pjrt.records import DEVICE

pytest.importorskip("jaxlib", reason="it reads MLIR")

LONG = """
func.func @main(%x: tensor<4096xf32>) -> tensor<4096xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %rounds = stablehlo.constant dense<12000> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<4096xf32>
    cond {
      %more = stablehlo.compare LT, %i, %rounds : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %z = stablehlo.cosine %y : tensor<4096xf32>
      stablehlo.return %next, %z : tensor<i32>, tensor<4096xf32>
    }
  return %0#1 : tensor<4096xf32>
}
"""
"""Some 50 ms, which few delays of a busy machine come to."""

DOUBLED = """
func.func @main(%x: tensor<1048576xf32>) -> tensor<1048576xf32> {
  %0 = stablehlo.add %x, %x : tensor<1048576xf32>
  return %0 : tensor<1048576xf32>
}
"""

LARGE = """
func.func @main(%x: tensor<4096xf32>) -> tensor<1024x4096xf32> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<4096xf32>) -> tensor<1024x4096xf32>
  return %0 : tensor<1024x4096xf32>
}
"""
"""A result of 16 MB."""

X = np.ones(4096, np.float32)


class World:
    """A client with a long program."""

    def __init__(self) -> None:
        self.host = Host()
        self.client = self.host.client()
        self.device = self.host.device(self.client)
        self.program = self.host.compile(self.client, LONG)
        self.x, event = self.host.put(self.client, X)
        self.host.wait(event)

    def run(self, program: int = 0) -> bool:
        """Execute, ask for the result at once, wait; return whether it was there at once."""
        (y,) = self.host.execute(program or self.program, [self.x], 1)
        there = self.ask(y)
        self.host.call("Buffer_Destroy", buffer=y)
        return there

    def ask(self, y: int) -> bool:
        """Ask for a buffer and wait; return whether it was there."""
        event = self.host.call("Buffer_ReadyEvent", buffer=y).event
        there = bool(self.host.call("Event_IsReady", event=event).is_ready)
        self.host.wait(event)
        self._rest()
        return there

    def _rest(self) -> None:
        """Wait until the worker has put its job away: results are there a little sooner."""
        while DEVICE.read(self.device, "unfinished"):
            time.sleep(1e-4)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    with balanced(made.device):
        yield made


def waits_at_once(world: World, program: int = 0) -> bool:
    """Return whether one of some executions that are waited for ran in the call.

    A host that is held up between two calls did not ask at once, which one try must not decide.
    """
    return any(world.run(program) for _ in range(12))


def test_the_host_waits_each_time(world: World) -> None:
    assert not world.run()
    assert waits_at_once(world)


def test_the_host_goes_on(world: World) -> None:
    assert waits_at_once(world)
    first = world.host.execute(world.program, [world.x], 1)
    second = world.host.execute(world.program, [world.x], 1)  # Nobody asked for the first.
    assert not world.ask(second[0])
    for buffer in (*first, *second):
        world.host.call("Buffer_Destroy", buffer=buffer)


def test_the_host_does_something_else_first(world: World) -> None:
    assert waits_at_once(world)
    (y,) = world.host.execute(world.program, [world.x], 1)
    time.sleep(0.01)
    world.ask(y)
    world.host.call("Buffer_Destroy", buffer=y)
    assert not world.run()


def furthest(world: World, program: int) -> int:
    """Return how many of many executions wait at the same time if nobody asks for results."""
    buffers: list[int] = []
    most = 0
    for _ in range(3 * MOST_AHEAD):
        buffers += world.host.execute(program, [world.x], 1)
        most = max(most, DEVICE.read(world.device, "unfinished"))
    world.ask(buffers[-1])
    for buffer in buffers:
        world.host.call("Buffer_Destroy", buffer=buffer)
    return most


def test_a_host_is_not_far_ahead(world: World) -> None:
    """Programs whose results nobody asks for do not pile up, nor their results."""
    assert 1 < furthest(world, world.program) <= MOST_AHEAD


def test_a_host_is_less_far_ahead_with_large_results(world: World) -> None:
    large = world.host.compile(world.client, LARGE)
    assert 1 <= furthest(world, large) <= 2
    world.host.call("LoadedExecutable_Destroy", executable=large)


def test_how_far_ahead_a_host_may_be() -> None:
    sizes = (0, 1, 1 << 20, 1 << 21, (1 << 21) + 1, 1 << 22, 1 << 40)
    assert [most_ahead(size) for size in sizes] == [8, 8, 8, 4, 3, 2, 2]


def test_several_programs_in_turn(world: World) -> None:
    other = world.host.compile(world.client, LONG.replace("cosine", "sine"))
    found = [(world.run(), world.run(other)) for _ in range(8)]
    assert any(first and second for first, second in found)
    world.host.call("LoadedExecutable_Destroy", executable=other)


def test_the_next_program_gets_the_memory_of_a_dropped_result(world: World) -> None:
    """A worker holds no memory of a job whose end it has announced."""
    program = world.host.compile(world.client, DOUBLED)
    x, event = world.host.put(world.client, np.ones(1 << 20, np.float32))
    world.host.wait(event)
    addresses: list[int] = []
    for _ in range(40):
        (y,) = world.host.execute(program, [x], 1)
        found = world.host.call("Buffer_OpaqueDeviceMemoryDataPointer", buffer=y)
        addresses.append(found.device_memory_ptr)
        world.host.wait(world.host.call("Buffer_ReadyEvent", buffer=y).event)
        world.host.call("Buffer_Destroy", buffer=y)
    assert len(set(addresses)) == 1, addresses
    world.host.call("Buffer_Destroy", buffer=x)
    world.host.call("LoadedExecutable_Destroy", executable=program)
