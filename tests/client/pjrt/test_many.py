# SPDX-License-Identifier: Apache-2.0
"""Executions on several devices, called as a C host calls them."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.client.pjrt.host import PjrtError, Replicas

from ingot.client.pjrt.executables import LoadedExecutable
from ingot.client.pjrt.handles import lookup
from ingot.client.pjrt.python_slots.extensions import ExtensionSlots
from ingot.client.pjrt.records import DEVICE, IN_TURNS, SEPARATE
from ingot.runtime.native import allocator_statistics

pytest.importorskip("jaxlib", reason="it reads MLIR")

X = np.arange(4, dtype=np.float32)
SUM = """
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.all_reduce"(%x) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""

TWICE = """
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %x, %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""
"""Its parts are short and do not meet: they run one after the other in the call."""


class Pair(Replicas):
    """Two devices, and a program for both: each doubles its number or adds up."""

    def __init__(self, text: str) -> None:
        super().__init__(text, 2)
        self.text = text

    def given(self, device: int) -> int:
        return self.put(X, device)

    def execute(self, *buffers: int, num_devices: int = 2) -> list[int]:
        return self.launch(buffers, num_devices)

    def wait_until_idle(self) -> None:
        while any(DEVICE.read(device, "unfinished") for device in self.devices):
            time.sleep(0.001)


@pytest.fixture(params=[SUM, TWICE], ids=["parts that meet", "parts that do not"])
def pair(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Pair:
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    return Pair(request.param)


def in_use() -> int:
    found = allocator_statistics()
    return found.allocations - found.frees


def test_both_devices_run(pair: Pair) -> None:
    buffers = [pair.given(device) for device in range(2)]
    for result in pair.execute(*buffers):
        np.testing.assert_array_equal(pair.host.get(result, X), X + X)


def test_parts_that_do_not_meet_take_no_turns(pair: Pair) -> None:
    mode = lookup(pair.program, LoadedExecutable).structure.mode
    assert mode == (SEPARATE if pair.text == TWICE else IN_TURNS)


def test_a_part_that_cannot_be_queued_leaves_nothing(pair: Pair) -> None:
    buffers = [pair.given(device) for device in range(2)]
    pair.execute(*buffers)
    pair.wait_until_idle()
    pair.host.call("Buffer_Delete", buffer=buffers[1])

    def fail() -> int:
        with pytest.raises(PjrtError, match="deleted or donated"):
            pair.execute(*buffers)
        pair.wait_until_idle()
        return in_use()

    # What an execution itself holds is given back by the next one.
    first = fail()
    assert [fail() for _ in range(3)] == [first] * 3


def test_another_number_of_devices_is_refused(pair: Pair) -> None:
    with pytest.raises(PjrtError, match="devices"):
        pair.execute(pair.given(0), num_devices=1)


def test_asking_again_takes_no_memory(pair: Pair) -> None:
    native: Any = SimpleNamespace(call=lambda _, rank: 8 + rank)
    slots = ExtensionSlots(native)
    executable = lookup(pair.program, LoadedExecutable)
    kept: list[int] = []
    for _ in range(3):
        for ask in (
            slots.output_layouts,
            slots.parameter_layouts,
            slots.parameter_shardings,
            slots.output_shardings,
        ):
            ask(SimpleNamespace(executable=pair.program))
        kept.append(len(executable.kept))
    assert kept == [kept[0]] * 3


def test_a_host_that_waits_and_one_that_does_not_get_the_same(pair: Pair) -> None:
    """Parts run in the call, or on workers: the first execution, and those that cannot begin."""
    buffers = [pair.given(device) for device in range(2)]
    for wait in (*[True] * 5, *[False] * 5, *[True] * 5):
        results = pair.execute(*buffers)
        if wait:
            for result in results:
                np.testing.assert_array_equal(pair.host.get(result, X), X + X)
        for result in results:
            pair.host.call("Buffer_Destroy", buffer=result)
    pair.wait_until_idle()


def test_parts_whose_arguments_are_not_there_yet_are_queued(pair: Pair) -> None:
    buffers = [pair.given(device) for device in range(2)]
    for _ in range(4):
        for result in pair.execute(*buffers):
            pair.host.get(result, X)
    # Each execution takes the results of the one before, which may still be computed.
    for _ in range(20):
        buffers = pair.execute(*buffers)
    for buffer in buffers:
        np.testing.assert_array_equal(pair.host.get(buffer, X), X * 2.0**20)
