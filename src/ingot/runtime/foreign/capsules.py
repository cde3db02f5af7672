# SPDX-License-Identifier: Apache-2.0
"""Addresses of native code that Python has in capsules or ctypes functions."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from ingot.support.diagnostics import ArgumentError

_FUNCTION: Any = ctypes.CFUNCTYPE(None).__base__
"""The base class of ctypes functions."""


def capsule_name(capsule: Any) -> bytes:
    """Return the name of a capsule, which tells the type of its pointer."""
    return _functions()[0](capsule) or b""


def capsule_address(capsule: Any) -> int:
    """Return the pointer of a capsule, whatever its name."""
    get_name, get_pointer = _functions()
    return int(get_pointer(capsule, get_name(capsule)))


def native_address(function: Any) -> int:
    """Return the address of native code: a number, a capsule, or a ctypes function.

    Raises:
        ArgumentError: `function` is none of them.
    """
    address = 0
    if isinstance(function, int):
        address = function
    elif type(function).__name__ == "PyCapsule":
        address = capsule_address(function)
    elif isinstance(function, _FUNCTION | ctypes.c_void_p):
        address = ctypes.cast(function, ctypes.c_void_p).value or 0
    if not address:
        kinds = "the address of a function, a ctypes function, or a capsule"
        raise ArgumentError(f"a native target is {kinds}, not {function!r}")
    return address


@cache
def _functions() -> tuple[Any, Any]:
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get_name, get_pointer
