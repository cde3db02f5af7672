# SPDX-License-Identifier: Apache-2.0
"""The host's key-value store, by which the processes of a program find each other.

PJRT_Client_Create gets two functions of the host: one stores a value, one waits for a value.
Invariant: they are called only while a client is created.

Source: xla/pjrt/c/pjrt_c_api.h (PJRT_KeyValueGetCallback, PJRT_KeyValuePutCallback).
"""

from __future__ import annotations

import ctypes
from typing import Any

from ingot.client.pjrt.c_api import record
from ingot.client.pjrt.handles import read_bytes
from ingot.support.diagnostics import ExecutionError

_MAKE_ERROR = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t
)
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_DELETE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_FAILED = 1
"""The handle that the host gets for an error: any address but null."""


class KeyValues:
    """The store of one client."""

    def __init__(self, args: Any) -> None:
        """Take the functions of PJRT_Client_Create's arguments."""
        self._args = args
        self._error = ""
        self._make_error = _MAKE_ERROR(self._note)
        self._cell = ctypes.c_void_p(ctypes.cast(self._make_error, ctypes.c_void_p).value)

    def _note(self, _: int, message: Any, size: int) -> int:
        self._error = ctypes.string_at(message, size).decode(errors="replace")
        return _FAILED

    def put(self, key: str, value: str) -> None:
        """Set a key that has not been set before.

        Raises:
            ExecutionError: INGOT0518, the host could not.
        """
        args, _kept = self._arguments("PJRT_KeyValuePutCallback", key)
        data = value.encode()
        args.value, args.value_size = _address(data), len(data)
        args.user_arg = self._args.kv_put_user_arg
        self._call(self._args.kv_put_callback, args, key)

    def get(self, key: str, seconds: float) -> str:
        """Wait until a key is set; return its value.

        Raises:
            ExecutionError: INGOT0518, the key was not set in time.
        """
        args, _kept = self._arguments("PJRT_KeyValueGetCallback", key)
        args.timeout_in_ms = int(seconds * 1000)
        args.user_arg = self._args.kv_get_user_arg
        self._call(self._args.kv_get_callback, args, key)
        value = read_bytes(args.value, args.value_size).decode()
        if args.value_deleter_callback:
            _DELETE(args.value_deleter_callback)(args.value)
        return value

    def _arguments(self, name: str, key: str) -> tuple[Any, bytes]:
        """Return the arguments of a callback, and the bytes that must live as long as they."""
        structure = record(name).structure
        args, data = structure(), key.encode()
        args.struct_size = ctypes.sizeof(structure)
        args.key, args.key_size = _address(data), len(data)
        args.callback_error = ctypes.addressof(self._cell)
        return args, data

    def _call(self, callback: int, args: Any, key: str) -> None:
        if _CALLBACK(callback)(ctypes.addressof(args)):
            raise ExecutionError(
                f"the processes of this program cannot find each other: '{key}': {self._error}",
                code="INGOT0518",
                hint="every process must make its client: call jax.devices() in each",
            )


def _address(data: bytes) -> int:
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
