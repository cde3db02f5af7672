# SPDX-License-Identifier: Apache-2.0
"""The functions that an XLA FFI handler may call back: one table for the process.

They are about errors, futures, per-call-site state, scratch memory and the thread pool. They are
Python functions behind C callbacks: handlers call them rarely, and without the GIL.

Handles are numbers that look like pointers. Invariant: every function returns null or an error,
which the handler (or the adapter) frees by `Error_Destroy` or `take_error_text`.

Source: xla/ffi/api/c_api.h; xla/ffi/ffi_api.cc.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import field
from functools import cache
from itertools import count
from typing import Any

from ingot.artifact.abi import DATA_ALIGNMENT
from ingot.native.layout import Field, Record
from ingot.runtime.foreign.collectives.rendezvous import device_number
from ingot.runtime.foreign.ffi.records import (
    API_MAJOR,
    API_MINOR,
    API_VERSION,
    CONTEXT,
    ERROR_CODES,
)
from ingot.runtime.native import native_runtime
from ingot.support.records import fresh, mutable

FUNCTIONS = (
    "Error_Create", "Error_GetMessage", "Error_Destroy", "Handler_Register", "Stream_Get",
    "Type_Register", "ExecutionContext_Get", "State_Set", "State_Get", "DeviceMemory_Allocate",
    "DeviceMemory_Free", "ThreadPool_Schedule", "ThreadPool_NumThreads", "Future_Create",
    "Future_SetAvailable", "Future_SetError", "RunId_Get", "DeviceOrdinal_Get",
)  # fmt: skip
"""The table's functions in the header's order."""

API = Record(
    "XLA_FFI_Api",
    Field("struct_size", "i64"),
    Field("extension_start", "ptr"),
    Field("api_version", "i64", count=API_VERSION.size // 8),
    Field("internal_api", "ptr"),
    *(Field(name, "ptr") for name in FUNCTIONS),
)


def _arguments(*fields: tuple[str, str]) -> Record:
    head = (Field("struct_size", "i64"), Field("extension_start", "ptr"))
    return Record("Args", *head, *(Field(name, kind) for name, kind in fields))


_CODE = {name: number for number, name in enumerate(ERROR_CODES)}
_CONTEXT = ("ctx", "ptr")


@mutable
class Future:
    """A result that a handler delivers later."""

    done: threading.Event = field(default_factory=threading.Event)
    error: int = 0


@mutable
class Tables:
    """The objects that handles stand for; `tables()` is the process's only one."""

    numbers: Any = field(default_factory=lambda: count(1))
    errors: dict[int, tuple[int, bytes]] = fresh(factory=dict)
    futures: dict[int, Future] = fresh(factory=dict)
    states: dict[tuple[int, int], int] = fresh(factory=dict)
    types: dict[str, int] = fresh(factory=dict)
    deleters: dict[int, int] = fresh(factory=dict)
    state_types: dict[tuple[int, int], int] = fresh(factory=dict)

    def error(self, code: str, message: str) -> int:
        """Return the handle of a new error."""
        number = next(self.numbers)
        self.errors[number] = (_CODE[code], message.encode())
        return number

    def take_error_text(self, handle: int) -> str:
        """Return the text of an error, and free it."""
        code, message = self.errors.pop(handle, (_CODE["UNKNOWN"], b"an error without a text"))
        return f"{ERROR_CODES[code]}: {message.decode(errors='replace')}"

    def release(self, site: int) -> None:
        """Destroy the state of a call site whose program is gone."""
        # A copy: this runs when a program is collected, while others may set states.
        for key in [key for key in list(self.states) if key[0] == site]:
            state = self.states.pop(key)
            deleter = self.deleters.get(self.state_types.pop(key, 0))
            if deleter:
                ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(state)


@cache
def tables() -> Tables:
    """Return the objects that the handles of this process stand for."""
    return Tables()


def _error_create(args: Any) -> int:
    number = next(tables().numbers)
    code = args.errc if 0 <= args.errc < len(ERROR_CODES) else _CODE["UNKNOWN"]
    text = ctypes.cast(args.message, ctypes.c_char_p).value or b""
    tables().errors[number] = (code, text)
    return number


def _error_get_message(args: Any) -> int:
    _, text = tables().errors.get(args.error, (0, b""))
    # The bytes object lives in the table, and ends with a zero byte.
    args.message = ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p).value or 0
    return 0


def _error_destroy(args: Any) -> int:
    tables().errors.pop(args.error, None)
    return 0


def _handler_register(args: Any) -> int:
    return tables().error(
        "UNIMPLEMENTED", "register handlers with ingot.register_custom_call_target"
    )


def _stream_get(args: Any) -> int:
    return tables().error("UNIMPLEMENTED", "the CPU has no streams")


def _type_register(args: Any) -> int:
    name = ctypes.string_at(args.name_ptr, args.name_len).decode()
    held = ctypes.c_int64.from_address(args.type_id)
    known = tables().types
    if name in known and held.value not in (0, known[name]):
        return tables().error("INVALID_ARGUMENT", f"type '{name}' has another id")
    known.setdefault(name, held.value or next(tables().numbers))
    held.value = known[name]
    if args.type_info:
        deleter = ctypes.c_void_p.from_address(args.type_info + 16).value
        tables().deleters[held.value] = deleter or 0
    return 0


def _execution_context_get(args: Any) -> int:
    return tables().error("NOT_FOUND", "the execution context holds no data of this type")


def _state_key(args: Any) -> tuple[int, int]:
    return CONTEXT.read(args.ctx, "site"), int(args.stage)


