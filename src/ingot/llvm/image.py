# SPDX-License-Identifier: Apache-2.0
"""Objects laid out side by side, with the distances between their parts written in.

It is between `elf`, which reads objects, and the code that makes them runnable: `linking` maps an
image into the process, `shared_library` writes one to a file. Read-only and executable sections
come first, then, on pages of their own, writable ones. Symbols that the objects do not define are
reached through slots that hold addresses, and functions by jumps through those slots.

Invariant: positions are relative to the image's start; the code that knows the start fills in
addresses (`pointers`, `imports`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.llvm.elf import WRITE, ElfObject, Relocation, Symbol
from ingot.llvm.relocations import MACHINES, X86_64
from ingot.support.diagnostics import InternalError

PAGE = 4096
SLOT_BYTES = 8
_TABLE = "_GLOBAL_OFFSET_TABLE_"


class Image:
    """The image under construction.

    Attributes:
        objects: the objects whose sections it holds.
        machine: the target of all of them.
        foreign: names that no object defines.
        position: offset of the next part; at the end, the size.
        pointers: fields with an address in the image: (offset of the field, offset it points to).
        imports: fields with the address of a foreign symbol: (offset, name, addend).
    """

    def __init__(self, objects: Sequence[bytes]) -> None:
        """Read the objects; `place_code` and `place_data` lay them out.

        Objects of two programs may define the same function, as kernels of one form share code: its
        name says all that it does, and the first is taken.
        """
        self.objects = [ElfObject(data) for data in objects]
        self.machine = self.objects[0].machine if self.objects else MACHINES[X86_64]
        self._relocations = [source.relocations() for source in self.objects]
        self._home: dict[str, tuple[int, Symbol]] = {}
        for number, source in enumerate(self.objects):
            for symbol in source.symbols:
                if symbol.section and symbol.name and symbol.is_global:
                    self._home.setdefault(symbol.name, (number, symbol))
        needed = dict.fromkeys(name for source in self.objects for name in source.undefined)
        self.foreign = tuple(name for name in needed if name not in self._home and name != _TABLE)
        self._foreign = frozenset(self.foreign)
        self.position = 0
        self.pointers: list[tuple[int, int]] = []
        self.imports: list[tuple[int, str, int]] = []
        self._offsets: dict[tuple[int, int], int] = {}
        self._slots = self._jumps = 0
        self._slot_numbers: dict[str, int] = {}
        self._jump_numbers: dict[str, int] = {}

    @property
    def defined(self) -> tuple[str, ...]:
        """The symbols that the objects define for others."""
        return tuple(self._home)

    def reserve(self, size: int, alignment: int = 16) -> int:
        """Return the position of the next part of this size."""
        at = self.position + -self.position % max(1, alignment)
        self.position = at + size
        return at

    def place_code(self) -> None:
        """Lay out read-only and executable sections, then the jumps."""
        self._place_sections(writable=False)
        jumped: dict[str, None] = {}
        for relocations in self._relocations:
            for relocation in relocations:
                name = relocation.symbol.name
                if relocation.kind in self.machine.slots:
                    self._slot_numbers.setdefault(name, len(self._slot_numbers))
                elif relocation.kind != self.machine.absolute and name in self._foreign:
                    jumped[name] = None
        for name in jumped:
            self._slot_numbers.setdefault(name, len(self._slot_numbers))
        self._jump_numbers = {name: number for number, name in enumerate(jumped)}
        self._jumps = self.reserve(self.machine.jump_bytes * len(jumped))

    def place_data(self) -> None:
        """Lay out writable sections."""
        self._place_sections(writable=True)

    def place_slots(self) -> None:
        """Lay out the slots."""
        self._slots = self.reserve(SLOT_BYTES * len(self._slot_numbers))

    def _place_sections(self, writable: bool) -> None:
        for number, source in enumerate(self.objects):
            for index in source.loaded:
                section = source.sections[index]
                if bool(section.flags & WRITE) == writable:
                    self._offsets[number, index] = self.reserve(section.size, section.alignment)

    @property
    def most_addresses(self) -> int:
        """The largest number of addresses to be filled in."""
        kinds = (item.kind for relocations in self._relocations for item in relocations)
        return len(self._slot_numbers) + sum(kind == self.machine.absolute for kind in kinds)

    def position_of(self, name: str) -> int:
        """Return the position of a symbol that the objects define."""
        number, symbol = self._home[name]
        return self._offsets[number, symbol.section] + symbol.value

    def size_of(self, name: str) -> int:
        """Return its bytes."""
        return self._home[name][1].size

    def content(self) -> bytearray:
        """Return the image once it is laid out; `pointers` and `imports` are left to fill."""
        content = bytearray(self.position)
        for (number, index), at in self._offsets.items():
            source = self.objects[number]
            section = source.sections[index]
            content[at : at + section.size] = source.bytes_of(section)
        for name, number in self._jump_numbers.items():
            at = self._jumps + number * self.machine.jump_bytes
            self.machine.jump(content, at, self._slot(name))
        for name in self._slot_numbers:
            if name in self._home:
                self.pointers.append((self._slot(name), self.position_of(name)))
            else:
                self.imports.append((self._slot(name), name, 0))
        for number, relocations in enumerate(self._relocations):
            for relocation in relocations:
                self._relocate(content, number, relocation)
        return content

    def _slot(self, name: str) -> int:
        return self._slots + SLOT_BYTES * self._slot_numbers[name]

    def _relocate(self, content: bytearray, number: int, relocation: Relocation) -> None:
        section, offset, kind, symbol, addend = relocation
        at = self._offsets[number, section] + offset
        machine = self.machine
        if kind == machine.absolute and symbol.name in self._foreign:
            self.imports.append((at, symbol.name, addend))
            return
        if kind == machine.absolute:
            self.pointers.append((at, self._target(number, symbol) + addend))
            return
        is_slot = kind in machine.slots
        found = self._slot(symbol.name) if is_slot else self._target(number, symbol)
        if not machine.write(content, at, kind, found + addend):
            raise InternalError(
                f"relocation {kind} of '{symbol.name}' does not occur in position-independent code",
                code="INGOT0931",
            )

    def _target(self, number: int, symbol: Symbol) -> int:
        """Return the position of a symbol, or of the jump to it."""
        if symbol.section:
            return self._offsets[number, symbol.section] + symbol.value
        if symbol.name in self._home:
            return self.position_of(symbol.name)
        return self._jumps + self.machine.jump_bytes * self._jump_numbers[symbol.name]
