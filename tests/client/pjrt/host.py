# SPDX-License-Identifier: Apache-2.0
"""A small PJRT host in Python: calls the function table as a C program would."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ingot.client.pjrt.c_api import API, EXTENSIONS, HEADER_BYTES, TYPE_CODES, record
from ingot.client.pjrt.plugin import api_address
from ingot.client.pjrt.records import DEVICE
from ingot.formats.hlo_proto.wire import encode
from ingot.runtime.native import allocator_statistics

Array = np.ndarray[Any, Any]


class PjrtError(Exception):
    """A PJRT_Error, with its code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def balanced(device: int = 0) -> Iterator[None]:
    """Every block that is taken inside is given back, once `device` has nothing left to do."""
    before = allocator_statistics()
    yield
    while device and DEVICE.read(device, "unfinished"):
        time.sleep(0.001)
    after = allocator_statistics()
    assert after.allocations - after.frees == before.allocations - before.frees


def _words(address: int, count: int) -> list[int]:
    return list((ctypes.c_uint64 * count).from_address(address))


def _functions(names: list[str], address: int) -> dict[str, Any]:
    kind = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    return dict(zip(names, map(kind, _words(address, len(names))), strict=True))


class Host:
    """Calls slots by name; arguments and results are fields of the argument structs."""

    def __init__(self, api: int = 0) -> None:
        self._table = api or api_address()
        self._slots = _functions(API, self._table + HEADER_BYTES)
        self.extensions()

    def extensions(self) -> list[int]:
        """Take over the functions of the extensions that there are now; return their types."""
        found: list[int] = []
        _, extension = _words(self._table, 2)
        while extension:
            _, kind, following = _words(extension, 3)
            found.append(kind & 0xFFFFFFFF)
            self._slots |= _functions(EXTENSIONS.get(found[-1], []), extension + 24)
            extension = following
        return found

    def raw(self, name: str, **fields: int) -> tuple[Any, int]:
        """Call a slot; return its arguments and the error's address."""
        layout = record(f"PJRT_{name}")
        arguments = layout.structure()
        arguments.struct_size = layout.size
        for field, value in fields.items():
            setattr(arguments, field, value)
        return arguments, self._slots[f"PJRT_{name}"](ctypes.addressof(arguments)) or 0

    def call(self, name: str, **fields: int) -> Any:
        """Call a slot; PjrtError if it returns an error."""
        arguments, error = self.raw(name, **fields)
        if error:
            raise self.failure(error)
        return arguments

    def failure(self, error: int) -> PjrtError:
        """Return the exception for an error, which is destroyed."""
        text = self.raw("Error_Message", error=error)[0]
        code = self.raw("Error_GetCode", error=error)[0].code
        message = ctypes.string_at(text.message, text.message_size).decode()
        self.raw("Error_Destroy", error=error)
        return PjrtError(code, message)

    def client(self) -> int:
        """Return a new client."""
        return self.call("Client_Create").client

    def device(self, client: int) -> int:
        """Return the first device."""
        return self.call("Client_LookupDevice", client=client, id=0).device

    def compile(self, client: int, text: str, options: bytes = b"") -> int:
        """Compile StableHLO text; `options` is a serialized CompileOptionsProto."""
        data = ctypes.create_string_buffer(options, len(options) + 1)
        at = {"compile_options": ctypes.addressof(data), "compile_options_size": len(options)}
        return self._compile("Client_Compile", text, client=client, **at)

    def compile_for(self, topology: int, text: str) -> int:
        """Compile StableHLO text for a topology."""
        return self._compile("Compile", text, topology=topology)

    def _compile(self, slot: str, text: str, **place: int) -> int:
        code, form = (
            ctypes.create_string_buffer(text.encode()),
            ctypes.create_string_buffer(b"mlir"),
        )
        program = record("PJRT_Program").structure()
        program.code, program.code_size = ctypes.addressof(code), len(text)
        program.format, program.format_size = ctypes.addressof(form), 4
        at = ctypes.addressof(program)
        executable = self.call(slot, program=at, **place).executable
        self.extensions()
        return executable

    def put(self, client: int, array: Array, semantics: int = 0) -> tuple[int, int]:
        """Return a buffer with the array's data, and when the host may reuse its memory."""
        dims = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
        strides = (ctypes.c_int64 * max(1, array.ndim))(*array.strides)
        done = self.call(
            "Client_BufferFromHostBuffer",
            client=client,
            data=array.ctypes.data,
            type=TYPE_CODES[_NAMES[array.dtype.name]],
            dims=ctypes.addressof(dims),
            num_dims=array.ndim,
            byte_strides=ctypes.addressof(strides),
            num_byte_strides=array.ndim,
            host_buffer_semantics=semantics,
            device=self.device(client),
        )
        return done.buffer, done.done_with_host_buffer

    def get(self, buffer: int, like: Array) -> Array:
        """Return the data of a buffer as an array like `like`."""
        result = np.empty_like(like, order="C")
        event = self.call("Buffer_ToHostBuffer", src=buffer, dst=result.ctypes.data).event
        self.wait(event)
        return result

    def wait(self, event: int) -> None:
        """Wait for an event; PjrtError if it failed. The event is destroyed."""
        _, error = self.raw("Event_Await", event=event)
        self.call("Event_Destroy", event=event)
        if error:
            raise self.failure(error)

    def execute(
        self, executable: int, buffers: list[int], num_outputs: int, launch_id: int = 0
    ) -> list[int]:
        """Run on one device; return the results' buffers."""
        options = record("PJRT_ExecuteOptions").structure()
        options.launch_id = launch_id
        inputs = (ctypes.c_void_p * max(1, len(buffers)))(*buffers)
        outputs = (ctypes.c_void_p * max(1, num_outputs))()
        lists = [(ctypes.c_void_p * 1)(ctypes.addressof(part)) for part in (inputs, outputs)]
        self.call(
            "LoadedExecutable_Execute",
            executable=executable,
            options=ctypes.addressof(options),
            argument_lists=ctypes.addressof(lists[0]),
            num_devices=1,
            num_args=len(buffers),
            output_lists=ctypes.addressof(lists[1]),
        )
        return [int(address or 0) for address in outputs][:num_outputs]


