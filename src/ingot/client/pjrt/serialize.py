"""Serialized executables: the program and its options, compiled again when they are loaded.

The machine code comes from the object cache then. Invariant: bytes of another version of Ingot are
refused, so that a host's own cache (JAX's persistent compilation cache) compiles anew.
"""

from __future__ import annotations

import struct

from ingot.client.pjrt.compile_options import read_compile_options
from ingot.client.pjrt.errors import INVALID_ARGUMENT, PjrtError
from ingot.client.pjrt.executables import Source

_MAGIC = b"INGOTPJRT1"


def write_source(source: Source, version: str) -> bytes:
    """Return `source` as bytes."""
    return write_program(source.code, source.format, source.options.source, version)


def write_program(code: bytes, form: str, options: bytes, version: str) -> bytes:
    """Return what `write_source` returns for a program and a serialized CompileOptionsProto."""
    parts = (version.encode(), form.encode(), options, code)
    return _MAGIC + b"".join(struct.pack("<Q", len(part)) + part for part in parts)


def read_source(data: bytes, version: str) -> Source:
    """Return what `write_source` was given; PjrtError if it is of another version, or broken."""
    if not data.startswith(_MAGIC):
        raise PjrtError(INVALID_ARGUMENT, "these bytes are no executable of Ingot")
    at, parts = len(_MAGIC), list[bytes]()
    while at + 8 <= len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        parts.append(data[at + 8 : at + 8 + size])
        at += 8 + size
    if len(parts) != 4 or at != len(data):
        raise PjrtError(INVALID_ARGUMENT, "a serialized executable of Ingot is cut off")
    made_by, form, options, code = parts
    if made_by.decode() != version:
        raise PjrtError(
            INVALID_ARGUMENT,
            f"the executable was serialized by '{made_by.decode()}', this is '{version}'",
        )
    return Source(code, form.decode(), read_compile_options(options))
