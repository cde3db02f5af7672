# SPDX-License-Identifier: Apache-2.0
"""Buffers, parameters and results in layouts that the host chose, called as a C host calls it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.client.pjrt.host import Host, OneDevice, PjrtError, balanced

from ingot.client.pjrt.c_api import LAYOUTS, TYPE_CODES, UNIMPLEMENTED, record
from ingot.client.pjrt.layouts import dense_order

pytest.importorskip("jaxlib", reason="it reads MLIR")

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
DIMS = (ctypes.c_int64 * 3)(*X.shape)
ORDER = (0, 2, 1)
"""Minor to major: axis 0 has the smallest stride."""
STORED = np.ascontiguousarray(X.transpose(1, 2, 0))
NEGATE = """
func.func @main(%x: tensor<2x3x4xf32> {mhlo.layout_mode = "{0,2,1}"})
    -> (tensor<2x3x4xf32> {mhlo.layout_mode = "RESULT"}) {
  %0 = stablehlo.negate %x : tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}
"""
RESULTS = {"{0,2,1}": ORDER, "auto": ORDER, "default": (2, 1, 0), "{1,2,0}": (1, 2, 0)}


class Layout:
    """A PJRT_Buffer_MemoryLayout."""

    def __init__(self, order: tuple[int, ...], strides: bool = False, tiles: int = 0) -> None:
        self.words = (ctypes.c_int64 * len(order))(*order)
        self.record = record("PJRT_Buffer_MemoryLayout").structure()
        self.record.minor_to_major = ctypes.addressof(self.words)
        self.record.minor_to_major_size = len(order)
        self.record.layout_type, self.record.num_tiles = int(strides), tiles
        self.address = ctypes.addressof(self.record)


class World(OneDevice):
    """A client, and buffers with the values of X."""

    def put(self, layout: Layout, data: np.ndarray = X) -> int:
        strides = (ctypes.c_int64 * 3)(*data.strides)
        made = self.host.call(
            "Client_BufferFromHostBuffer",
            client=self.client,
            data=data.ctypes.data,
            type=TYPE_CODES["f32"],
            dims=ctypes.addressof(DIMS),
            num_dims=3,
            byte_strides=ctypes.addressof(strides),
            num_byte_strides=3,
            device=self.device,
            device_layout=layout.address,
        )
        self.host.wait(made.done_with_host_buffer)
        return made.buffer

    def view(self, data: np.ndarray, layout: Layout, **fields: int) -> int:
        return self.host.call(
            "Client_CreateViewOfDeviceBuffer",
            client=self.client,
            device_buffer_ptr=data.ctypes.data,
            dims=ctypes.addressof(DIMS),
            num_dims=3,
            element_type=TYPE_CODES["f32"],
            layout=layout.address,
            device=self.device,
            **fields,
        ).buffer

    def read(self, buffer: int, layout: Layout) -> np.ndarray:
        """Return the data as it is written for a host's layout."""
        result = np.empty(X.size, np.float32)
        given = {"dst": result.ctypes.data, "host_layout": layout.address}
        self.host.wait(self.host.call("Buffer_ToHostBuffer", src=buffer, **given).event)
        return result

    def layout(self, buffer: int) -> str:
        made = self.host.call("Layouts_PJRT_Buffer_MemoryLayout", buffer=buffer).layout
        found = self.host.call("Buffer_GetMemoryLayout", buffer=buffer)
        words = (ctypes.c_int64 * 3).from_address(found.minor_to_major)
        text = self.text(made)
        assert text == f"{{{','.join(map(str, words))}}}"
        return text

    def text(self, layout: int) -> str:
        found = self.host.call("Layouts_MemoryLayout_Serialize", layout=layout)
        return ctypes.string_at(found.serialized_bytes, found.serialized_bytes_size).decode()

    def check(self, buffer: int, order: tuple[int, ...] = ORDER, sign: int = 1) -> None:
        """The buffer has this layout, and the values of X in every layout of the host."""
        assert self.layout(buffer) == f"{{{','.join(map(str, order))}}}"
        dims = self.host.call("Buffer_Dimensions", buffer=buffer)
        assert list((ctypes.c_int64 * 3).from_address(dims.dims)) == [2, 3, 4]
        for wanted in ((2, 1, 0), ORDER, (1, 2, 0)):
            expected = sign * X.transpose(wanted[::-1]).reshape(-1)
            np.testing.assert_array_equal(self.read(buffer, Layout(wanted)), expected)
        raw = self.host.get(buffer, np.empty(X.size, np.float32))
        np.testing.assert_array_equal(raw, sign * X.transpose(order[::-1]).reshape(-1))

    def destroy(self, *buffers: int) -> None:
        for buffer in buffers:
            self.host.call("Buffer_Destroy", buffer=buffer)


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.fixture
def balance() -> Iterator[None]:
    with balanced():
        yield


