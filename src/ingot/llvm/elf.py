# SPDX-License-Identifier: Apache-2.0
"""A relocatable ELF64 object, as LLVM emits it: its sections, symbols and relocations.

Read by `image`, which lays objects out as code that can run. Invariant: a section's bytes are
copied only on demand.

Source: the ELF-64 object file format; the System V ABI, x86-64 supplement.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ingot.llvm.relocations import MACHINES
from ingot.support.diagnostics import InternalError, UnsupportedError

PROGBITS, SYMTAB, RELA, NOBITS = 1, 2, 4, 8
WRITE, ALLOCATE = 1, 2
_UNDEFINED = 0
_STRONG, _WEAK = 1, 2


class Section(NamedTuple):
    """A section header."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


class Symbol(NamedTuple):
    """A symbol; one without a section is defined elsewhere."""

    name: str
    info: int
    section: int
    value: int
    size: int

    @property
    def is_global(self) -> bool:
        """Whether other objects see it."""
        return self.info >> 4 in (_STRONG, _WEAK)


class Relocation(NamedTuple):
    """A field in a section that is to hold a symbol's address, or the distance to it."""

    section: int
    offset: int
    kind: int
    symbol: Symbol
    addend: int


class ElfObject:
    """One object.

    Attributes:
        data: the file.
        machine: its target, a row of `relocations.MACHINES`.
        sections: all headers.
        symbols: all symbols, in the order of the table.
        loaded: the sections that are part of the program.
        defined: names of the global symbols that it defines.
        undefined: names of those that it needs.
    """

    __slots__ = ("data", "defined", "loaded", "machine", "sections", "symbols", "undefined")

    def __init__(self, data: bytes) -> None:
        """Read the headers.

        Raises:
            InternalError: no ELF64 object.
            UnsupportedError: an object for another machine.
        """
        if data[:6] != b"\x7fELF\x02\x01":
            raise InternalError("an object file is not ELF64 little-endian")
        (machine,) = struct.unpack_from("<H", data, 18)
        if machine not in MACHINES:
            raise UnsupportedError(
                f"objects are linked for x86-64 and AArch64, not for ELF machine {machine}",
                hint="link the object file with the machine's own linker",
            )
        self.machine = MACHINES[machine]
        self.data = data
        (table,) = struct.unpack_from("<Q", data, 40)
        size, count, _ = struct.unpack_from("<HHH", data, 58)
        headers = data[table : table + size * count]
        self.sections = list(map(Section._make, struct.iter_unpack("<IIQQQQIIQQ", headers)))
        self.symbols = self._read_symbols()
        # Tables for unwinding have a type of their own (and are omitted): no frame throws.
        self.loaded = [
            index
            for index, section in enumerate(self.sections)
            if section.flags & ALLOCATE and section.kind in (PROGBITS, NOBITS)
        ]
        known = [symbol for symbol in self.symbols if symbol.name and symbol.is_global]
        self.defined = tuple(symbol.name for symbol in known if symbol.section != _UNDEFINED)
        self.undefined = tuple(symbol.name for symbol in known if symbol.section == _UNDEFINED)

    def _read_symbols(self) -> list[Symbol]:
        table = next(section for section in self.sections if section.kind == SYMTAB)
        names = self.bytes_of(self.sections[table.link])
        return [
            Symbol(names[at : names.index(b"\0", at)].decode(), info, section, value, size)
            for at, info, _, section, value, size in struct.iter_unpack(
                "<IBBHQQ", self.bytes_of(table)
            )
        ]

    def bytes_of(self, section: Section) -> bytes:
        """Return the contents of a section."""
        if section.kind == NOBITS:
            return bytes(section.size)
        return self.data[section.offset : section.offset + section.size]

    def relocations(self) -> list[Relocation]:
        """Return the relocations of the loaded sections."""
        symbols = self.symbols
        return [
            Relocation(section.info, offset, info & 0xFFFFFFFF, symbols[info >> 32], addend)
            for section in self.sections
            if section.kind == RELA and section.info in self.loaded
            for offset, info, addend in struct.iter_unpack("<QQq", self.bytes_of(section))
        ]
