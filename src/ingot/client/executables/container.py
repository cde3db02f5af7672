# SPDX-License-Identifier: Apache-2.0
"""A container of byte strings that detects damage: the format of serialized executables.

Layout: a magic, the SHA-256 of all that follows, then the parts, each after its length (u64,
little-endian). The checksum detects damage, not intent: see docs/security.md.

Example:
    >>> unpack(b"MAGIC1", pack(b"MAGIC1", (b"a", b"bc")), 2)
    [b'a', b'bc']
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable

_DIGEST_BYTES = 32


def pack(magic: bytes, parts: Iterable[bytes]) -> bytes:
    """Return the container of `parts`; the magic's last byte is the layout's version."""
    content = b"".join(struct.pack("<Q", len(part)) + part for part in parts)
    return magic + hashlib.sha256(content).digest() + content


def unpack(magic: bytes, data: bytes, count: int) -> list[bytes]:
    """Return the `count` parts of a container.

    Raises:
        ValueError: it is no such container, or incomplete; the text is the continuation of "it ".
    """
    if not data.startswith(magic):
        is_ours = data.startswith(magic[:-1])
        raise ValueError("was serialized by another version" if is_ours else "is none of Ingot")
    digest, content = data[len(magic) :][:_DIGEST_BYTES], data[len(magic) + _DIGEST_BYTES :]
    if digest != hashlib.sha256(content).digest():
        raise ValueError("is damaged or cut off: its checksum is wrong")
    at, parts = 0, list[bytes]()
    while at + 8 <= len(content):
        (size,) = struct.unpack_from("<Q", content, at)
        parts.append(content[at + 8 : at + 8 + size])
        at += 8 + size
    if len(parts) != count or at != len(content):
        raise ValueError("has parts of wrong lengths")
    return parts
