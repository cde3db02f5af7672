# SPDX-License-Identifier: Apache-2.0
"""A relocatable WebAssembly object, as LLVM emits it: types, code, data, symbols, relocations.

`wasm_link` reads it. Invariant: only what LLVM writes for code without exceptions and threads is
read; anything else is an `InternalError`.

Source: the WebAssembly core specification (binary format); the tool conventions' Linking.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TypeVar

from ingot.support.diagnostics import InternalError
from ingot.support.records import mutable, record

MAGIC = b"\0asm\1\0\0\0"
TYPE, IMPORT, FUNCTION, TABLE, MEMORY, GLOBAL, EXPORT, ELEMENT, CODE, DATA = (
    *range(1, 8),
    *range(9, 12),
)
_CUSTOM = 0
FUNCTION_SYMBOL, DATA_SYMBOL, GLOBAL_SYMBOL, SECTION_SYMBOL, _, TABLE_SYMBOL = range(6)
_LOCAL, _UNDEFINED, _EXPLICIT_NAME = 0x2, 0x10, 0x40
_SEGMENT_INFO, _SYMBOL_TABLE = 5, 8
TYPE_INDEX_LEB = 6
_WITH_ADDEND = frozenset({3, 4, 5, 8, 9, 11})

T = TypeVar("T")


@record
class WasmSymbol:
    """A symbol: a function (`index` in the object), or data (`index` of the segment, `offset`)."""

    kind: int
    name: str
    index: int = 0
    offset: int = 0
    is_defined: bool = False
    is_local: bool = False


@record
class WasmRelocation:
    """A field of 5 or 4 bytes in the code or data section; `index` is a symbol's or a type's."""

    kind: int
    offset: int
    index: int
    addend: int


@record
class WasmSegment:
    """A data segment: the offset and size of its bytes in the data section, and its alignment."""

    start: int
    size: int
    alignment: int


@mutable
class WasmObject:
    """One object.

    Attributes:
        types: encoded function types.
        imported: name and type of each function that it imports.
        globals: name of each global that it imports.
        functions: type of each function that it defines.
        code, data: the sections, whole.
        segments: the data segments.
        symbols: the symbol table.
        relocations: by section number of the format, CODE or DATA.
    """

    types: list[bytes] = field(default_factory=list[bytes])
    imported: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    globals: list[str] = field(default_factory=list[str])
    functions: list[int] = field(default_factory=list[int])
    code: bytes = b""
    data: bytes = b""
    segments: list[WasmSegment] = field(default_factory=list[WasmSegment])
    symbols: list[WasmSymbol] = field(default_factory=list[WasmSymbol])
    relocations: dict[int, list[WasmRelocation]] = field(
        default_factory=dict[int, list[WasmRelocation]]
    )

    @property
    def defined(self) -> list[WasmSymbol]:
        """The defined symbols that other objects may name."""
        kinds = (FUNCTION_SYMBOL, DATA_SYMBOL)
        return [one for one in self.symbols if one.is_defined and one.kind in kinds]


class Reader:
    """Reads numbers, texts and lists from bytes."""

    def __init__(self, data: bytes) -> None:
        """Begin at the start."""
        self.data, self.at = data, 0

    @property
    def is_done(self) -> bool:
        """Whether everything is read."""
        return self.at >= len(self.data)

    def byte(self) -> int:
        """Read a byte."""
        self.at += 1
        return self.data[self.at - 1]

    def unsigned(self) -> int:
        """Read a number of the format LEB128."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self) -> int:
        """Read a signed number of the format LEB128."""
        start = self.at
        value = self.unsigned()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) & 1 else value

    def take(self, size: int) -> bytes:
        """Read bytes."""
        self.at += size
        return self.data[self.at - size : self.at]

    def text(self) -> str:
        """Read a name."""
        return self.take(self.unsigned()).decode()

    def vector(self, read: Callable[[], T]) -> list[T]:
        """Read a list."""
        return [read() for _ in range(self.unsigned())]