_NAMES = {"float32": "f32", "float64": "f64", "int32": "s32", "bool": "pred", "int8": "s8"}


class OneDevice:
    """A host with a client, the first of its devices and the memory of that."""

    def __init__(self) -> None:
        self.host = Host()
        self.client = self.host.client()
        self.device = self.host.device(self.client)
        self.memory = DEVICE.read(self.device, "default_memory")


class Replicas:
    """A client of several devices, and a program for all of them, one replica each."""

    def __init__(self, text: str, count: int) -> None:
        """Compile a program for the client's devices, of which there are `count`."""
        self.host = Host()
        self.client = self.host.client()
        devices = self.host.call("Client_Devices", client=self.client)
        self.devices = _words(devices.devices, devices.num_devices)
        options = {"executable_build_options": {"num_replicas": count}}
        self.program = self.host.compile(self.client, text, encode(options, "CompileOptionsProto"))

    def put(self, array: Array, device: int) -> int:
        """Return a buffer with a copy of an array on one of the devices, by its number."""
        buffer, event = self.host.put(self.client, array)
        self.host.wait(event)
        made = self.host.call(
            "Buffer_CopyToDevice", buffer=buffer, dst_device=self.devices[device]
        ).dst_buffer
        self.host.call("Buffer_Destroy", buffer=buffer)
        return int(made)

    def launch(self, buffers: Sequence[int], num_devices: int = 0, events: int = 0) -> list[int]:
        """Run the program, of one argument and result; return the results' buffers.

        Args:
            buffers: the argument of each device.
            num_devices: as the host says; default: as many.
            events: the address of where each device's event is stored, or 0.
        """
        rows = [(ctypes.c_uint64 * 1)(buffer) for buffer in buffers]
        results = [(ctypes.c_uint64 * 1)() for _ in buffers]
        count = max(len(buffers), len(self.devices))
        lists = [
            (ctypes.c_uint64 * count)(*map(ctypes.addressof, side)) for side in (rows, results)
        ]
        self.host.call(
            "LoadedExecutable_Execute",
            executable=self.program,
            argument_lists=ctypes.addressof(lists[0]),
            num_devices=num_devices or len(buffers),
            num_args=1,
            output_lists=ctypes.addressof(lists[1]),
            device_complete_events=events,
        )
        return [row[0] for row in results]
