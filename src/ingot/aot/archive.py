# SPDX-License-Identifier: Apache-2.0
"""A static archive (`libNAME.a`) of one object, with the index that linkers need.

This is the last step of `build`, for linking with `-lNAME`. Invariant: equal objects give equal
bytes, since the archive names no time and no user.

Source: ar(5), the System V variant that GNU ld and lld read.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

_MAGIC = b"!<arch>\n"


def archive_of(data: bytes, member: str, symbols: Sequence[str]) -> bytes:
    """Return an archive.

    Args:
        data: the object.
        member: its name in the archive, at most 15 characters.
        symbols: the global symbols that it defines.
    """
    names = b"".join(symbol.encode() + b"\0" for symbol in symbols)
    index_bytes = 4 + 4 * len(symbols) + len(names)
    at = len(_MAGIC) + 60 + index_bytes + index_bytes % 2
    index = struct.pack(f">{1 + len(symbols)}I", len(symbols), *(at for _ in symbols)) + names
    return _MAGIC + _member("/", index) + _member(f"{member}/", data)


def _member(name: str, data: bytes) -> bytes:
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'644':<8}{len(data):<10}`\n"
    return head.encode() + data + b"\n" * (len(data) % 2)