def read_object(data: bytes) -> WasmObject:
    """Return an object.

    Raises:
        InternalError: it is not an object, or has something that LLVM does not write for Ingot's
            code.
    """
    if data[:8] != MAGIC:
        raise InternalError("an object file is not WebAssembly")
    found, reader = WasmObject(), Reader(data)
    reader.at = 8
    numbers: list[int] = []
    alignments: list[int] = []
    while not reader.is_done:
        kind = reader.byte()
        content = reader.take(reader.unsigned())
        numbers.append(kind)
        if kind == _CUSTOM:
            _read_custom(found, Reader(content), numbers, alignments)
        else:
            _read_section(found, kind, content)
    segments = zip(found.segments, alignments, strict=True)
    found.segments = [WasmSegment(one.start, one.size, 1 << log) for one, log in segments]
    return found


def _read_section(found: WasmObject, kind: int, content: bytes) -> None:
    reader = Reader(content)
    if kind == TYPE:
        found.types = reader.vector(lambda: _function_type(reader))
    elif kind == IMPORT:
        reader.vector(lambda: _read_import(found, reader))
    elif kind == FUNCTION:
        found.functions = reader.vector(reader.unsigned)
    elif kind == CODE:
        found.code = content
    elif kind == DATA:
        found.data = content
        found.segments = reader.vector(lambda: _segment(reader))


def _function_type(reader: Reader) -> bytes:
    start = reader.at
    reader.byte()
    for _ in range(2):
        reader.take(reader.unsigned())
    return reader.data[start : reader.at]


def _read_import(found: WasmObject, reader: Reader) -> None:
    reader.text()
    name = reader.text()
    kind = reader.byte()
    if kind == 0:
        found.imported.append((name, reader.unsigned()))
        return
    if kind in (1, 3):  # The type of a table's items or of a global.
        reader.byte()
    if kind == 3:
        found.globals.append(name)
        reader.byte()
        return
    flags = reader.byte()
    for _ in range(1 + (flags & 1)):
        reader.unsigned()


def _segment(reader: Reader) -> WasmSegment:
    flags = reader.unsigned()
    if flags != 0 or reader.byte() != 0x41:
        raise InternalError(f"a data segment has the flags {flags}")
    reader.signed()
    reader.byte()
    size = reader.unsigned()
    start = reader.at
    reader.take(size)
    return WasmSegment(start, size, 1)


def _read_custom(
    found: WasmObject, reader: Reader, numbers: list[int], alignments: list[int]
) -> None:
    name = reader.text()
    if name == "linking":
        reader.unsigned()
        while not reader.is_done:
            kind = reader.byte()
            part = Reader(reader.take(reader.unsigned()))
            if kind == _SYMBOL_TABLE:
                found.symbols = part.vector(lambda part=part: _symbol(found, part))
            elif kind == _SEGMENT_INFO:
                alignments += part.vector(lambda part=part: _log_alignment(part))
    elif name.startswith("reloc."):
        section = numbers[reader.unsigned()]
        if section in (CODE, DATA):
            found.relocations[section] = reader.vector(lambda: _relocation(reader))


def _log_alignment(reader: Reader) -> int:
    reader.text()
    log = reader.unsigned()
    reader.unsigned()
    return log


def _symbol(found: WasmObject, reader: Reader) -> WasmSymbol:
    kind, flags = reader.byte(), reader.unsigned()
    is_defined, is_local = not flags & _UNDEFINED, bool(flags & _LOCAL)
    if kind == SECTION_SYMBOL:
        return WasmSymbol(kind, "", reader.unsigned())
    if kind != DATA_SYMBOL:
        index = reader.unsigned()
        if is_defined or flags & _EXPLICIT_NAME:
            name = reader.text()
        else:
            name = _import_name(found, kind, index)
        return WasmSymbol(kind, name, index, 0, is_defined, is_local)
    name = reader.text()
    if not is_defined:
        return WasmSymbol(kind, name)
    index, offset, _ = reader.unsigned(), reader.unsigned(), reader.unsigned()
    return WasmSymbol(kind, name, index, offset, True, is_local)


def _import_name(found: WasmObject, kind: int, index: int) -> str:
    """Return the name of an imported function or global, whose symbol has no name of its own."""
    if kind == FUNCTION_SYMBOL:
        return found.imported[index][0]
    return found.globals[index] if kind == GLOBAL_SYMBOL else ""


def _relocation(reader: Reader) -> WasmRelocation:
    kind, offset, index = reader.byte(), reader.unsigned(), reader.unsigned()
    return WasmRelocation(kind, offset, index, reader.signed() if kind in _WITH_ADDEND else 0)
