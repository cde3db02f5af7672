# SPDX-License-Identifier: Apache-2.0
"""The function table, called as a C host calls it."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from tests.client.pjrt.host import Host, PjrtError, balanced

from ingot.client.pjrt import handles
from ingot.client.pjrt.c_api import API, HEADER_BYTES, INVALID_ARGUMENT, TYPE_CODES, record
from ingot.client.pjrt.plugin import api_address
from ingot.client.pjrt.records import BUFFER, DEVICE, STORAGE
from ingot.runtime.native import machine_memory

pytest.importorskip("jaxlib", reason="it reads MLIR")

X = np.arange(6, dtype=np.float32).reshape(2, 3)

ADD = """
func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.add %x, %y : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
"""
UPDATE = """
func.func @main(%x: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<2x3xf32>)
    -> tensor<2x3xf32> {
  %0 = stablehlo.add %x, %y : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
"""
LONG = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %many = stablehlo.constant dense<300000> : tensor<i32>
  %unit = stablehlo.constant dense<1.0> : tensor<2x3xf32>
  %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<2x3xf32>
    cond {
      %c = stablehlo.compare LT, %i, %many : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %w = stablehlo.add %v, %unit : tensor<2x3xf32>
      stablehlo.return %j, %w : tensor<i32>, tensor<2x3xf32>
    }
  return %r#1 : tensor<2x3xf32>
}
"""


@pytest.fixture(scope="module")
def host() -> Host:
    return Host()


@pytest.fixture(scope="module")
def client(host: Host) -> int:
    return host.client()


@pytest.fixture(scope="module")
def add(host: Host, client: int) -> int:
    return host.compile(client, ADD)


@pytest.fixture(scope="module")
def update(host: Host, client: int) -> int:
    return host.compile(client, UPDATE)


@pytest.fixture
def balance() -> Iterator[None]:
    """Every block that a test takes is given back."""
    with balanced():
        yield


def destroy(host: Host, *buffers: int) -> None:
    for buffer in buffers:
        host.call("Buffer_Destroy", buffer=buffer)


def put(host: Host, client: int, array: np.ndarray) -> int:
    buffer, event = host.put(client, array)
    host.wait(event)
    return buffer


def test_every_slot_is_filled():
    slots = (ctypes.c_void_p * len(API)).from_address(api_address() + HEADER_BYTES)
    assert [name for name, slot in zip(API, slots, strict=True) if not slot] == []
    assert len(API) == 129


def test_devices_say_their_attributes(host: Host, client: int):
    found = host.call("Device_GetAttributes", device=host.device(client))
    assert found.num_attributes == 0
    assert found.attributes_deleter


@pytest.mark.parametrize(("shape", "text"), [((), "{}"), ((2, 3), "{1,0}"), ((1,) * 12, None)])
def test_buffers_have_row_major_layouts(
    host: Host, client: int, add: int, shape: tuple[int, ...], text: str | None, balance: None
):
    buffer = put(host, client, np.ones(shape, np.float32))
    layout = host.call("Layouts_PJRT_Buffer_MemoryLayout", buffer=buffer).layout
    found = host.call("Layouts_MemoryLayout_Serialize", layout=layout)
    data = ctypes.string_at(found.serialized_bytes, found.serialized_bytes_size).decode()
    assert data == text or data == f"{{{','.join(map(str, range(len(shape))[::-1]))}}}"
    host.call("Layouts_MemoryLayout_Destroy", layout=layout)
    destroy(host, buffer)


def test_a_layout_has_at_most_64_axes(host: Host, client: int, add: int):
    name, f32 = "Layouts_PJRT_Client_GetDefaultLayout", TYPE_CODES["f32"]
    assert host.call(name, client=client, type=f32, num_dims=64).layout
    with pytest.raises(PjrtError, match="at most 64 dimensions"):
        host.call(name, client=client, type=f32, num_dims=65)


def test_put_execute_get(host: Host, client: int, add: int, balance: None):
    x, y = put(host, client, X), put(host, client, X * 2)
    (z,) = host.execute(add, [x, y], 1)
    np.testing.assert_array_equal(host.get(z, X), X * 3)
    dims = host.call("Buffer_Dimensions", buffer=z)
    assert list((ctypes.c_int64 * dims.num_dims).from_address(dims.dims)) == [2, 3]
    destroy(host, x, y, z)


@pytest.mark.parametrize("array", [X.T, X[:, ::2], X[::-1], X[:, :0], X[:1], np.float32(3)])
def test_any_strides_come_in(host: Host, client: int, array: np.ndarray, balance: None):
    given = np.asarray(array)
    buffer = put(host, client, given)
    np.testing.assert_array_equal(host.get(buffer, given), given)
    destroy(host, buffer)


def unaligned(size: int, offset: int) -> np.ndarray:
    """Return `size` bytes of ones, `offset` bytes behind the start of a cache line."""
    room = np.ones((size + 128) // 4, np.float32)
    start = (-room.ctypes.data % 64 + offset) // 4
    return room[start : start + size // 4]


def address_of(host: Host, buffer: int) -> int:
    return host.call("Buffer_OpaqueDeviceMemoryDataPointer", buffer=buffer).device_memory_ptr


@pytest.mark.parametrize(("offset", "is_in_place"), [(0, True), (16, True), (4, False)])
def test_aligned_immutable_memory_is_used_in_place(
    host: Host, client: int, offset: int, is_in_place: bool, balance: None
):
    array = unaligned(1 << 18, offset)
    buffer, event = host.put(client, array, semantics=2)
    pointer = address_of(host, buffer)
    assert (pointer == array.ctypes.data) == is_in_place
    assert pointer % 64 == (offset if is_in_place else 0)
    assert host.call("Event_IsReady", event=event).is_ready == (not is_in_place)
    destroy(host, buffer)
    host.wait(event)


LARGE = ADD.replace("2x3", "65536")


@pytest.fixture(scope="module")
def add_large(host: Host, client: int) -> int:
    return host.compile(client, LARGE)


@pytest.mark.parametrize("times", [1, 2])
def test_unaligned_memory_is_left_at_its_second_use(
    host: Host, client: int, add_large: int, times: int, balance: None
):
    """`times`: how often an execution takes the buffer."""
    array = unaligned(1 << 18, 16)
    other = put(host, client, array)
    buffer, event = host.put(client, array, semantics=2)
    for call in range(3):
        (result,) = host.execute(add_large, [buffer, other if times == 1 else buffer], 1)
        np.testing.assert_array_equal(host.get(result, array), 2 * array)
        is_moved = (call + 1) * times > 1
        assert address_of(host, buffer) % 64 == (0 if is_moved else 16)
        # One that reads it twice began the second time while it was in use.
        is_released = is_moved and times == 1
        assert host.call("Event_IsReady", event=event).is_ready == is_released
        destroy(host, result)
    destroy(host, buffer, other)
    host.wait(event)


@pytest.mark.parametrize("asks", ["view", "address"])
def test_unaligned_memory_that_the_host_sees_stays(
    host: Host, client: int, add_large: int, asks: str, balance: None
):
    array = unaligned(1 << 18, 16)
    other = put(host, client, array)
    buffer, event = host.put(client, array, semantics=2)
    if asks == "view":
        host.call("Buffer_IncreaseExternalReferenceCount", buffer=buffer)
    else:
        host.call("Buffer_UnsafePointer", buffer=buffer)
    for _ in range(3):
        destroy(host, *host.execute(add_large, [buffer, other], 1))
        assert address_of(host, buffer) == array.ctypes.data
    if asks == "view":
        host.call("Buffer_DecreaseExternalReferenceCount", buffer=buffer)
        destroy(host, *host.execute(add_large, [buffer, other], 1))
        destroy(host, *host.execute(add_large, [buffer, other], 1))
        assert address_of(host, buffer) % 64 == 0
    destroy(host, buffer, other)
    host.wait(event)


def test_deleted_buffers_are_refused(host: Host, client: int, add: int, balance: None):
    x = put(host, client, X)
    host.call("Buffer_Delete", buffer=x)
    assert host.call("Buffer_IsDeleted", buffer=x).is_deleted
    with pytest.raises(PjrtError, match="deleted or donated"):
        host.execute(add, [x, x], 1)
    with pytest.raises(PjrtError, match="deleted or donated"):
        host.wait(host.call("Buffer_ReadyEvent", buffer=x).event)
    destroy(host, x)


def test_a_donated_buffer_becomes_the_result(host: Host, client: int, update: int, balance: None):
    x, y = put(host, client, X), put(host, client, X)
    data = STORAGE.read(BUFFER.read(x, "storage"), "data")
    (z,) = host.execute(update, [x, y], 1)
    assert STORAGE.read(BUFFER.read(z, "storage"), "data") == data
    assert host.call("Buffer_IsDeleted", buffer=x).is_deleted
    np.testing.assert_array_equal(host.get(z, X), X * 2)
    destroy(host, x, y, z)


def test_a_buffer_that_is_seen_is_not_donated(host: Host, client: int, update: int, balance: None):
    x, y = put(host, client, X), put(host, client, X)
    host.call("Buffer_IncreaseExternalReferenceCount", buffer=x)
    data = host.call("Buffer_OpaqueDeviceMemoryDataPointer", buffer=x).device_memory_ptr
    (z,) = host.execute(update, [x, y], 1)
    seen = np.frombuffer((ctypes.c_uint8 * X.nbytes).from_address(data), np.float32)
    np.testing.assert_array_equal(seen, X.reshape(-1))
    np.testing.assert_array_equal(host.get(z, X), X * 2)
    assert not host.call("Buffer_IsDeleted", buffer=x).is_deleted
    host.call("Buffer_DecreaseExternalReferenceCount", buffer=x)
    destroy(host, x, y, z)


def test_one_buffer_cannot_be_donated_and_used(host: Host, client: int, update: int, balance: None):
    x = put(host, client, X)
    with pytest.raises(PjrtError, match="donate the same buffer twice"):
        host.execute(update, [x, x], 1)
    np.testing.assert_array_equal(host.get(x, X), X)
    destroy(host, x)


def test_long_programs_run_on_the_device_and_results_wait(host: Host, client: int):
    program = host.compile(client, LONG)
    x = put(host, client, X)
    (y,) = host.execute(program, [x], 1)
    (z,) = host.execute(program, [y], 1)
    destroy(host, x, y)
    called = threading.Event()
    callback_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    callback = callback_type(lambda error, user: called.set())
    event = host.call("Buffer_ReadyEvent", buffer=z).event
    address = ctypes.cast(callback, ctypes.c_void_p).value or 0
    host.call("Event_OnReady", event=event, callback=address)
    host.wait(event)
    np.testing.assert_array_equal(host.get(z, X), X + 600000)
    assert called.wait(5)
    destroy(host, z)
    host.call("LoadedExecutable_Destroy", executable=program)
    device = host.device(client)
    while DEVICE.read(device, "unfinished"):
        time.sleep(0.001)


def test_events_of_the_host(host: Host, balance: None):
    event = host.call("Event_Create").event
    assert not host.call("Event_IsReady", event=event).is_ready
    errors: list[str] = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    callback = kind(lambda error, user: errors.append(str(host.failure(error or 0))))
    address = ctypes.cast(callback, ctypes.c_void_p).value or 0
    host.call("Event_OnReady", event=event, callback=address)
    text = b"it broke"
    place = ctypes.create_string_buffer(text)
    host.call(
        "Event_Set",
        event=event,
        error_code=13,
        error_message=ctypes.addressof(place),
        error_message_size=len(text),
    )
    assert errors == ["it broke"]
    with pytest.raises(PjrtError, match="it broke"):
        host.wait(event)


def test_errors_are_diagnostics(host: Host, client: int):
    with pytest.raises(PjrtError, match=r"error\[INGOT0120\]") as info:
        host.compile(client, "this is no program")
    assert info.value.code == 3


def test_slots_keep_a_pending_exception(host: Host, client: int):
    """Hosts destroy objects while an exception is on its way."""

    def fail() -> None:
        try:
            _ = 1 // 0
        finally:
            assert host.call("Client_LookupDevice", client=client, id=0).device

    with pytest.raises(ZeroDivisionError):
        fail()


def test_copies_go_to_any_memory(host: Host, client: int, balance: None):
    x = put(host, client, X)
    memories = host.call("Client_AddressableMemories", client=client)
    count = memories.num_addressable_memories
    places = (ctypes.c_void_p * count).from_address(memories.addressable_memories)
    kinds: list[str] = []
    for place in places:
        kind = host.call("Memory_Kind", memory=place)
        kinds.append(ctypes.string_at(kind.kind, kind.kind_size).decode())
        copy = host.call("Buffer_CopyToMemory", buffer=x, dst_memory=place).dst_buffer
        assert host.call("Buffer_Memory", buffer=copy).memory == place
        np.testing.assert_array_equal(host.get(copy, X), X)
        destroy(host, copy)
    assert kinds == ["device", "pinned_host", "unpinned_host"]
    destroy(host, x)


@pytest.mark.parametrize("kind", [0, 23, 33, 1000, -1])
def test_buffers_of_types_without_elements_are_refused(host: Host, kind: int) -> None:
    client = host.client()
    with pytest.raises(PjrtError, match=f"PJRT_Buffer_Type {kind}"):
        host.call(
            "Client_BufferFromHostBuffer",
            client=client,
            data=X.ctypes.data,
            type=kind,
            device=host.device(client),
        )


def test_serializing_again_gives_the_same_bytes(host: Host) -> None:
    client = host.client()
    executable = host.compile(client, ADD)
    first, second = (
        host.call("Executable_Serialize", executable=executable).serialized_bytes for _ in range(2)
    )
    assert first == second


def test_compiling_for_a_topology_makes_one_client(host: Host) -> None:
    topology = host.call("TopologyDescription_Create").topology
    known = len(handles._objects)  # pyright: ignore[reportPrivateUsage]
    for _ in range(3):
        executable = host.compile_for(topology, ADD)
        host.call("Executable_Destroy", executable=executable)
    client = len(handles._objects) - known  # pyright: ignore[reportPrivateUsage]
    host.compile_for(topology, ADD)
    assert len(handles._objects) - known == client + 1  # pyright: ignore[reportPrivateUsage]


def _deserialize_topology(host: Host, data: bytes) -> int:
    address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
    given = {"serialized_topology": address, "serialized_topology_size": len(data)}
    return host.call("TopologyDescription_Deserialize", **given).topology


def test_a_topology_comes_back_from_its_bytes(host: Host) -> None:
    topology = _deserialize_topology(host, b"2 1")
    made = host.call("TopologyDescription_GetDeviceDescriptions", topology=topology)
    assert made.num_descriptions == 3
    made = host.call("TopologyDescription_Serialize", topology=topology)
    assert ctypes.string_at(made.serialized_bytes, made.serialized_bytes_size) == b"2 1"


@pytest.mark.parametrize("data", [b"", b"two", b"2 -1", b"2 0", b"\xff\x00", b"9" * 5000])
def test_damaged_bytes_are_no_topology(data: bytes, host: Host) -> None:
    with pytest.raises(PjrtError, match="the bytes are no topology") as info:
        _deserialize_topology(host, data)
    assert info.value.code == INVALID_ARGUMENT


def _nested(depth: int) -> str:
    inner = ""
    for number in range(depth):
        before = "%x" if number == 0 else f"%r{number - 1}"
        back = "stablehlo.return"
        inner = (
            f'%r{number} = "stablehlo.if"(%p) ({{ {inner} {back} {before} : tensor<f32> }}, '
            f"{{ {back} %x : tensor<f32> }}) : (tensor<i1>) -> tensor<f32>\n"
        )
    head = "func.func @main(%p: tensor<i1>, %x: tensor<f32>) -> tensor<f32>"
    return f"{head} {{ {inner} return %r{depth - 1} : tensor<f32> }}"


def _chain(length: int) -> str:
    row = "%r{0} = stablehlo.{1} %r{2} : tensor<8xf32>\n"
    names = ("negate", "negate", "sine")
    rows = "".join(row.format(n, names[n % 3], n - 1) for n in range(1, length + 1))
    head = "func.func @main(%r0: tensor<8xf32>) -> tensor<8xf32>"
    return f"{head} {{ {rows} return %r{length} : tensor<8xf32> }}"


@pytest.mark.parametrize("text", [_nested(100), _chain(700)], ids=["nested", "chain"])
def test_short_programs_compile_on_small_stacks(text: str, host: Host, client: int) -> None:
    """They are compiled on the host's own thread; those of jaxlib have 2 MB."""
    compiled: list[int] = []
    before = threading.stack_size(512 << 10)
    try:
        thread = threading.Thread(target=lambda: compiled.append(host.compile(client, text)))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert compiled


@pytest.mark.parametrize("count", [1, 3])
def test_devices_share_the_memory_of_the_machine(host: Host, count: int):
    layout = record("PJRT_NamedValue")
    option, name = layout.structure(), ctypes.create_string_buffer(b"num_devices")
    option.struct_size, option.name, option.name_size = layout.size, ctypes.addressof(name), 11
    option.type, option.value, option.value_size = 1, count, 1
    made = host.call("Client_Create", create_options=ctypes.addressof(option), num_options=1)
    for number in range(count):
        device = host.call("Client_LookupDevice", client=made.client, id=number).device
        found = host.call("Device_MemoryStats", device=device)
        assert found.bytes_limit_is_set == found.bytes_reservable_limit_is_set == 1
        assert found.bytes_limit == found.bytes_reservable_limit == machine_memory() // count