def _state_set(args: Any) -> int:
    key = _state_key(args)
    if key in tables().states:
        return tables().error("FAILED_PRECONDITION", "the state is already set")
    tables().states[key] = args.state
    tables().state_types[key] = ctypes.c_int64.from_address(args.type_id).value
    return 0


def _state_get(args: Any) -> int:
    key = _state_key(args)
    if key not in tables().states:
        return tables().error("NOT_FOUND", "the state is not set")
    if tables().state_types[key] != ctypes.c_int64.from_address(args.type_id).value:
        return tables().error("INVALID_ARGUMENT", "the state has another type")
    args.state = tables().states[key]
    return 0


def _memory_allocate(args: Any) -> int:
    if args.alignment > DATA_ALIGNMENT:
        text = f"memory is aligned to {DATA_ALIGNMENT} bytes, not to {args.alignment}"
        return tables().error("INVALID_ARGUMENT", text)
    allocate = native_runtime().function("ingot_allocate", ctypes.c_void_p, ctypes.c_int64)
    args.data = allocate(args.size) or 0
    if not args.data:
        return tables().error("RESOURCE_EXHAUSTED", f"no memory for {args.size} bytes")
    return 0


def _memory_free(args: Any) -> int:
    native_runtime().function("ingot_free", None, ctypes.c_void_p)(args.data)
    return 0


def _schedule(args: Any) -> int:
    # Allowed by the header: a task may run in the caller's thread.
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(args.task)(args.data)
    return 0


def _num_threads(args: Any) -> int:
    ctypes.c_int64.from_address(args.num_threads).value = 1
    return 0


def _future_create(args: Any) -> int:
    number = next(tables().numbers)
    tables().futures[number] = Future()
    args.future = number
    return 0


def _future_set_available(args: Any) -> int:
    tables().futures[args.future].done.set()
    return 0


def _future_set_error(args: Any) -> int:
    future = tables().futures[args.future]
    future.error = args.error
    future.done.set()
    return 0


def _run_id(args: Any) -> int:
    args.run_id = args.ctx
    return 0


def _device_ordinal(args: Any) -> int:
    args.device_ordinal = device_number(CONTEXT.read(args.ctx, "runtime"))
    return 0


_FUTURE = ("future", "ptr")
_STATE = (_CONTEXT, ("stage", "i32"), ("type_id", "ptr"), ("state", "ptr"))
_TABLE: dict[str, tuple[Callable[[Any], int], Record]] = {
    "Error_Create": (_error_create, _arguments(("message", "ptr"), ("errc", "i32"))),
    "Error_GetMessage": (_error_get_message, _arguments(("error", "ptr"), ("message", "ptr"))),
    "Error_Destroy": (_error_destroy, _arguments(("error", "ptr"))),
    "Handler_Register": (_handler_register, _arguments()),
    "Stream_Get": (_stream_get, _arguments(_CONTEXT, ("stream", "ptr"))),
    "Type_Register": (
        _type_register,
        _arguments(
            ("name_ptr", "ptr"), ("name_len", "i64"), ("type_id", "ptr"), ("type_info", "ptr")
        ),
    ),
    "ExecutionContext_Get": (
        _execution_context_get, _arguments(_CONTEXT, ("type_id", "ptr"), ("data", "ptr")),
    ),
    "State_Set": (_state_set, _arguments(*_STATE)),
    "State_Get": (_state_get, _arguments(*_STATE)),
    "DeviceMemory_Allocate": (
        _memory_allocate,
        _arguments(_CONTEXT, ("size", "i64"), ("alignment", "i64"), ("data", "ptr")),
    ),
    "DeviceMemory_Free": (_memory_free, _arguments(_CONTEXT, ("size", "i64"), ("data", "ptr"))),
    "ThreadPool_Schedule": (_schedule, _arguments(_CONTEXT, ("task", "ptr"), ("data", "ptr"))),
    "ThreadPool_NumThreads": (_num_threads, _arguments(_CONTEXT, ("num_threads", "ptr"))),
    "Future_Create": (_future_create, _arguments(_FUTURE)),
    "Future_SetAvailable": (_future_set_available, _arguments(_FUTURE)),
    "Future_SetError": (_future_set_error, _arguments(_FUTURE, ("error", "ptr"))),
    "RunId_Get": (_run_id, _arguments(_CONTEXT, ("run_id", "i64"))),
    "DeviceOrdinal_Get": (_device_ordinal, _arguments(_CONTEXT, ("device_ordinal", "i32"))),
}  # fmt: skip

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


@cache
def _api_memory() -> tuple[Any, list[Any]]:
    table = API.structure(API.size, 0)
    version = API_VERSION.structure(API_VERSION.size, 0, API_MAJOR, API_MINOR)
    version_address = ctypes.addressof(table) + API.offset("api_version")
    ctypes.memmove(version_address, ctypes.addressof(version), API_VERSION.size)
    callbacks: list[Any] = []
    for name, (function, record) in _TABLE.items():
        callback = _CALLBACK(_entered(function, record))
        callbacks.append(callback)
        setattr(table, name, ctypes.cast(callback, ctypes.c_void_p).value or 0)
    return table, callbacks


def _entered(function: Callable[[Any], int], record: Record) -> Callable[[int], int]:
    """Return the callback: the arguments' structure to a handle (0 is success)."""

    def call(address: int) -> int:
        try:
            return function(record.structure.from_address(address))
        except BaseException as error:  # A callback must not raise into machine code.
            return tables().error("INTERNAL", f"{type(error).__name__}: {error}")

    return call


def api_address() -> int:
    """Return the address of the process's `XLA_FFI_Api`."""
    return ctypes.addressof(_api_memory()[0])
