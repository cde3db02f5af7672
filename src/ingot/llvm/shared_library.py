# SPDX-License-Identifier: Apache-2.0
"""A shared library from one relocatable object, with no linker installed.

The end of ahead-of-time compilation: LLVM emits a position-independent ELF object, and this file
lays its sections out in two segments (read and execute; read and write), applies the known
relocations, and leaves the others to the loader. Invariant: the loader looks up every symbol that
the object does not define in `needed`, at load time, so a missing one is the loader's error.

Source: the System V ABI, dynamic linking, and the ELF-64 object file format.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ingot.llvm.image import Image

_HEADER_BYTES, _SEGMENT_BYTES, _SYMBOL_BYTES, _RELA_BYTES = 64, 56, 24, 24
_SEGMENTS = 4
_DT_FLAGS_1, _NODELETE = 0x6FFFFFFB, 8


def link_shared(
    data: bytes, name: str, needed: Sequence[str], exports: Sequence[str], *, stays: bool = False
) -> bytes:
    """Return an ELF shared library.

    Args:
        data: a position-independent object for x86-64 or AArch64.
        name: the library's own name (DT_SONAME).
        needed: libraries that the loader loads before it, "libc.so.6".
        exports: functions of the object that others may call.
        stays: whether it is never unloaded, because threads of its own run its code.

    Raises:
        UnsupportedError: the object is for another machine.
        InternalError: it has a relocation that position-independent code does not have.
    """
    return _Library(Image([data]), name, needed, exports, stays).file()


class _Library:
    """The library under construction: the tables for the loader around an image."""

    def __init__(
        self,
        image: Image,
        name: str,
        needed: Sequence[str],
        exports: Sequence[str],
        stays: bool,
    ) -> None:
        self.image = image
        self.exports = tuple(exports)
        self.dynamic = (*image.foreign, *exports)
        self.strings = b"\0"
        self.names = [self._string(item) for item in self.dynamic]
        self.name, self.needed = self._string(name), [self._string(item) for item in needed]
        self.flags = [(_DT_FLAGS_1, _NODELETE)] if stays else []
        self.offsets: dict[str, int] = {}
        self._lay_out()
        self.content = image.content()
        self.relocations = self._relocations()

    def _string(self, text: str) -> int:
        at = len(self.strings)
        self.strings += text.encode() + b"\0"
        return at

    def _lay_out(self) -> None:
        image = self.image
        image.reserve(_HEADER_BYTES + _SEGMENTS * _SEGMENT_BYTES)
        self.offsets["symbols"] = image.reserve(_SYMBOL_BYTES * (1 + len(self.dynamic)))
        self.offsets["strings"] = image.reserve(len(self.strings))
        self.offsets["hash"] = image.reserve(4 * (3 + 1 + len(self.dynamic)))
        image.place_code()
        self.offsets["relocations"] = image.reserve(_RELA_BYTES * image.most_addresses)
        self.code_end = image.position
        self.data_start = image.reserve(0, image.machine.page)
        image.place_data()
        image.place_slots()
        self.offsets["dynamic"] = image.reserve(self._dynamic_bytes)

    @property
    def _dynamic_bytes(self) -> int:
        return 16 * (10 + len(self.needed) + len(self.flags))

    def _relocations(self) -> bytes:
        """Return the relocations for the loader: addresses in the image, and of foreign symbols."""
        numbers = {name: 1 + number for number, name in enumerate(self.dynamic)}
        pack, machine = struct.Struct("<QQq").pack, self.image.machine
        rows = [pack(at, machine.relative, target) for at, target in self.image.pointers]
        rows += [
            pack(at, numbers[name] << 32 | machine.absolute, addend)
            for at, name, addend in self.image.imports
        ]
        return b"".join(rows)

    def file(self) -> bytes:
        """Return the whole file."""
        self._write("relocations", self.relocations)
        self._write("symbols", self._symbol_table())
        self._write("strings", self.strings)
        self._write("hash", self._hash_table())
        self._write("dynamic", self._dynamic_table())
        self.content[:_HEADER_BYTES] = self._header()
        self.content[_HEADER_BYTES : _HEADER_BYTES + _SEGMENTS * _SEGMENT_BYTES] = self._segments()
        return bytes(self.content)

    def _write(self, key: str, data: bytes) -> None:
        at = self.offsets[key]
        self.content[at : at + len(data)] = data

    def _symbol_table(self) -> bytes:
        image = self.image
        foreign = [(0, 0, 0)] * len(image.foreign)
        own = [(1, image.position_of(name), image.size_of(name)) for name in self.exports]
        rows = zip(self.names, (*foreign, *own), strict=True)
        packed = (struct.pack("<IBBHQQ", name, 0x12, 0, *symbol) for name, symbol in rows)
        return b"".join((bytes(_SYMBOL_BYTES), *packed))

    def _hash_table(self) -> bytes:
        """Return a table with one bucket: the chain goes from the last symbol to the first."""
        count = 1 + len(self.dynamic)
        chain = [0, *(max(0, number - 1) for number in range(1, count))]
        return struct.pack(f"<{3 + count}I", 1, count, count - 1, *chain)

    def _dynamic_table(self) -> bytes:
        strings, relocations = len(self.strings), len(self.relocations)
        rows = [
            *((1, name) for name in self.needed),
            *((14, self.name), (4, self.offsets["hash"]), (5, self.offsets["strings"])),
            *((6, self.offsets["symbols"]), (10, strings), (11, _SYMBOL_BYTES)),
            *self.flags,
            *((7, self.offsets["relocations"]), (8, relocations), (9, _RELA_BYTES), (0, 0)),
        ]
        return b"".join(struct.pack("<QQ", *row) for row in rows)

    def _segments(self) -> bytes:
        start, dynamic = self.data_start, self.offsets["dynamic"]
        page = self.image.machine.page
        rows = [
            (1, 5, 0, self.code_end, page),
            (1, 6, start, self.image.position - start, page),
            (2, 6, dynamic, self._dynamic_bytes, 8),
            (0x6474E551, 6, 0, 0, 16),  # PT_GNU_STACK: not executable
        ]
        return b"".join(
            struct.pack("<IIQQQQQQ", kind, flags, at, at, at, size, size, alignment)
            for kind, flags, at, size, alignment in rows
        )

    def _header(self) -> bytes:
        identity = b"\x7fELF\2\1\1" + bytes(9)
        rows = (_HEADER_BYTES, 0, 0, 64, _SEGMENT_BYTES, _SEGMENTS, 64, 0, 0)
        rest = (3, self.image.machine.number, 1, 0, *rows)
        return identity + struct.pack("<HHIQQQIHHHHHH", *rest)
