"""A shared library from one relocatable object, with no linker installed.

The end of ahead-of-time compilation: LLVM gives a position-independent ELF object, and this file
lays its sections out in two segments (read and execute; read and write), applies the relocations
that are known, and writes down the rest for the loader. Invariant: every symbol that the object
does not define is looked up by the loader in `needed`, at load time, so a missing one is its error.

Source: the System V ABI, x86-64 supplement (relocations), and the ELF-64 object file format.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from ingot.support.diagnostics import InternalError, UnsupportedError

_PAGE = 4096
_HEADER_BYTES, _SEGMENT_BYTES, _SYMBOL_BYTES, _RELA_BYTES = 64, 56, 24, 24
_SEGMENTS = 4
_X86_64 = 62
_PROGBITS, _SYMTAB, _RELA, _NOBITS = 1, 2, 4, 8
_WRITE, _ALLOCATE = 1, 2
_R_64, _R_PC32, _R_PLT32, _R_GLOB_DAT, _R_RELATIVE = 1, 2, 4, 6, 8
_R_GOT = (9, 41, 42)
_JUMP_BYTES = 8  # jmp *slot(%rip), padded


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    info: int
    section: int
    value: int
    size: int


class _Object:
    """The sections and symbols of a relocatable object."""

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise InternalError("an object file is not ELF64 little-endian")
        (machine,) = struct.unpack_from("<H", data, 18)
        if machine != _X86_64:
            raise UnsupportedError(
                f"shared libraries are written for x86-64, not for ELF machine {machine}",
                hint="link the object file with the machine's own linker",
            )
        self.data = data
        (table,) = struct.unpack_from("<Q", data, 40)
        size, count, names = struct.unpack_from("<HHH", data, 58)
        rows = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
        at = rows[names][4]
        self.sections = [
            _Section(self._text(at + r[0]), r[1], r[2], r[4], r[5], r[6], r[7], r[8]) for r in rows
        ]
        symbols = next(s for s in self.sections if s.kind == _SYMTAB)
        strings = self.sections[symbols.link].offset
        self.symbols = [
            _Symbol(self._text(strings + row[0]) if row[0] else "", row[1], row[3], row[4], row[5])
            for row in struct.iter_unpack("<IBBHQQ", self.bytes_of(symbols))
        ]
        self.loaded = [
            index
            for index, s in enumerate(self.sections)
            if s.flags & _ALLOCATE and s.kind in (_PROGBITS, _NOBITS) and s.name[:3] != ".eh"
        ]
        self.undefined = [i for i, s in enumerate(self.symbols) if s.section == 0 and s.name]

    def _text(self, at: int) -> str:
        return self.data[at : self.data.index(b"\0", at)].decode()

    def bytes_of(self, section: _Section) -> bytes:
        """Return the contents of a section."""
        if section.kind == _NOBITS:
            return bytes(section.size)
        return self.data[section.offset : section.offset + section.size]

    def relocations(self) -> list[tuple[int, int, int, int, int]]:
        """Return (section, offset, kind, symbol, addend) of what is loaded."""
        return [
            (section.info, offset, info & 0xFFFFFFFF, info >> 32, addend)
            for section in self.sections
            if section.kind == _RELA and section.info in self.loaded
            for offset, info, addend in struct.iter_unpack("<QQq", self.bytes_of(section))
        ]


def link_shared(data: bytes, name: str, needed: Sequence[str], exports: Sequence[str]) -> bytes:
    """Return an ELF shared library.

    Args:
        data: a position-independent x86-64 object.
        name: the library's own name (DT_SONAME).
        needed: libraries that the loader loads before it, "libc.so.6".
        exports: functions of the object that others may call.

    Raises:
        UnsupportedError: the object is for another machine.
        InternalError: it has a relocation that position-independent code does not have.
    """
    return _Library(_Object(data), name, needed, exports).image()


class _Library:
    """The library under construction; `places` says where each part lies in the file and memory."""

    def __init__(
        self, source: _Object, name: str, needed: Sequence[str], exports: Sequence[str]
    ) -> None:
        self.source = source
        named = {symbol.name: index for index, symbol in enumerate(source.symbols) if symbol.name}
        self.dynamic = [*source.undefined, *(named[export] for export in exports)]
        self.strings = b"\0"
        self.names = [self._string(source.symbols[index].name) for index in self.dynamic]
        self.name, self.needed = self._string(name), [self._string(item) for item in needed]
        self.relocations: list[bytes] = []
        self.places: dict[str | int, int] = {}
        self.position = _HEADER_BYTES + _SEGMENTS * _SEGMENT_BYTES
        self._lay_out()

    def _string(self, text: str) -> int:
        at = len(self.strings)
        self.strings += text.encode() + b"\0"
        return at

    def _place(self, key: str | int, size: int, alignment: int = 16) -> None:
        self.position += -self.position % max(1, alignment)
        self.places[key] = self.position
        self.position += size

    def _lay_out(self) -> None:
        source, undefined = self.source, len(self.source.undefined)
        writable = [i for i in source.loaded if source.sections[i].flags & _WRITE]
        constant = [i for i in source.loaded if i not in writable]
        self._place("symbols", _SYMBOL_BYTES * (1 + len(self.dynamic)))
        self._place("strings", len(self.strings))
        self._place("hash", 4 * (3 + 1 + len(self.dynamic)))
        self._place("relocations", _RELA_BYTES * (len(source.relocations()) + undefined))
        for index in constant:
            self._place(index, source.sections[index].size, source.sections[index].alignment)
        self._place("jumps", _JUMP_BYTES * undefined)
        self.code_end = self.position
        self.position += -self.position % _PAGE
        self.data_start = self.position
        for index in writable:
            self._place(index, source.sections[index].size, source.sections[index].alignment)
        self._place("slots", 8 * undefined)
        self._place("dynamic", 16 * (10 + len(self.needed)))

    def image(self) -> bytes:
        """Return the whole file."""
        image = bytearray(self.position)
        for index in self.source.loaded:
            self._write(image, index, self.source.bytes_of(self.source.sections[index]))
        self._write_jumps(image)
        for relocation in self.source.relocations():
            self._relocate(image, *relocation)
        self._write(image, "relocations", b"".join(self.relocations))
        self._write(image, "symbols", self._symbol_table())
        self._write(image, "strings", self.strings)
        self._write(image, "hash", self._hash_table())
        self._write(image, "dynamic", self._dynamic_table())
        image[:_HEADER_BYTES] = self._header()
        image[_HEADER_BYTES : _HEADER_BYTES + _SEGMENTS * _SEGMENT_BYTES] = self._segments()
        return bytes(image)

    def _write(self, image: bytearray, key: str | int, data: bytes) -> None:
        at = self.places[key]
        image[at : at + len(data)] = data

    def _slot(self, symbol: int) -> int:
        return self.places["slots"] + 8 * self.source.undefined.index(symbol)

    def _jump(self, symbol: int) -> int:
        return self.places["jumps"] + _JUMP_BYTES * self.source.undefined.index(symbol)

    def _value(self, symbol: int) -> int:
        found = self.source.symbols[symbol]
        return self.places[found.section] + found.value

    def _write_jumps(self, image: bytearray) -> None:
        """Write a jump through the slot of every undefined symbol; the loader fills the slots."""
        for number, symbol in enumerate(self.source.undefined):
            at, slot = self._jump(symbol), self._slot(symbol)
            image[at : at + 6] = b"\xff\x25" + struct.pack("<i", slot - (at + 6))
            info = (number + 1) << 32 | _R_GLOB_DAT
            self.relocations.append(struct.pack("<QQq", slot, info, 0))

    def _relocate(
        self, image: bytearray, section: int, offset: int, kind: int, symbol: int, addend: int
    ) -> None:
        at, foreign = self.places[section] + offset, symbol in self.source.undefined
        if kind in (_R_PC32, _R_PLT32):
            target = self._jump(symbol) if foreign else self._value(symbol)
            image[at : at + 4] = struct.pack("<i", target + addend - at)
        elif kind in _R_GOT and foreign:
            image[at : at + 4] = struct.pack("<i", self._slot(symbol) + addend - at)
        elif kind == _R_64 and not foreign:
            value = self._value(symbol) + addend
            self.relocations.append(struct.pack("<QQq", at, _R_RELATIVE, value))
        else:
            name = self.source.symbols[symbol].name
            raise InternalError(f"relocation {kind} of '{name}' cannot be in a shared library")

    def _symbol_table(self) -> bytes:
        rows = [bytes(_SYMBOL_BYTES)]
        for name, index in zip(self.names, self.dynamic, strict=True):
            symbol = self.source.symbols[index]
            place = (0, 0, 0) if symbol.section == 0 else (1, self._value(index), symbol.size)
            rows.append(struct.pack("<IBBHQQ", name, 0x12, 0, *place))
        return b"".join(rows)

    def _hash_table(self) -> bytes:
        """Return a table with one bucket: the chain goes from the last symbol to the first."""
        count = 1 + len(self.dynamic)
        chain = [0, *(max(0, number - 1) for number in range(1, count))]
        return struct.pack(f"<{3 + count}I", 1, count, count - 1, *chain)

    def _dynamic_table(self) -> bytes:
        sizes = ("strings", len(self.strings)), ("relocations", _RELA_BYTES * len(self.relocations))
        (_, strings), (_, relocations) = sizes
        rows = [
            *((1, name) for name in self.needed),
            *((14, self.name), (4, self.places["hash"]), (5, self.places["strings"])),
            *((6, self.places["symbols"]), (10, strings), (11, _SYMBOL_BYTES)),
            *((7, self.places["relocations"]), (8, relocations), (9, _RELA_BYTES), (0, 0)),
        ]
        return b"".join(struct.pack("<QQ", *row) for row in rows)

    def _segments(self) -> bytes:
        start, dynamic = self.data_start, self.places["dynamic"]
        rows = [
            (1, 5, 0, self.code_end, _PAGE),
            (1, 6, start, self.position - start, _PAGE),
            (2, 6, dynamic, 16 * (10 + len(self.needed)), 8),
            (0x6474E551, 6, 0, 0, 16),  # PT_GNU_STACK: not executable
        ]
        return b"".join(
            struct.pack("<IIQQQQQQ", kind, flags, at, at, at, size, size, alignment)
            for kind, flags, at, size, alignment in rows
        )

    def _header(self) -> bytes:
        identity = b"\x7fELF\2\1\1" + bytes(9)
        rest = (3, _X86_64, 1, 0, _HEADER_BYTES, 0, 0, 64, _SEGMENT_BYTES, _SEGMENTS, 64, 0, 0)
        return identity + struct.pack("<HHIQQQIHHHHHH", *rest)
