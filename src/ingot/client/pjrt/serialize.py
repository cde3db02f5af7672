"""Serialized executables: the program and its options, compiled again when they are loaded.

The machine code comes from the object cache then; none is inside, so the CPU need not be the same.
Layout: a magic, the SHA-256 of all that follows, then version, format, options and program, each
after its length (u64, little-endian).

Invariant: bytes of another version of Ingot are refused, so that a host's own cache (JAX's
persistent compilation cache) compiles anew, and so is whatever was not written by `write_program`
as it stands: cut off, changed, or with more behind it. The checksum tells damage, not intent: see
docs/security.md.
"""

from __future__ import annotations

import hashlib
import struct

from ingot.client.pjrt.compile_options import read_compile_options
from ingot.client.pjrt.errors import INVALID_ARGUMENT, PjrtError
from ingot.client.pjrt.executables import Source

_MAGIC = b"INGOTPJRT2"
_FAMILY = _MAGIC[:-1]
_DIGEST_BYTES = 32
_FORMAT = "mlir"


def write_source(source: Source, version: str) -> bytes:
    """Return `source` as bytes."""
    return write_program(source.code, source.format, source.options.source, version)


def write_program(code: bytes, form: str, options: bytes, version: str) -> bytes:
    """Return what `write_source` returns for a program and a serialized CompileOptionsProto."""
    parts = (version.encode(), form.encode(), options, code)
    content = b"".join(struct.pack("<Q", len(part)) + part for part in parts)
    return _MAGIC + hashlib.sha256(content).digest() + content


def read_source(data: bytes, version: str) -> Source:
    """Return what `write_source` was given; PjrtError if it is of another version, or broken."""
    made_by, form, options, code = _parts(data)
    if made_by != version.encode():
        text = made_by.decode(errors="backslashreplace")
        raise _refused(f"was serialized by '{text}', this is '{version}'")
    if form != _FORMAT.encode():
        raise _refused(f"has the format {form!r}, not '{_FORMAT}'")
    return Source(code, _FORMAT, read_compile_options(options))


def _parts(data: bytes) -> list[bytes]:
    """Return the four parts of a container that is whole."""
    if not data.startswith(_MAGIC):
        is_ours = data.startswith(_FAMILY)
        raise _refused("was serialized by another version" if is_ours else "is none of Ingot")
    digest, content = data[len(_MAGIC) :][:_DIGEST_BYTES], data[len(_MAGIC) + _DIGEST_BYTES :]
    if digest != hashlib.sha256(content).digest():
        raise _refused("is damaged or cut off: its checksum is wrong")
    at, parts = 0, list[bytes]()
    while at + 8 <= len(content):
        (size,) = struct.unpack_from("<Q", content, at)
        parts.append(content[at + 8 : at + 8 + size])
        at += 8 + size
    if len(parts) != 4 or at != len(content):
        raise _refused("has parts of wrong lengths")
    return parts


def _refused(why: str) -> PjrtError:
    return PjrtError(
        INVALID_ARGUMENT, f"this serialized executable {why}; compile the program again"
    )
