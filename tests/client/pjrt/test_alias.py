# SPDX-License-Identifier: Apache-2.0
"""Buffers that take over another buffer's memory: aliases, donations with a dependency."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.client.pjrt.host import OneDevice, PjrtError, balanced

from ingot.client.pjrt.c_api import TYPE_CODES, record

pytest.importorskip("jaxlib", reason="it reads MLIR")

X = np.arange(6, dtype=np.float32).reshape(2, 3)
TWICE = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.add %x, %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
"""


class World(OneDevice):
    """A client, aliases of buffers like X, and a program that doubles them."""

    def __init__(self) -> None:
        super().__init__()
        self.twice = self.host.compile(self.client, TWICE)

    def alias(self, shape: tuple[int, ...] = X.shape) -> tuple[int, int]:
        """Return an alias and what fulfills it."""
        dims = (ctypes.c_int64 * len(shape))(*shape)
        made = self.host.call(
            "Client_CreateAliasBuffer",
            client=self.client,
            memory=self.memory,
            shape_dims=ctypes.addressof(dims),
            shape_num_dims=len(shape),
            shape_element_type=TYPE_CODES["f32"],
        )
        return made.alias_buffer, made.fulfill_alias_buffer_cb

    def fulfill(self, promise: int, buffer: int = 0, **failure: int) -> None:
        self.host.call(
            "Client_FulfillAliasBuffer",
            client=self.client,
            buffer=buffer,
            fulfill_alias_buffer_cb=promise,
            **failure,
        )

    def donate(self, buffer: int) -> Any:
        return self.host.call("Buffer_DonateWithControlDependency", buffer=buffer)

    def depend(self, donation: Any, code: int = 0, text: bytes = b"") -> None:
        """Tell what a donation depends on."""
        given = record("PJRT_Buffer_DonateWithControlDependency_Callback").structure()
        message = ctypes.create_string_buffer(text)
        given.callback_data, given.error_code = donation.callback_data, code
        given.error_message, given.error_message_size = ctypes.addressof(message), len(text)
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(donation.dependency_ready_callback)
        call(ctypes.addressof(given))

    def put(self) -> int:
        buffer, done = self.host.put(self.client, X)
        self.host.wait(done)
        return buffer

    def is_ready(self, buffer: int) -> bool:
        event = self.host.call("Buffer_ReadyEvent", buffer=buffer).event
        ready = self.host.call("Event_IsReady", event=event).is_ready
        self.host.call("Event_Destroy", event=event)
        return bool(ready)

    def end(self, *buffers: int) -> None:
        for buffer in buffers:
            self.host.call("Buffer_Destroy", buffer=buffer)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    with balanced(made.device):
        yield made


def test_an_alias_gets_the_memory_of_a_buffer(world: World) -> None:
    host, (alias, promise), buffer = world.host, world.alias(), world.put()
    address = host.call("Buffer_UnsafePointer", buffer=buffer).buffer_pointer
    assert not world.is_ready(alias)
    with pytest.raises(PjrtError, match="no memory so far"):
        host.call("Buffer_UnsafePointer", buffer=alias)
    world.fulfill(promise, buffer)
    assert world.is_ready(alias)
    assert host.call("Buffer_UnsafePointer", buffer=alias).buffer_pointer == address
    assert host.call("Buffer_IsDeleted", buffer=buffer).is_deleted
    np.testing.assert_array_equal(host.get(alias, X), X)
    with pytest.raises(PjrtError, match="no handle"):
        world.fulfill(promise, buffer)
    world.end(alias, buffer)


def test_a_program_runs_on_an_alias_before_its_producer(world: World) -> None:
    host, (alias, promise), buffer = world.host, world.alias(), world.put()
    (after,) = host.execute(world.twice, [alias], 1)
    (before,) = host.execute(world.twice, [buffer], 1)
    world.fulfill(promise, before)
    np.testing.assert_array_equal(host.get(after, X), 4 * X)
    world.end(alias, buffer, after, before)


def test_an_alias_that_fails(world: World) -> None:
    host, (alias, promise) = world.host, world.alias()
    (result,) = host.execute(world.twice, [alias], 1)
    text = ctypes.create_string_buffer(b"no such peer")
    place = {"error_message": ctypes.addressof(text), "error_message_size": len(text.value)}
    world.fulfill(promise, status_code=5, **place)
    for buffer in (alias, result):
        with pytest.raises(PjrtError, match="no such peer") as info:
            host.get(buffer, X)
        assert info.value.code == 5
    world.end(alias, result)


def test_what_cannot_fulfill_an_alias(world: World) -> None:
    host, (alias, promise), buffer = world.host, world.alias((3, 2)), world.put()
    with pytest.raises(PjrtError, match=r"dims=\(3, 2\).*dims=\(2, 3\)"):
        world.fulfill(promise, buffer)
    with pytest.raises(PjrtError, match=r"dims=\(3, 2\).*dims=\(2, 3\)"):
        host.get(alias, X)
    np.testing.assert_array_equal(host.get(buffer, X), X)
    shown, other = world.alias()
    host.call("Buffer_IncreaseExternalReferenceCount", buffer=buffer)
    with pytest.raises(PjrtError, match="the host sees"):
        world.fulfill(other, buffer)
    host.call("Buffer_DecreaseExternalReferenceCount", buffer=buffer)
    with pytest.raises(PjrtError, match="callback is null"):
        world.fulfill(0, buffer)
    world.end(alias, buffer, shown)


def test_an_alias_that_goes_first(world: World) -> None:
    host, (alias, promise), buffer = world.host, world.alias(), world.put()
    world.end(alias)
    world.fulfill(promise, buffer)
    assert host.call("Buffer_IsDeleted", buffer=buffer).is_deleted
    with pytest.raises(PjrtError, match="no handle"):
        world.fulfill(promise, buffer)
    world.end(buffer)


def test_a_donation_waits_for_its_dependency(world: World) -> None:
    host, buffer = world.host, world.put()
    donation = world.donate(buffer)
    assert host.call("Buffer_IsDeleted", buffer=buffer).is_deleted
    (result,) = host.execute(world.twice, [donation.out_buffer], 1)
    assert not world.is_ready(donation.out_buffer)
    assert not world.is_ready(result)
    world.depend(donation)
    np.testing.assert_array_equal(host.get(result, X), 2 * X)
    np.testing.assert_array_equal(host.get(donation.out_buffer, X), X)
    world.end(buffer, donation.out_buffer, result)


def test_a_dependency_that_fails(world: World) -> None:
    buffer = world.put()
    donation = world.donate(buffer)
    world.depend(donation, 10, b"was not agreed")
    with pytest.raises(PjrtError, match="was not agreed") as info:
        world.host.get(donation.out_buffer, X)
    assert info.value.code == 10
    with pytest.raises(PjrtError, match="deleted or donated"):
        world.donate(buffer)
    world.end(buffer, donation.out_buffer)