def test_hosts_find_layouts_when_they_make_a_client() -> None:
    assert LAYOUTS in Host().extensions()


@pytest.mark.parametrize("data", [X, np.asfortranarray(X), np.repeat(X, 2, axis=2)[:, :, ::2]])
def test_arrays_come_in_any_strides(world: World, data: np.ndarray, balance: None) -> None:
    world.layout(first := world.put(Layout(ORDER)))
    buffer = world.put(Layout(ORDER), data)
    world.check(buffer)
    world.destroy(first, buffer)


def test_copies_and_donations_keep_the_layout(world: World, balance: None) -> None:
    buffer = world.put(Layout(ORDER))
    copy = world.host.call("Buffer_CopyToDevice", buffer=buffer, dst_device=world.device)
    other = world.host.call("Buffer_CopyToMemory", buffer=buffer, dst_memory=world.memory)
    made = world.host.call("Buffer_DonateWithControlDependency", buffer=buffer)
    ready: Any = record("PJRT_Buffer_DonateWithControlDependency_Callback").structure()
    ready.callback_data = made.callback_data
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    kind(made.dependency_ready_callback)(ctypes.addressof(ready))
    for each in (copy.dst_buffer, other.dst_buffer, made.out_buffer):
        world.check(each)
    world.destroy(buffer, copy.dst_buffer, other.dst_buffer, made.out_buffer)


def test_an_alias_gets_memory_of_its_layout_only(world: World, balance: None) -> None:
    shape = {
        "shape_dims": ctypes.addressof(DIMS),
        "shape_num_dims": 3,
        "shape_element_type": TYPE_CODES["f32"],
        "shape_layout": Layout(ORDER).address,
    }
    plain, stored = world.put(Layout((2, 1, 0))), world.put(layout := Layout(ORDER))
    shape["shape_layout"] = layout.address
    for given in (plain, stored):
        made = world.host.call(
            "Client_CreateAliasBuffer", client=world.client, memory=world.memory, **shape
        )
        fulfilled, error = world.host.raw(
            "Client_FulfillAliasBuffer",
            client=world.client,
            buffer=given,
            fulfill_alias_buffer_cb=made.fulfill_alias_buffer_cb,
        )
        assert fulfilled is not None
        if given is stored:
            assert not error
            world.check(made.alias_buffer)
        else:
            assert "order" in str(world.host.failure(error))
        world.destroy(made.alias_buffer)
    world.destroy(plain, stored)


def test_memory_of_others_is_used_in_place_if_it_is_dense(world: World, balance: None) -> None:
    given_back: list[int] = []
    release = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
        lambda data, context: given_back.append(context)
    )
    callback = ctypes.cast(release, ctypes.c_void_p).value or 0
    stored, sparse = STORED.copy(), np.repeat(X, 2, axis=2)
    in_place = [
        world.view(stored, Layout(ORDER), on_delete_callback=callback, on_delete_callback_arg=1),
        world.view(stored, Layout((4, 32, 8), strides=True)),
    ]
    for buffer in in_place:
        world.check(buffer)
        pointer = world.host.call("Buffer_OpaqueDeviceMemoryDataPointer", buffer=buffer)
        assert pointer.device_memory_ptr == stored.ctypes.data
    assert not given_back
    strides = Layout((96, 32, 8), strides=True)
    copy = world.view(sparse, strides, on_delete_callback=callback, on_delete_callback_arg=7)
    assert given_back == [7]
    world.check(copy, (2, 1, 0))
    world.destroy(copy, *in_place)
    assert given_back == [7, 1]


