# SPDX-License-Identifier: Apache-2.0
"""Buffers that are filled later, and copies to where a host says later."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator

import numpy as np
import pytest
from tests.client.pjrt.host import Array, OneDevice, PjrtError, balanced

from ingot.client.pjrt.c_api import TYPE_CODES, record
from ingot.client.pjrt.native_code.backlog import MOST_AHEAD
from ingot.client.pjrt.records import DEVICE, EVENT

X = np.arange(6, dtype=np.float32).reshape(2, 3)
TWICE = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.add %x, %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
"""
DONATING = TWICE.replace("xf32>)", "xf32> {tf.aliasing_output = 0 : i32})", 1)
PLUS = """
func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.add %x, %y : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
"""
LOOP = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<2x3xf32>
    cond {
      %three = stablehlo.constant dense<3> : tensor<i32>
      %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %z = stablehlo.add %y, %y : tensor<2x3xf32>
      stablehlo.return %next, %z : tensor<i32>, tensor<2x3xf32>
    }
  return %0#1 : tensor<2x3xf32>
}
"""
TRANSFER = "AsyncHostToDeviceTransferManager"


class World(OneDevice):
    """A client, and managers of buffers like X."""

    def manager(self, count: int = 2, kind: str = "f32") -> int:
        dims = (ctypes.c_int64 * 2)(*X.shape)
        layout = record("PJRT_ShapeSpec")
        specs = (layout.structure * count)()
        for spec in specs:
            spec.dims, spec.num_dims = ctypes.addressof(dims), 2
            spec.element_type = TYPE_CODES[kind]
        return self.host.call(
            "Client_CreateBuffersForAsyncHostToDevice",
            client=self.client,
            shape_specs=ctypes.addressof(specs),
            num_shape_specs=count,
            memory=self.memory,
        ).transfer_manager

    def on(self, manager: int, name: str, index: int = 0, **fields: int) -> object:
        return self.host.call(
            f"{TRANSFER}_{name}", transfer_manager=manager, buffer_index=index, **fields
        )

    def send(self, manager: int, index: int, array: Array, offset: int, last: bool) -> None:
        done = self.host.call(
            f"{TRANSFER}_TransferData",
            transfer_manager=manager,
            buffer_index=index,
            data=array.ctypes.data,
            offset=offset,
            transfer_size=array.nbytes,
            is_last_transfer=int(last),
        )
        self.host.wait(done.done_with_h2d_transfer)

    def take(self, manager: int, index: int) -> int:
        return self.host.call(
            f"{TRANSFER}_RetrieveBuffer", transfer_manager=manager, buffer_index=index
        ).buffer_out

    def ready(self, buffer: int) -> int:
        return self.host.call("Buffer_ReadyEvent", buffer=buffer).event

    def end(self, manager: int, *buffers: int) -> None:
        for buffer in buffers:
            self.host.call("Buffer_Destroy", buffer=buffer)
        self.host.call(f"{TRANSFER}_Destroy", transfer_manager=manager)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    with balanced(made.device):
        yield made


def test_data_in_parts(world: World) -> None:
    host, manager = world.host, world.manager()
    buffer = world.take(manager, 1)
    event = world.ready(buffer)
    world.send(manager, 1, X[1:], X[:1].nbytes, False)
    assert not host.call("Event_IsReady", event=event).is_ready
    world.send(manager, 1, X[:1], 0, True)
    host.wait(event)
    np.testing.assert_array_equal(host.get(buffer, X), X)
    world.end(manager, buffer)


def test_what_a_manager_says(world: World) -> None:
    manager = world.manager(3, "bf16")
    answer = world.host.call(f"{TRANSFER}_BufferCount", transfer_manager=manager)
    assert answer.buffer_count == 3
    size = world.host.call(f"{TRANSFER}_BufferSize", transfer_manager=manager, buffer_index=2)
    assert size.buffer_size == 12
    device = world.host.call(f"{TRANSFER}_Device", transfer_manager=manager)
    assert device.device_out == world.device
    world.host.call(f"{TRANSFER}_AddMetadata", transfer_manager=manager)
    world.end(manager)


def test_a_literal_in_any_layout(world: World) -> None:
    manager = world.manager()
    dims, order = (ctypes.c_int64 * 2)(*X.shape), (ctypes.c_int64 * 2)(0, 1)
    layout = record("PJRT_Buffer_MemoryLayout").structure()
    layout.minor_to_major, layout.minor_to_major_size = ctypes.addressof(order), 2
    columns = np.asfortranarray(X)
    for index, (data, at) in enumerate([(X, 0), (columns, ctypes.addressof(layout))]):
        world.on(
            manager,
            "TransferLiteral",
            index,
            data=data.ctypes.data,
            shape_dims=ctypes.addressof(dims),
            shape_num_dims=2,
            shape_element_type=TYPE_CODES["f32"],
            shape_layout=at,
        )
        buffer = world.take(manager, index)
        np.testing.assert_array_equal(world.host.get(buffer, X), X)
        world.host.call("Buffer_Destroy", buffer=buffer)
    world.end(manager)


def test_errors_reach_who_waits(world: World) -> None:
    manager = world.manager()
    buffers = [world.take(manager, index) for index in range(2)]
    text = ctypes.create_string_buffer(b"lost on the way")
    place = ctypes.addressof(text)
    fields = {"error_code": 14, "error_message": place, "error_message_size": len(text.value)}
    world.on(manager, "SetBufferError", 0, **fields)
    with pytest.raises(PjrtError, match="lost on the way") as info:
        world.host.wait(world.ready(buffers[0]))
    assert info.value.code == 14
    event = world.ready(buffers[1])
    world.end(manager)
    with pytest.raises(PjrtError, match="destroyed before all data"):
        world.host.wait(event)
    for buffer in buffers:
        world.host.call("Buffer_Destroy", buffer=buffer)


def test_refused_transfers(world: World) -> None:
    manager = world.manager()
    with pytest.raises(PjrtError, match="has 2 buffers, no 2"):
        world.take(manager, 2)
    with pytest.raises(PjrtError, match="bytes 4 to 28 are not in a buffer of 24"):
        world.send(manager, 0, X, 4, True)
    world.send(manager, 0, X, 0, True)
    with pytest.raises(PjrtError, match="has come already"):
        world.send(manager, 0, X, 0, True)
    buffer = world.take(manager, 0)
    with pytest.raises(PjrtError, match="retrieved already"):
        world.take(manager, 0)
    world.end(manager, buffer)
    with pytest.raises(PjrtError, match="PJRT_Buffer_Type 23"):
        world.manager(1, "token")


@pytest.mark.parametrize("order", ["data first", "target first"])
def test_a_copy_to_where_the_host_says_later(world: World, order: str) -> None:
    host, manager = world.host, world.manager(1)
    buffer = world.take(manager, 0)
    if order == "data first":
        world.send(manager, 0, X, 0, True)
    later = host.call("Buffer_CopyRawToHostFuture", buffer=buffer, offset=4, transfer_size=8)
    assert not host.call("Event_IsReady", event=later.event).is_ready
    if order == "target first":
        world.send(manager, 0, X, 0, True)
    found = np.zeros(2, np.float32)
    given = record("PJRT_Buffer_CopyRawToHostFuture_Callback").structure()
    given.callback_data, given.dst = later.callback_data, found.ctypes.data
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(later.future_ready_callback)
    call(ctypes.addressof(given))
    host.wait(later.event)
    np.testing.assert_array_equal(found, [1, 2])
    world.end(manager, buffer)


def test_a_tracking_event(world: World) -> None:
    event = world.host.call("Device_CreateAsyncTrackingEvent", device=world.device).event
    other = world.host.call("Device_CreateAsyncTrackingEvent", device=world.device).event
    assert 0 not in (event, other)
    assert event != other
    world.host.call("AsyncTrackingEvent_Destroy", event=event)
    with pytest.raises(PjrtError, match="no handle"):
        world.host.call("AsyncTrackingEvent_Destroy", event=event)
    world.host.call("AsyncTrackingEvent_Destroy", event=other)


def test_a_stream_is_refused(world: World) -> None:
    with pytest.raises(PjrtError, match="recv from the host"):
        world.host.call("CopyToDeviceStream_CurrentBytes")


def test_who_waits_for_the_host_holds_nobody_up(world: World) -> None:
    host, manager = world.host, world.manager(1)
    executable = host.compile(world.client, TWICE)
    late = world.take(manager, 0)
    (doubled,) = host.execute(executable, [late], 1)
    (fourfold,) = host.execute(executable, [doubled], 1)
    moved = host.call("Buffer_CopyToMemory", buffer=doubled, dst_memory=world.memory).dst_buffer
    assert DEVICE.read(world.device, "unfinished") == 0
    other, _ = host.put(world.client, X)
    (result,) = host.execute(executable, [other], 1)
    np.testing.assert_array_equal(host.get(result, X), 2 * X)
    world.send(manager, 0, X, 0, True)
    for buffer, factor in ((doubled, 2), (fourfold, 4), (moved, 2)):
        np.testing.assert_array_equal(host.get(buffer, X), factor * X)
    host.call("LoadedExecutable_Destroy", executable=executable)
    world.end(manager, late, doubled, fourfold, moved, other, result)


def test_any_number_of_programs_may_wait_for_the_host(world: World) -> None:
    """They are not in the queue, so a host that dispatches them does not wait for its own data."""
    host, manager = world.host, world.manager(1)
    program = host.compile(world.client, LOOP)
    x = world.take(manager, 0)
    results = [host.execute(program, [x], 1)[0] for _ in range(MOST_AHEAD + 4)]
    world.send(manager, 0, X, 0, True)
    for y in results:
        np.testing.assert_array_equal(host.get(y, X), 8 * X)
    host.call("LoadedExecutable_Destroy", executable=program)
    world.end(manager, x, *results)


def test_what_waits_for_the_host_is_not_donated(world: World) -> None:
    host, manager = world.host, world.manager(1)
    plus, overwrites = host.compile(world.client, PLUS), host.compile(world.client, DONATING)
    late, given = world.take(manager, 0), host.put(world.client, X)[0]
    (sum_,) = host.execute(plus, [late, given], 1)
    (doubled,) = host.execute(overwrites, [given], 1)
    np.testing.assert_array_equal(host.get(doubled, X), 2 * X)
    world.send(manager, 0, X, 0, True)
    np.testing.assert_array_equal(host.get(sum_, X), 2 * X)
    for executable in (plus, overwrites):
        host.call("LoadedExecutable_Destroy", executable=executable)
    world.end(manager, late, given, sum_, doubled)


def test_executions_are_poisoned(world: World) -> None:
    host, manager = world.host, world.manager()
    executable = host.compile(world.client, TWICE)
    late = [world.take(manager, index) for index in range(2)]
    results: list[int] = []
    for index, buffer in enumerate(late):
        event = world.ready(buffer)
        EVENT.write(event, "late", 0)
        host.call("Event_Destroy", event=event)
        results += host.execute(executable, [buffer], 1, launch_id=index + 7)
    text = ctypes.create_string_buffer(b"the other side is gone")

    def poison(number: int) -> int:
        fields = {"error_code": 14, "error_message": ctypes.addressof(text)}
        size = len(text.value)
        return host.call(
            "Device_PoisonExecution",
            device=world.device,
            launch_id=number,
            error_message_size=size,
            **fields,
        ).poisoned

    assert [poison(number) for number in (6, 8, 7, 7)] == [0, 1, 1, 0]
    for result in results:
        with pytest.raises(PjrtError, match="the other side is gone") as info:
            host.wait(world.ready(result))
        assert info.value.code == 14
    for index in range(2):
        world.send(manager, index, X, 0, True)
    while DEVICE.read(world.device, "unfinished"):
        time.sleep(0.001)
    assert poison(7) == 0
    host.call("LoadedExecutable_Destroy", executable=executable)
    world.end(manager, *late, *results)
