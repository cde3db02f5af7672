"""The symbol table of an ELF64 object: what it defines for others and what it still needs.

Used by `linking.link_object` to check every import before linking, because an unresolved symbol
shows itself in LLVM only as a crash or a late, nameless error.

Source: the ELF-64 object file format.
"""

from __future__ import annotations

import struct

from ingot.support.diagnostics import InternalError
from ingot.support.records import record

_SYMBOL_TABLE = 2
_UNDEFINED = 0
_GLOBAL_BINDINGS = (1, 2)


@record
class ObjectSymbols:
    """Global symbols of one object, in the order of its symbol table."""

    defined: tuple[str, ...]
    undefined: tuple[str, ...]


def read_symbols(data: bytes) -> ObjectSymbols:
    """Return the global symbols of an ELF64 little-endian object."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise InternalError("an object file is not ELF64 little-endian")
    (section_offset,) = struct.unpack_from("<Q", data, 40)
    section_size, section_count = struct.unpack_from("<HH", data, 58)
    defined: list[str] = []
    undefined: list[str] = []
    for index in range(section_count):
        at = section_offset + index * section_size
        kind, offset, size, link = _section(data, at)
        if kind != _SYMBOL_TABLE:
            continue
        _, strings, strings_size, _ = _section(data, section_offset + link * section_size)
        names = data[strings : strings + strings_size]
        for name, info, _, where, _, _ in struct.iter_unpack(
            "<IBBHQQ", data[offset : offset + size]
        ):
            if info >> 4 in _GLOBAL_BINDINGS and name:
                text = names[name : names.index(b"\0", name)].decode()
                (undefined if where == _UNDEFINED else defined).append(text)
    return ObjectSymbols(tuple(defined), tuple(undefined))


def _section(data: bytes, at: int) -> tuple[int, int, int, int]:
    """Return (type, offset, size, link) of the section header at `at`."""
    (kind,) = struct.unpack_from("<I", data, at + 4)
    offset, size, link = struct.unpack_from("<QQI", data, at + 24)
    return kind, offset, size, link
