# SPDX-License-Identifier: Apache-2.0
"""Section headers for a shared library, so that linkers can read it, not only loaders.

`llvm.shared_library` writes the segments, which the system's loader needs; `cc main.c -lNAME` needs
sections. They are derived from the dynamic segment and appended to the file here.

Source: the ELF-64 object file format; the System V ABI, dynamic linking.
"""

from __future__ import annotations

import struct

_PROGBITS, _STRTAB, _HASH, _DYNAMIC, _DYNSYM = 1, 3, 5, 6, 11
_ALLOCATE, _WRITE, _EXECUTE = 2, 1, 4
_TAG_HASH, _TAG_STRINGS, _TAG_SYMBOLS, _TAG_STRING_BYTES = 4, 5, 6, 10
_NAMES = (".text", ".dynstr", ".dynsym", ".hash", ".dynamic", ".shstrtab")


def with_sections(library: bytes) -> bytes:
    """Return a library of `link_shared` with section headers; the segments are unchanged.

    Section 1 is the first segment, which is what symbols of the library say they lie in.
    """
    segments = list(struct.iter_unpack("<IIQQQQQQ", library[64 : 64 + 4 * 56]))
    code, dynamic = segments[0], segments[2]
    tags = dict(struct.iter_unpack("<QQ", library[dynamic[2] : dynamic[2] + dynamic[5]]))
    hashed = tags[_TAG_HASH]
    (count,) = struct.unpack_from("<I", library, hashed + 4)
    names = b"\0" + b"".join(name.encode() + b"\0" for name in _NAMES)
    strings = len(library)
    rows = [
        (_PROGBITS, _ALLOCATE | _EXECUTE, code[2], code[5], 0, 0, 16, 0),
        (_STRTAB, _ALLOCATE, tags[_TAG_STRINGS], tags[_TAG_STRING_BYTES], 0, 0, 1, 0),
        (_DYNSYM, _ALLOCATE, tags[_TAG_SYMBOLS], 24 * count, 2, 1, 8, 24),
        (_HASH, _ALLOCATE, hashed, 4 * (3 + count), 3, 0, 4, 4),
        (_DYNAMIC, _ALLOCATE | _WRITE, dynamic[2], dynamic[5], 2, 0, 8, 16),
        (_STRTAB, 0, strings, len(names), 0, 0, 1, 0),
    ]
    headers = bytearray(64)
    for name, row in zip(_NAMES, rows, strict=True):
        kind, flags, at, size, *rest = row
        address = at if flags & _ALLOCATE else 0
        headers += struct.pack(
            "<IIQQQQIIQQ", names.index(name.encode()), kind, flags, address, at, size, *rest
        )
    gap = -(strings + len(names)) % 8
    made = bytearray(library + names + bytes(gap) + headers)
    struct.pack_into("<Q", made, 40, strings + len(names) + gap)
    struct.pack_into("<HHH", made, 58, 64, len(rows) + 1, len(rows))
    return bytes(made)
