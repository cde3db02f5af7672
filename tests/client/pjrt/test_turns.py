# SPDX-License-Identifier: Apache-2.0
"""Executions on several devices whose parts take turns in the call (`native_code.turns`)."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.client.pjrt.host import PjrtError, Replicas

from ingot.client.pjrt.executables import LoadedExecutable
from ingot.client.pjrt.handles import lookup
from ingot.client.pjrt.records import DEVICE, IN_TURNS

pytest.importorskip("jaxlib", reason="it reads MLIR")

DEVICES = 3
SUM = """
    %{result} = "stablehlo.all_reduce"(%{operand}) ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
    }}) {{replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>,
         channel_handle = #stablehlo.channel_handle<handle = {channel}, type = 1>,
         use_global_device_ids}} : (tensor<{size}xf32>) -> tensor<{size}xf32>
"""


def module(body: str, size: int, attributes: str = "") -> str:
    """Return a program of three replicas that takes and returns `size` numbers."""
    return f"""
module attributes {{mhlo.num_replicas = {DEVICES} : i32}} {{
  func.func @main(%x: tensor<{size}xf32>{attributes}) -> tensor<{size}xf32> {{
    {body}
    return %r : tensor<{size}xf32>
  }}
}}
"""


def all_reduce(size: int, operand: str = "x", result: str = "r", channel: int = 1) -> str:
    return SUM.format(size=size, operand=operand, result=result, channel=channel)


def if_positive(size: int, then: str, otherwise: str) -> str:
    """Return the body of a program that does one of two things by the sign of its first number."""
    return f"""
    %zero = stablehlo.constant dense<0.0> : tensor<1xf32>
    %head = stablehlo.slice %x [0:1] : (tensor<{size}xf32>) -> tensor<1xf32>
    %signs = stablehlo.compare GT, %head, %zero : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xi1>
    %sign = stablehlo.reshape %signs : (tensor<1xi1>) -> tensor<i1>
    %r = "stablehlo.if"(%sign) ({{
      {then}
      stablehlo.return %t : tensor<{size}xf32>
    }}, {{
      {otherwise}
      stablehlo.return %t : tensor<{size}xf32>
    }}) : (tensor<i1>) -> tensor<{size}xf32>
"""


class Group(Replicas):
    """Three devices, and a program for all."""

    def __init__(self, text: str) -> None:
        super().__init__(text, DEVICES)

    @property
    def record(self) -> Any:
        return lookup(self.program, LoadedExecutable).structure

    def given(self, data: np.ndarray[Any, Any]) -> list[int]:
        """Return a buffer of the data times 1, 2 and 3 on each device."""
        return [self.put(data * np.float32(number + 1), number) for number in range(DEVICES)]

    def execute(self, buffers: Sequence[int], *, is_awaited: bool = True) -> list[int]:
        events = (ctypes.c_uint64 * DEVICES)()
        results = self.launch(buffers, events=ctypes.addressof(events))
        for event in events if is_awaited else ():
            self.host.wait(event)
        return results

    def get(self, buffers: Sequence[int], like: np.ndarray[Any, Any]) -> list[Any]:
        found = [self.host.get(buffer, like).copy() for buffer in buffers]
        for buffer in buffers:
            self.host.call("Buffer_Destroy", buffer=buffer)
        return found

    def queued(self) -> list[int]:
        return [DEVICE.read(device, "queued") for device in self.devices]


@pytest.fixture(autouse=True)
def three_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", f"--xla_force_host_platform_device_count={DEVICES}")


@pytest.mark.parametrize("size", [0, 1, 7, 4096])
def test_short_parts_need_no_worker(size: int) -> None:
    body = all_reduce(size, result="s") + all_reduce(size, "s", "r", channel=2)
    group = Group(module(body, size))
    data = np.arange(size, dtype=np.float32)
    buffers = group.given(data)
    assert group.record.mode == IN_TURNS
    group.get(group.execute(buffers), data)
    before = group.queued()
    for _ in range(3):
        for found in group.get(group.execute(buffers), data):
            np.testing.assert_array_equal(found, data * 18)
    assert group.queued() == before


def test_long_parts_run_in_the_call_once_the_host_waits() -> None:
    size = 1 << 20
    group = Group(module(all_reduce(size), size))
    data = np.arange(size, dtype=np.float32) % 97
    buffers = group.given(data)
    assert not group.record.is_short
    for _ in range(8):
        for found in group.get(group.execute(buffers), data):
            np.testing.assert_array_equal(found, data * 6)


def test_a_device_that_waits_in_vain_is_told_at_once() -> None:
    """Device 0 is at a collective; the others have left the program without it."""
    body = if_positive(4, all_reduce(4, result="t"), "%t = stablehlo.add %x, %x : tensor<4xf32>")
    group = Group(module(body, 4))
    data = np.ones(4, np.float32)
    together = group.given(data)
    alone = [together[0], *group.given(-data)[1:]]
    for _ in range(2):
        for found in group.get(group.execute(together), data):
            np.testing.assert_array_equal(found, data * 6)
        with pytest.raises(PjrtError, match="waited for another device in vain"):
            group.execute(alone)
    for found in group.get(group.execute(together), data):
        np.testing.assert_array_equal(found, data * 6)


def test_workers_find_at_once_that_a_device_waits_in_vain() -> None:
    """The first execution of a program runs on the workers of its devices."""
    body = if_positive(4, all_reduce(4, result="t"), "%t = stablehlo.add %x, %x : tensor<4xf32>")
    group = Group(module(body, 4))
    data = np.ones(4, np.float32)
    together = group.given(data)
    alone = [together[0], *group.given(-data)[1:]]
    with pytest.raises(PjrtError, match=r"device in vain|another device failed"):
        group.execute(alone)
    assert group.queued() == [1] * DEVICES
    for found in group.get(group.execute(together), data):
        np.testing.assert_array_equal(found, data * 6)


def test_executions_that_wait_for_each_other_in_the_queues() -> None:
    size = 1 << 18
    group = Group(module(all_reduce(size), size))
    data = np.ones(size, np.float32)
    buffers = group.given(data)
    for _ in range(6):
        buffers = group.execute(buffers, is_awaited=False)
    for found in group.get(buffers, data):
        np.testing.assert_array_equal(found, data * 6 * 3.0**5)


def test_donated_memory_is_used_for_the_result() -> None:
    text = module(all_reduce(64), 64, " {tf.aliasing_output = 0 : i32}")
    group = Group(text)
    data = np.arange(64, dtype=np.float32)
    for _ in range(4):
        buffers = group.given(data)
        results = group.execute(buffers)
        for buffer in buffers:
            with pytest.raises(PjrtError, match="deleted or donated"):
                group.host.get(buffer, data)
        for found in group.get(results, data):
            np.testing.assert_array_equal(found, data * 6)


def test_several_threads_execute_one_program() -> None:
    group = Group(module(all_reduce(256), 256))
    data = np.arange(256, dtype=np.float32)
    buffers = group.given(data)
    group.get(group.execute(buffers), data)
    wrong: list[Any] = []

    def run() -> None:
        for _ in range(50):
            found = group.get(group.execute(buffers), data)
            wrong.extend(each for each in found if not np.array_equal(each, data * 6))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
