# SPDX-License-Identifier: Apache-2.0
"""Relocations by machine: how a distance is written into code of x86-64 and of AArch64.

Used by `image`, which has the positions. `MACHINES` is the table: relocations that are 64-bit
addresses, those through a slot, and the code of a jump through a slot.

Invariant: only position-independent relocations are known; `write` refuses all others, and those
whose distance does not fit.

Source: the System V ABI, x86-64 supplement; ELF for the Arm 64-bit Architecture (AArch64).
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from ingot.support.diagnostics import InternalError
from ingot.support.records import record

X86_64, AARCH64 = 62, 183


@record
class Machine:
    """One ELF machine.

    Attributes:
        number: ELF's number of it.
        absolute: relocation that is an address of 64 bits, in objects and for the loader.
        relative: the loader's relocation that adds the library's base address.
        slots: relocations whose destination is the slot that holds the symbol's address.
        page: the largest page size of its systems: the distance of segments in files.
        jump_bytes: bytes of a jump through a slot.
        jump: writes one: (content, position, position of the slot).
        write: writes a distance: (content, position, relocation, position of the destination).
            False: this is no relocation of position-independent code.
    """

    number: int
    absolute: int
    relative: int
    slots: frozenset[int]
    page: int
    jump_bytes: int
    jump: Callable[[bytearray, int, int], None]
    write: Callable[[bytearray, int, int, int], bool]


def _x86_jump(content: bytearray, at: int, slot: int) -> None:
    # jmp *slot(%rip), padded
    struct.pack_into("<Hi", content, at, 0x25FF, slot - (at + 6))


_X86_DISTANCES = frozenset({2, 4, 9, 41, 42})  # PC32, PLT32, GOTPCREL and its relaxable forms


def _x86_write(content: bytearray, at: int, kind: int, destination: int) -> bool:
    if kind not in _X86_DISTANCES:
        return False
    struct.pack_into("<i", content, at, destination - at)
    return True


_ADR_GOT_PAGE, _LD64_GOT_LO12 = 311, 312
_PREL64, _PREL32 = 260, 261
_ADR_PAGES = (275, _ADR_GOT_PAGE)
_LOW_BITS = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4, _LD64_GOT_LO12: 3}
"""Relocations of an address's low 12 bits, and the scale of the instruction's immediate."""
_BRANCHES = (282, 283)


def _arm_jump(content: bytearray, at: int, slot: int) -> None:
    # adrp x16, slot; ldr x17, [x16, :lo12:slot]; br x17
    struct.pack_into("<IIII", content, at, 0x90000010, 0xF9400211, 0xD61F0220, 0xD503201F)
    _arm_write(content, at, _ADR_GOT_PAGE, slot)
    _arm_write(content, at + 4, _LD64_GOT_LO12, slot)


def _arm_write(content: bytearray, at: int, kind: int, destination: int) -> bool:
    if kind == _PREL64:
        struct.pack_into("<q", content, at, destination - at)
    elif kind == _PREL32:
        struct.pack_into("<i", content, at, destination - at)
    elif kind in _ADR_PAGES:
        pages = _fitting((destination >> 12) - (at >> 12), 21)
        _insert(content, at, (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5)
    elif kind in _LOW_BITS:
        _insert(content, at, (destination & 0xFFF) >> _LOW_BITS[kind] << 10)
    elif kind in _BRANCHES:
        _insert(content, at, _fitting((destination - at) >> 2, 26) & 0x3FFFFFF)
    else:
        return False
    return True


def _fitting(distance: int, bits: int) -> int:
    """Return a distance that an instruction's field holds."""
    if not -(1 << (bits - 1)) <= distance < 1 << (bits - 1):
        raise InternalError(f"a distance of {distance} units is too long for {bits} bits")
    return distance


def _insert(content: bytearray, at: int, bits: int) -> None:
    """Set the field of an instruction, which objects leave zero."""
    (word,) = struct.unpack_from("<I", content, at)
    struct.pack_into("<I", content, at, word | bits)


MACHINES = {
    X86_64: Machine(X86_64, 1, 8, frozenset({9, 41, 42}), 1 << 12, 8, _x86_jump, _x86_write),
    AARCH64: Machine(AARCH64, 257, 1027, frozenset({311, 312}), 1 << 16, 16, _arm_jump, _arm_write),
}
"""Machines by ELF's number."""
