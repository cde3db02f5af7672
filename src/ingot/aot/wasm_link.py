# SPDX-License-Identifier: Apache-2.0
"""One WebAssembly module from several objects: what `wasm-ld` does, without a linker.

This is the last step of `build` for wasm32. Functions follow each other; data begins at
`FIRST_ADDRESS`, then come the stack and memory that the module's allocator grows. Invariant: the
module imports only the functions of `IMPORTS` that it calls, and exports its memory and the
requested names.

Source: the WebAssembly core specification; the tool conventions' Linking.md.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from ingot.aot.wasm_object import (
    CODE,
    DATA,
    DATA_SYMBOL,
    ELEMENT,
    EXPORT,
    FUNCTION,
    FUNCTION_SYMBOL,
    GLOBAL,
    GLOBAL_SYMBOL,
    IMPORT,
    MAGIC,
    MEMORY,
    TABLE,
    TYPE,
    TYPE_INDEX_LEB,
    Reader,
    WasmObject,
    WasmRelocation,
    WasmSymbol,
    read_object,
)
from ingot.support.diagnostics import InternalError, ResourceError, UnsupportedError
from ingot.support.records import record

FIRST_ADDRESS, STACK_BYTES, ALIGNMENT, PAGE_BYTES = 1024, 1 << 20, 64, 1 << 16
MOST_BYTES = 1 << 32
IMPORTS = ("fmod", "fmodf")
"""Functions for which WebAssembly has no instruction, but JavaScript has an operator: `%`."""

_FUNCTION_INDEX, _TABLE_SLEB, _TABLE_I32 = 0, 1, 2
_MEMORY_LEB, _MEMORY_SLEB, _MEMORY_I32 = 3, 4, 5
_GLOBAL_INDEX, _TABLE_NUMBER = 7, 20
_STACK_POINTER = "__stack_pointer"
_I32, _FUNCREF = 0x7F, 0x70


@record
class Part:
    """An object to link, and the prefix of its names, so that programs do not clash."""

    data: bytes
    prefix: str = ""


def link_wasm(
    parts: Sequence[Part], blocks: Mapping[str, bytes], exports: Mapping[str, str]
) -> bytes:
    """Return a WebAssembly module.

    Args:
        parts: the objects.
        blocks: read-only data by symbol (with the prefix of its reader), aligned to 64 bytes.
        exports: functions to export, each with its exported name.

    Raises:
        UnsupportedError: a function is called that neither the objects nor `IMPORTS` have.
        ResourceError: INGOT0403 the data does not fit in 32-bit memory.
        InternalError: INGOT0931 a block has the name of another symbol.
    """
    return _Linker(parts, blocks).file(exports)


class _Linker:
    """The module under construction."""

    def __init__(self, parts: Sequence[Part], blocks: Mapping[str, bytes]) -> None:
        self._parts = [(part.prefix, read_object(part.data)) for part in parts]
        self._blocks = blocks
        self._types: dict[bytes, int] = {}
        self._table: dict[int, int] = {}
        self._functions: dict[str, int] = {}
        self._data: dict[str, int] = {}
        self._imports = self._missing()
        self._first_defined: list[int] = []
        self._starts: list[int] = []
        self._segments: list[list[int]] = []
        self._number_functions()
        self._end = self._lay_out()

    def _missing(self) -> dict[str, int]:
        """Return the names of functions that must be imported, with the type of each."""
        known = {
            prefix + symbol.name
            for prefix, source in self._parts
            for symbol in source.defined
            if symbol.kind == FUNCTION_SYMBOL
        }
        found: dict[str, int] = {}
        for prefix, source in self._parts:
            for name, type_index in source.imported:
                if prefix + name not in known and name not in known:
                    found[name] = self._type(source.types[type_index])
        refused = [name for name in found if name not in IMPORTS]
        if refused:
            raise UnsupportedError(
                f"the program calls {', '.join(refused)}, which WebAssembly lacks",
                hint="compute this part outside of the compiled program",
            )
        return found

    def _type(self, text: bytes) -> int:
        return self._types.setdefault(text, len(self._types))

    def _number_functions(self) -> None:
        """Give each function its number: imports come first."""
        self._functions = {name: number for number, name in enumerate(self._imports)}
        number = len(self._imports)
        for prefix, source in self._parts:
            self._first_defined.append(number - len(source.imported))
            self._starts.append(number)
            for symbol in source.symbols:
                is_shared = symbol.kind == FUNCTION_SYMBOL and not symbol.is_local
                if is_shared and symbol.is_defined:
                    function = self._first_defined[-1] + symbol.index
                    # Of several objects that define it the first is taken, as in `llvm.image`.
                    self._functions.setdefault(prefix + symbol.name, function)
            number += len(source.functions)

    def _lay_out(self) -> int:
        """Assign addresses to all data; return its end."""
        at = FIRST_ADDRESS
        for prefix, source in self._parts:
            addresses: list[int] = []
            for segment in source.segments:
                at += -at % segment.alignment
                addresses.append(at)
                at += segment.size
            self._segments.append(addresses)
            for symbol in source.defined:
                if symbol.kind == DATA_SYMBOL and not symbol.is_local:
                    address = addresses[symbol.index] + symbol.offset
                    self._data.setdefault(prefix + symbol.name, address)
        for name, data in self._blocks.items():
            at += -at % ALIGNMENT
            if name in self._data:
                raise InternalError(f"two objects define '{name}'", code="INGOT0931")
            self._data[name] = at
            at += len(data)
        if at + STACK_BYTES > MOST_BYTES:
            raise ResourceError(
                f"the data of the program ends at {at} bytes, and memory has {MOST_BYTES}",
                code="INGOT0403",
                hint="make the weights parameters, which the caller gives",
            )
        return at

    def _function(self, part: int, symbol: WasmSymbol) -> int:
        """Return the number of a function that an object names."""
        prefix, _ = self._parts[part]
        if symbol.is_defined:
            return self._first_defined[part] + symbol.index
        found = self._functions.get(prefix + symbol.name)
        return self._functions[symbol.name] if found is None else found

    def _called(self, part: int, symbol: WasmSymbol) -> int:
        """Return the number of a function that an object calls, by the type that it has."""
        number = self._function(part, symbol)
        if symbol.is_defined or number < len(self._imports):
            return number
        _, source = self._parts[part]
        wanted = source.types[source.imported[symbol.index][1]]
        owner = bisect_right(self._starts, number) - 1
        _, other = self._parts[owner]
        if other.types[other.functions[number - self._starts[owner]]] != wanted:
            raise InternalError(
                f"'{symbol.name}' is called with another type than it has", code="INGOT0931"
            )
        return number

    def _address(self, part: int, symbol: WasmSymbol) -> int:
        """Return the address of data that an object names."""
        prefix, _ = self._parts[part]
        if symbol.is_defined:
            return self._segments[part][symbol.index] + symbol.offset
        found = self._data.get(prefix + symbol.name, self._data.get(symbol.name))
        if found is None:
            raise InternalError(f"no object defines '{symbol.name}'", code="INGOT0931")
        return found

    def _value(self, part: int, relocation: WasmRelocation) -> int:
        """Return what a relocation writes."""
        _, source = self._parts[part]
        kind = relocation.kind
        if kind == TYPE_INDEX_LEB:
            return self._type(source.types[relocation.index])
        symbol = source.symbols[relocation.index]
        if kind == _FUNCTION_INDEX:
            return self._called(part, symbol)
        if kind in (_TABLE_SLEB, _TABLE_I32):
            number = self._function(part, symbol)
            # A null pointer is not a function, so the table begins at 1.
            return self._table.setdefault(number, 1 + len(self._table))
        if kind in (_MEMORY_LEB, _MEMORY_SLEB, _MEMORY_I32):
            return self._address(part, symbol) + relocation.addend
        is_stack = symbol.kind == GLOBAL_SYMBOL and symbol.name == _STACK_POINTER
        if kind == _TABLE_NUMBER or (kind == _GLOBAL_INDEX and is_stack):
            return 0
        raise InternalError(
            f"relocation {kind} of '{symbol.name}' does not occur in code for WebAssembly",
            code="INGOT0931",
        )

    def _patched(self, part: int, section: int, content: bytes) -> bytes:
        _, source = self._parts[part]
        made = bytearray(content)
        for relocation in source.relocations.get(section, ()):
            value, at = self._value(part, relocation), relocation.offset
            if relocation.kind in (_MEMORY_I32, _TABLE_I32):
                struct.pack_into("<I", made, at, value)
            else:
                made[at : at + 5] = _padded(value)
        return bytes(made)

    def file(self, exports: Mapping[str, str]) -> bytes:
        """Return the whole module."""
        count, code = 0, b""
        function_types = b""
        for part, (_, source) in enumerate(self._parts):
            count += len(source.functions)
            types = (self._type(source.types[index]) for index in source.functions)
            function_types += b"".join(map(unsigned, types))
            code += _bodies(self._patched(part, CODE, source.code), source)
        data = [_segment(address, content) for address, content in self._contents()]
        rows = [(name, 0, self._functions[symbol]) for symbol, name in exports.items()]
        stack = self._end + STACK_BYTES
        stack += -stack % ALIGNMENT
        pages = -(-stack // PAGE_BYTES)
        names = (_export(name, kind, index) for name, kind, index in [("memory", 2, 0), *rows])
        imported = (
            _text("env") + _text(name) + b"\0" + unsigned(type_index)
            for name, type_index in self._imports.items()
        )
        size = unsigned(1 + len(self._table))
        elements = b"\0" + _constant(1) + _vector(map(unsigned, self._table))
        return MAGIC + b"".join(
            (
                _section(TYPE, _vector(self._types)),
                _section(IMPORT, _vector(imported)),
                _section(FUNCTION, unsigned(count) + function_types),
                _section(TABLE, b"\1" + bytes((_FUNCREF, 1)) + size + size),
                _section(MEMORY, b"\1\0" + unsigned(pages)),
                _section(GLOBAL, b"\1" + bytes((_I32, 1)) + _constant(stack)),
                _section(EXPORT, _vector(names)),
                _section(ELEMENT, b"\1" + elements),
                _section(CODE, unsigned(count) + code),
                _section(DATA, _vector(data)),
            )
        )

    def _contents(self) -> Iterable[tuple[int, bytes]]:
        """Yield the address and the bytes of all data."""
        for part, (_, source) in enumerate(self._parts):
            content = self._patched(part, DATA, source.data)
            for address, segment in zip(self._segments[part], source.segments, strict=True):
                found = content[segment.start : segment.start + segment.size]
                if any(found):  # Memory begins as zeros.
                    yield address, found
        for name, data in self._blocks.items():
            yield self._data[name], data


def _bodies(code: bytes, source: WasmObject) -> bytes:
    """Return the functions of a code section, without their count."""
    if not source.functions:
        return b""
    reader = Reader(code)
    reader.unsigned()
    return code[reader.at :]


def unsigned(value: int) -> bytes:
    """Return a number in the format LEB128."""
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _padded(value: int) -> bytes:
    """Return 32 bits in 5 bytes of LEB128; addresses above 2 GiB are negative as signed numbers."""
    return bytes((value >> 7 * n & 0x7F) | (0x80 if n < 4 else 0) for n in range(5))


def _constant(value: int) -> bytes:
    """Return the expression of a 32-bit constant."""
    signed = value - (1 << 32) if value >> 31 else value
    made = bytearray(b"\x41")
    while not -64 <= signed < 64:
        made.append(signed & 0x7F | 0x80)
        signed >>= 7
    made.append(signed & 0x7F)
    return bytes(made) + b"\x0b"


def _vector(items: Iterable[bytes]) -> bytes:
    made = list(items)
    return unsigned(len(made)) + b"".join(made)


def _text(text: str) -> bytes:
    data = text.encode()
    return unsigned(len(data)) + data


def _export(name: str, kind: int, index: int) -> bytes:
    return _text(name) + bytes((kind,)) + unsigned(index)


def _segment(address: int, content: bytes) -> bytes:
    return b"\0" + _constant(address) + unsigned(len(content)) + content


def _section(kind: int, content: bytes) -> bytes:
    return bytes((kind,)) + unsigned(len(content)) + content
