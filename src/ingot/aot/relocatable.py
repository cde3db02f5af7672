# SPDX-License-Identifier: Apache-2.0
"""One relocatable object from several: what `ld -r` does, without a linker.

It combines LLVM's objects (which `llvm.elf` reads) for the files that `build` writes. Sections are
copied unchanged; symbols are joined by name; blocks of data (weights) get sections of their own.
Invariant: with `exports`, no other symbol can clash with those of another object.

Source: the ELF-64 object file format.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence

from ingot.llvm.elf import ALLOCATE, NOBITS, PROGBITS, RELA, SYMTAB, ElfObject, Symbol
from ingot.llvm.relocations import Machine
from ingot.support.diagnostics import InternalError

_STRTAB, _LOCAL, _GLOBAL, _OBJECT = 3, 0, 1, 1
_INFO_LINK, _GROUP = 0x40, 0x200
_HEADER_BYTES, _ALIGNMENT = 64, 64


def merge_objects(
    objects: Sequence[bytes],
    blocks: Mapping[str, bytes],
    exports: Collection[str] | None = None,
    prefix: str = "",
) -> bytes:
    """Return one object with the sections of all.

    Of functions that several objects define the first is taken (`llvm.image`).

    Args:
        objects: position independent objects for one machine.
        blocks: read-only data by symbol, each aligned to 64 bytes.
        exports: the symbols that are global; None: all that the objects make global.
        prefix: of the names of all defined symbols, so that two programs can be joined.

    Raises:
        InternalError: INGOT0931 a block has the name of another symbol.
    """
    sources = [ElfObject(data) for data in objects]
    merger = _Merger(sources[0].machine, exports, prefix)
    for number, source in enumerate(sources):
        merger.add_sections(number, source)
    for name, data in blocks.items():
        merger.add_block(name, data)
    for number, source in enumerate(sources):
        merger.add_symbols(number, source)
    for number, source in enumerate(sources):
        merger.add_relocations(number, source)
    return merger.file()


class _Strings:
    """A string table."""

    def __init__(self) -> None:
        self.data = bytearray(1)

    def add(self, text: str) -> int:
        """Return the offset of a string."""
        at = len(self.data)
        self.data += text.encode() + b"\0"
        return at


class _Merger:
    """The object under construction."""

    def __init__(self, machine: Machine, exports: Collection[str] | None, prefix: str) -> None:
        self._machine, self._exports, self._prefix = machine, exports, prefix
        self._content = bytearray(_HEADER_BYTES)
        self._headers = [bytes(64)]
        self._section_names, self._symbol_names = _Strings(), _Strings()
        self._section_numbers: dict[tuple[int, int], int] = {}
        self._home: dict[str, tuple[int, int]] = {}
        self._locals: list[bytes] = [bytes(24)]
        self._globals: list[bytes] = []
        self._numbers: dict[tuple[int, Symbol], tuple[int, int]] = {}
        self._relocations: dict[int, bytes] = {}

    def _add_section(
        self,
        name: str,
        kind: int,
        flags: int,
        data: bytes | int,
        *,
        link: int = 0,
        info: int = 0,
        alignment: int = 1,
        entry: int = 0,
    ) -> int:
        """Append a section of the given bytes, or of that many zeros; return its number."""
        self._content += bytes(-len(self._content) % max(1, alignment))
        at, size = len(self._content), data if isinstance(data, int) else len(data)
        if not isinstance(data, int):
            self._content += data
        row = (self._section_names.add(name), kind, flags, 0, at, size, link, info)
        self._headers.append(struct.pack("<IIQQQQIIQQ", *row, alignment, entry))
        return len(self._headers) - 1

    def add_sections(self, number: int, source: ElfObject) -> None:
        """Copy the sections of an object that are part of the program."""
        names = _section_names(source)
        for index in source.loaded:
            old = source.sections[index]
            data = old.size if old.kind == NOBITS else source.bytes_of(old)
            self._section_numbers[number, index] = self._add_section(
                names[index],
                old.kind,
                old.flags & ~_GROUP,
                data,
                alignment=old.alignment,
                entry=old.entry,
            )

    def add_block(self, name: str, data: bytes) -> None:
        """Add read-only data with a symbol."""
        section = self._add_section(
            f".rodata.{name}", PROGBITS, ALLOCATE, data, alignment=_ALIGNMENT
        )
        self._define(name, _OBJECT, section, 0, len(data))

    def _define(self, name: str, kind: int, section: int, value: int, size: int) -> None:
        if name in self._home:
            raise InternalError(f"two objects define '{name}'", code="INGOT0931")
        seen = self._exports is None or name in self._exports
        self._home[name] = self._add_symbol(self._prefix + name, kind, section, value, size, seen)

    def _add_symbol(
        self, name: str, kind: int, section: int, value: int, size: int, is_global: bool
    ) -> tuple[int, int]:
        """Return the binding of a new symbol, and its number among those of that binding."""
        binding = _GLOBAL if is_global else _LOCAL
        rows = self._globals if is_global else self._locals
        at = self._symbol_names.add(name) if name else 0
        rows.append(struct.pack("<IBBHQQ", at, binding << 4 | kind, 0, section, value, size))
        return binding, len(rows) - 1

    def add_symbols(self, number: int, source: ElfObject) -> None:
        """Add the symbols that an object defines in its sections."""
        for symbol in source.symbols:
            section = self._section_numbers.get((number, symbol.section))
            if section is None:
                continue
            kind, rest = symbol.info & 15, (section, symbol.value, symbol.size)
            if symbol.is_global and symbol.name not in self._home:
                self._define(symbol.name, kind, *rest)
            else:
                self._numbers[number, symbol] = self._add_symbol(symbol.name, kind, *rest, False)

    def add_relocations(self, number: int, source: ElfObject) -> None:
        """Add an object's relocations, after the symbols of all objects: local ones come first."""
        rows: dict[int, list[bytes]] = {}
        for section, offset, kind, symbol, addend in source.relocations():
            binding, at = self._found(number, symbol)
            index = at + (len(self._locals) if binding else 0)
            row = struct.pack("<QQq", offset, index << 32 | kind, addend)
            rows.setdefault(section, []).append(row)
        for section, packed in rows.items():
            self._relocations[self._section_numbers[number, section]] = b"".join(packed)

    def _found(self, number: int, symbol: Symbol) -> tuple[int, int]:
        known = self._numbers.get((number, symbol)) or self._home.get(symbol.name)
        if known is None:
            known = self._home[symbol.name] = self._add_symbol(symbol.name, 0, 0, 0, 0, True)
        return known

    def file(self) -> bytes:
        """Return the whole file."""
        names = self._add_section(".strtab", _STRTAB, 0, bytes(self._symbol_names.data))
        symbols = self._add_section(
            ".symtab",
            SYMTAB,
            0,
            b"".join((*self._locals, *self._globals)),
            link=names,
            info=len(self._locals),
            alignment=8,
            entry=24,
        )
        for section, data in self._relocations.items():
            self._add_section(
                f".rela.{section}",
                RELA,
                _INFO_LINK,
                data,
                link=symbols,
                info=section,
                alignment=8,
                entry=24,
            )
        self._add_section(".note.GNU-stack", PROGBITS, 0, b"")
        # The table holds its own name, so that is added before the section is made.
        own = bytes(self._section_names.data) + b".shstrtab\0"
        last = self._add_section(".shstrtab", _STRTAB, 0, own)
        self._content += bytes(-len(self._content) % 8)
        table = len(self._content)
        identity = b"\x7fELF\2\1\1" + bytes(9)
        rest = (1, self._machine.number, 1, 0, 0, table, 0, _HEADER_BYTES, 0, 0, 64, last + 1, last)
        head = identity + struct.pack("<HHIQQQIHHHHHH", *rest)
        return b"".join((head, self._content[_HEADER_BYTES:], *self._headers))


def _section_names(source: ElfObject) -> list[str]:
    """Return the name of each section of an object."""
    (number,) = struct.unpack_from("<H", source.data, 62)
    names = source.bytes_of(source.sections[number])
    return [
        names[section.name : names.index(b"\0", section.name)].decode()
        for section in source.sections
    ]
