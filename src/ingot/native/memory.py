# SPDX-License-Identifier: Apache-2.0
"""Memory in plain Python: values of native types at real addresses.

`pointers` is above it. Invariants: values are checked against the declared type when they are
stored, passed or returned; the stack memory of a function lives until it returns.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

from ingot.native.types import (
    BOOL,
    FunctionType,
    IntegerType,
    Known,
    NativeType,
    PointerType,
    is_known,
    type_text,
)

_C_TYPES: dict[int, Any] = {8: ctypes.c_int8, 32: ctypes.c_int32, 64: ctypes.c_int64}

function_at: dict[int, Callable[..., Any]] = {}
"""The Python functions that run when the address of a function is called."""


class _Stack(threading.local):
    """The stack memory of the functions that this thread runs as plain Python."""

    def __init__(self) -> None:
        self.frames: list[list[object]] = []


_stack = _Stack()


@contextmanager
def stack_frame() -> Generator[None]:
    """Keep the memory of `on_stack` alive until the block ends."""
    _stack.frames.append([])
    try:
        yield
    finally:
        _stack.frames.pop()


def on_stack(memory: Any) -> Any:
    """Return memory that lives as long as the running function; outside of one, as its pointer."""
    if _stack.frames:
        _stack.frames[-1].append(memory)
    return memory


def item_bytes(of: NativeType) -> int:
    """Return the bytes of an item of an array."""
    return of.llvm.bytes if isinstance(of, IntegerType) else 8


def read(of: NativeType, address: int, owner: object) -> Any:
    """Return the value of a type at an address, in memory that `owner` holds."""
    if isinstance(of, IntegerType):
        return _C_TYPES[of.llvm.bits].from_address(address).value
    if isinstance(of, type) and issubclass(of, PointerType) and of.is_inline:
        return of(address, owner)
    return converted(of, ctypes.c_uint64.from_address(address).value)


def write(of: NativeType, address: int, value: object) -> None:
    """Store a value of a type at an address."""
    value = converted(of, value)
    if isinstance(of, IntegerType):
        _C_TYPES[of.llvm.bits].from_address(address).value = value
    else:
        ctypes.c_uint64.from_address(address).value = raw_address(value)


def raw_address(value: Any) -> int:
    """Return the address of a pointer, of a function, or of null."""
    return 0 if value is None else int(value.address)


def converted(of: NativeType, value: Any) -> Any:
    """Return a value converted to a type, as the C calling convention passes it.

    Raises:
        TypeError: it is not of that type.
    """
    if isinstance(of, IntegerType):
        if not isinstance(value, int) or not of.holds(value):
            raise TypeError(f"{value!r} is no {of.name}")
        return bool(value) if of == BOOL else int(value)
    if of is None:
        return None
    if is_known(of):
        if not isinstance(value, cast(type[Known], of)):
            raise TypeError(f"{value!r} is no {type_text(of)}")
        return value
    address = value if isinstance(value, int) else raw_address(value)
    if address == 0:
        return None
    if isinstance(of, FunctionType):
        return function_at[address]
    pointer = cast(type[PointerType], of)
    return value if isinstance(value, pointer) else pointer(address, value)
