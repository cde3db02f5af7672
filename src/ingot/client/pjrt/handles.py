# SPDX-License-Identifier: Apache-2.0
"""Records that Python fills, and the objects behind their addresses.

Invariant: a handle that a host may hold is in the registry, which keeps the record and everything
that it points to alive until `forget`.
"""

from __future__ import annotations

import ctypes
import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ingot.client.pjrt.c_api import INVALID_ARGUMENT, record
from ingot.client.pjrt.errors import PjrtError
from ingot.native.layout import Record

Attribute = str | bool | int | float | Sequence[int]
_STRING, _INT64, _INT64_LIST, _FLOAT, _BOOL = range(5)

_objects: dict[int, Handle] = {}
T = TypeVar("T", bound="Handle")
Made = TypeVar("Made")


class Handle:
    """A record at a fixed address; subclasses are the objects of PJRT handles."""

    def __init__(self, layout: Record) -> None:
        """Make a zeroed record and register it."""
        self.structure: Any = layout.structure()
        self.kept: list[object] = []
        self._once: dict[str, Any] = {}
        self.address = ctypes.addressof(self.structure)
        _objects[self.address] = self

    def set(self, **fields: int) -> None:
        """Set integer fields and addresses."""
        for name, value in fields.items():
            setattr(self.structure, name, value)

    def set_text(self, name: str, text: str | bytes) -> None:
        """Set the two fields of a text."""
        data = text.encode() if isinstance(text, str) else text
        self.set(**{name: self.keep_bytes(data), f"{name}_size": len(data)})

    def set_list(self, name: str, addresses: Sequence[int]) -> None:
        """Set the two fields of a list of addresses."""
        self.set(**{name: self.keep_words(addresses), f"num_{name}": len(addresses)})

    def set_attributes(self, name: str, values: Mapping[str, Attribute]) -> None:
        """Set the two fields of a list of PJRT_NamedValue."""
        named = NamedValues(values)
        self.kept.append(named)
        self.set(**{name: named.address, f"num_{name}": len(values)})

    def keep_bytes(self, data: bytes) -> int:
        """Return the address of a copy of `data` that ends with a zero byte."""
        return self._keep(array("B", data + b"\0"))

    def once(self, name: str, make: Callable[[], Made]) -> Made:
        """Return `make()`, computed by the first call for `name` only: hosts ask often."""
        if name not in self._once:
            self._once[name] = make()
        return self._once[name]

    def keep_once(self, name: str, make: Callable[[], bytes]) -> tuple[int, int]:
        """Return address and size of `make()`, computed by the first call for `name` only."""

        def make_and_keep() -> tuple[int, int]:
            data = make()
            return self.keep_bytes(data), len(data)

        return self.once(name, make_and_keep)

    def keep_words(self, values: Sequence[int], kind: str = "q") -> int:
        """Return the address of an array of integers, int64 or of `array`'s kind; never null."""
        return self._keep(array(kind, values or (0,)))

    def keep_records(self, records: Sequence[Any]) -> int:
        """Return the address of a copy of structures, one after the other; never null."""
        return self.keep_bytes(b"".join(map(bytes, records)))

    def _keep(self, values: array[int]) -> int:
        # `array` and not ctypes, which makes a new type for each length.
        self.kept.append(values)
        return values.buffer_info()[0]

    def forget(self) -> None:
        """Remove the handle from the registry; its address is invalid then."""
        _objects.pop(self.address, None)


def keep_forever() -> None:
    """Never free the objects of handles, not even when the interpreter ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_objects))


def lookup(address: int, kind: type[T]) -> T:
    """Return the object behind a handle; PjrtError if there is none of that kind."""
    found = _objects.get(address)
    if not isinstance(found, kind):
        raise PjrtError(INVALID_ARGUMENT, f"{address:#x} is no handle of a {kind.__name__}")
    return found


class NamedValues:
    """An array of PJRT_NamedValue."""

    def __init__(self, values: Mapping[str, Attribute]) -> None:
        """Lay the values out."""
        layout = record("PJRT_NamedValue")
        self._rows: Any = (layout.structure * max(1, len(values)))()
        self._kept: list[object] = []
        self.address = ctypes.addressof(self._rows)
        for row, (name, value) in zip(self._rows, values.items(), strict=False):
            row.struct_size = layout.size
            row.name, row.name_size = self._text(name)
            row.type, row.value, row.value_size = self._value(value)

    def _text(self, text: str) -> tuple[int, int]:
        data = text.encode()
        buffer = ctypes.create_string_buffer(data)
        self._kept.append(buffer)
        return ctypes.addressof(buffer), len(data)

    def _value(self, value: Attribute) -> tuple[int, int, int]:
        """Return type, the eight bytes of the union as an integer, and size."""
        if isinstance(value, str):
            return _STRING, *self._text(value)
        if isinstance(value, bool):
            return _BOOL, int(value), 1
        if isinstance(value, int):
            return _INT64, value, 1
        if isinstance(value, float):
            return _FLOAT, int.from_bytes(struct.pack("<f", value), "little"), 1
        array = (ctypes.c_int64 * len(value))(*value)
        self._kept.append(array)
        return _INT64_LIST, ctypes.addressof(array), len(value)


def read_named_values(address: int, count: int) -> dict[str, Attribute]:
    """Return the values of an array of PJRT_NamedValue."""
    layout = record("PJRT_NamedValue")
    values: dict[str, Attribute] = {}
    for index in range(count):
        row = layout.structure.from_address(address + index * layout.size)
        values[read_text(row.name, row.name_size)] = _read_value(row)
    return values


def _read_value(row: Any) -> Attribute:
    if row.type == _STRING:
        return read_text(row.value, row.value_size)
    if row.type == _INT64_LIST:
        return tuple(read_words(row.value, row.value_size))
    if row.type == _FLOAT:
        return float(struct.unpack("<f", (row.value & 0xFFFFFFFF).to_bytes(4, "little"))[0])
    return bool(row.value & 0xFF) if row.type == _BOOL else int(row.value)


def read_bytes(address: int, size: int) -> bytes:
    """Return a copy of memory of the host."""
    return ctypes.string_at(address, size) if size else b""


def read_text(address: int, size: int) -> str:
    """Return a text of the host."""
    return read_bytes(address, size).decode()


def read_words(address: int, count: int) -> list[int]:
    """Return int64s (or addresses) of the host."""
    return list((ctypes.c_int64 * count).from_address(address)) if count else []