def test_a_manager_fills_buffers_in_their_layout(world: World, balance: None) -> None:
    spec = record("PJRT_ShapeSpec").structure()
    spec.dims, spec.num_dims = ctypes.addressof(DIMS), 3
    spec.element_type = TYPE_CODES["f32"]
    layout, name = Layout(ORDER), "AsyncHostToDeviceTransferManager"
    layouts = (ctypes.c_void_p * 1)(layout.address)
    manager = world.host.call(
        "Client_CreateBuffersForAsyncHostToDevice",
        client=world.client,
        shape_specs=ctypes.addressof(spec),
        num_shape_specs=1,
        device_layouts=ctypes.addressof(layouts),
        num_device_layouts=1,
        memory=world.memory,
    ).transfer_manager
    sent = world.host.call(
        f"{name}_TransferLiteral",
        transfer_manager=manager,
        data=X.ctypes.data,
        shape_dims=ctypes.addressof(DIMS),
        shape_num_dims=3,
        shape_element_type=TYPE_CODES["f32"],
    )
    world.host.wait(sent.done_with_h2d_transfer)
    buffer = world.host.call(f"{name}_RetrieveBuffer", transfer_manager=manager).buffer_out
    world.check(buffer)
    world.host.call(f"{name}_Destroy", transfer_manager=manager)
    world.destroy(buffer)


@pytest.mark.parametrize("wanted", RESULTS)
def test_programs_take_and_give_layouts(world: World, wanted: str) -> None:
    executable = world.host.compile(world.client, NEGATE.replace("RESULT", wanted))
    given = world.host.call("Layouts_PJRT_Executable_GetParameterLayouts", executable=executable)
    made = world.host.call("Layouts_PJRT_Executable_GetOutputLayouts", executable=executable)
    texts = [world.text(ctypes.c_uint64.from_address(each.layouts).value) for each in (given, made)]
    assert texts == ["{0,2,1}", f"{{{','.join(map(str, RESULTS[wanted]))}}}"]
    with balanced():
        buffer = world.put(Layout(ORDER))
        (result,) = world.host.execute(executable, [buffer], 1)
        world.check(result, RESULTS[wanted], -1)
        world.destroy(buffer, result)


def test_arguments_in_another_layout_are_refused(world: World) -> None:
    executable = world.host.compile(world.client, NEGATE.replace("RESULT", "auto"))
    with balanced():
        buffer = world.put(Layout((2, 1, 0)))
        with pytest.raises(PjrtError, match="has another layout than the parameter"):
            world.host.execute(executable, [buffer], 1)
        world.destroy(buffer)


@pytest.mark.parametrize(
    "layout",
    [Layout(ORDER, tiles=1), Layout((4, 8, 24), strides=True), Layout((0, 1)), Layout((0, 1, 1))],
)
def test_buffers_are_dense_in_an_order_of_the_dimensions(world: World, layout: Layout) -> None:
    with pytest.raises(PjrtError, match="cannot have the layout") as caught:
        world.put(layout)
    assert caught.value.code == UNIMPLEMENTED


@pytest.mark.parametrize(
    ("dims", "strides", "order"),
    [
        ([2, 3], [12, 4], (1, 0)),
        ([2, 3], [4, 8], (0, 1)),
        ([2, 3], [24, 8], None),
        ([2, 3], [0, 4], None),
        ([2, 3], [-12, 4], None),
        ([4, 1], [4, 4], (1, 0)),
        ([1, 4], [999, 4], (1, 0)),
        ([], [], ()),
    ],
)
def test_dense_arrays_have_an_order(
    dims: list[int], strides: list[int], order: tuple[int, ...] | None
) -> None:
    assert dense_order(dims, strides, 4) == order
