# SPDX-License-Identifier: Apache-2.0
"""C-layout records, declared once: the same table gives offsets to emitted code and to Python.

This is the lowest layer of the runtime. A `Record` is a list of fields; from it follow the byte
offsets that IR uses (`load`, `store`, `address`), and the ctypes structure through which Python
reads and writes the same memory. Invariant: layout is the C compiler's (natural alignment), so
native code written by others can declare the same struct.

Example:
    >>> point = Record("Point", Field("tag", "i32"), Field("x", "i64"), Field("name", "ptr"))
    >>> point.size, point.offset("x")
    (24, 8)
    >>> item = point.structure()
    >>> item.x = 5
    >>> point.read(ctypes.addressof(item), "x")
    5
"""

from __future__ import annotations

import ctypes
from functools import cached_property
from typing import Any

from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.types import I8, I32, I64, PTR, Type
from ingot.llvm.values import Value
from ingot.support.records import record

_IR_TYPES: dict[str, Type] = {"ptr": PTR, "i64": I64, "i32": I32, "i8": I8}
_C_TYPES: dict[str, Any] = {
    "ptr": ctypes.c_uint64,
    "i64": ctypes.c_int64,
    "i32": ctypes.c_int32,
    "i8": ctypes.c_uint8,
}
_C_NAMES = {"ptr": "void*", "i64": "int64_t", "i32": "int32_t", "i8": "uint8_t"}


@record
class Field:
    """One field: `kind` is ptr, i64, i32 or i8; `count` > 1 makes an array.

    `own_line` starts the field on a cache line of its own, so that threads that write it do not
    slow down those that read its neighbours.
    """

    name: str
    kind: str
    count: int = 1
    own_line: bool = False
    note: str = ""


@record
class _Layout:
    """Offsets of fields, the members of the ctypes structure, paddings too, and the bytes."""

    offsets: dict[str, int]
    members: list[tuple[str, Any]]
    size: int


class Record:
    """A C struct: offsets for emitted code, a ctypes structure for Python.

    Both are made when they are first used: a process uses few of the structs that it imports.
    """

    def __init__(self, name: str, *fields: Field) -> None:
        """Lay the fields out in order; the size is a multiple of 8 (of 64 with `own_line`)."""
        self.name = name
        self._fields = {field.name: field for field in fields}

    @cached_property
    def _layout(self) -> _Layout:
        offsets: dict[str, int] = {}
        members: list[tuple[str, Any]] = []
        offset, widest = 0, 8
        for field in self._fields.values():
            c_type = _C_TYPES[field.kind]
            align = LINE_BYTES if field.own_line else ctypes.sizeof(c_type)
            widest = max(widest, align)
            offset = _pad(members, offset, align)
            offsets[field.name] = offset
            members.append((field.name, c_type if field.count == 1 else c_type * field.count))
            offset += ctypes.sizeof(c_type) * field.count
        return _Layout(offsets, members, _pad(members, offset, widest))

    @cached_property
    def structure(self) -> Any:
        """The ctypes structure."""
        return type(self.name, (ctypes.Structure,), {"_fields_": self._layout.members})

    @property
    def size(self) -> int:
        """The bytes of the struct."""
        return self._layout.size

    @property
    def names(self) -> tuple[str, ...]:
        """The fields, in order."""
        return tuple(self._fields)

    def count(self, name: str) -> int:
        """Return how many items a field has; more than 1 for an array."""
        return self._fields[name].count

    def kind(self, name: str) -> str:
        """Return the kind of a field."""
        return self._fields[name].kind

    def offset(self, name: str) -> int:
        """Return the byte offset of a field."""
        return self._layout.offsets[name]

    def type_of(self, name: str) -> Type:
        """Return the LLVM type of a field (of an item, for an array)."""
        return _IR_TYPES[self._fields[name].kind]

    def address(self, f: FunctionBuilder, base: Value, name: str) -> Value:
        """Emit the address of a field of the record at `base`."""
        return f.gep(base, self._layout.offsets[name])

    def load(self, f: FunctionBuilder, base: Value, name: str) -> Value:
        """Emit a plain load of a field."""
        return f.load(self.type_of(name), self.address(f, base, name))

    def store(self, f: FunctionBuilder, base: Value, name: str, value: Value) -> None:
        """Emit a plain store of a field."""
        f.store(value, self.address(f, base, name))

    def element(self, f: FunctionBuilder, base: Value, index: Value) -> Value:
        """Emit the address of record `index` of an array of these records."""
        return f.gep(base, f.mul(index, f.const(I64, self.size)))

    def on_line(self, more: int = 0) -> tuple[object, int]:
        """Return zeroed memory for a record that starts a cache line: its owner and its address.

        `more` bytes follow the record.
        """
        memory = ctypes.create_string_buffer(self.size + more + LINE_BYTES)
        start = ctypes.addressof(memory)
        return memory, start + -start % LINE_BYTES

    def read(self, address: int, name: str) -> int:
        """Return an integer field of the record that lies at `address`."""
        return int(getattr(self.structure.from_address(address), name))

    def write(self, address: int, name: str, value: int) -> None:
        """Set an integer field of the record that lies at `address`."""
        setattr(self.structure.from_address(address), name, value)

    def c_declaration(self) -> str:
        """Return the struct as C, for headers and documentation."""
        lines = [f"typedef struct {self.name} {{"]
        for field in self._fields.values():
            at = f"at {self.offset(field.name)}"
            note = f" /* {at}{'; ' if field.note else ''}{field.note} */"
            array = f"[{field.count}]" if field.count > 1 else ""
            aligned = f" __attribute__((aligned({LINE_BYTES})))" if field.own_line else ""
            lines.append(f"  {_C_NAMES[field.kind]} {field.name}{array}{aligned};{note}")
        return "\n".join([*lines, f"}} {self.name}; /* {self.size} bytes */"])


def _pad(members: list[tuple[str, Any]], offset: int, align: int) -> int:
    """Append the padding that brings `offset` to a multiple of `align`; return the new offset."""
    gap = -offset % align
    if gap:
        members.append((f"_pad{offset}", ctypes.c_uint8 * gap))
    return offset + gap
