# SPDX-License-Identifier: Apache-2.0
"""Serialized executables: the program and its options, compiled again when they are loaded.

The machine code comes from the object cache then; the bytes have none, so the CPU need not be the
same. They are a container (`client.executables.container`) of version, format, options and program.

Invariant: bytes of another version of Ingot are refused, so that a host's own cache (JAX's
persistent compilation cache) compiles again, and so are bytes that are not exactly what
`write_program` wrote: truncated, changed, or with more at the end. The checksum detects damage, not
intent: see docs/security.md.
"""

from __future__ import annotations

from ingot.client.executables.container import pack, unpack
from ingot.client.pjrt.c_api import INVALID_ARGUMENT
from ingot.client.pjrt.compile_options import read_compile_options
from ingot.client.pjrt.errors import PjrtError
from ingot.client.pjrt.executables import Source

_MAGIC = b"INGOTPJRT2"
_FORMAT = "mlir"


def write_source(source: Source, version: str) -> bytes:
    """Return `source` as bytes."""
    return write_program(source.code, source.format, source.options.source, version)


def write_program(code: bytes, program_format: str, options: bytes, version: str) -> bytes:
    """Return what `write_source` returns for a program and a serialized CompileOptionsProto."""
    return pack(_MAGIC, (version.encode(), program_format.encode(), options, code))


def read_source(data: bytes, version: str) -> Source:
    """Return the source that `write_source` wrote.

    Raises:
        PjrtError: the bytes are of another version, or damaged.
    """
    try:
        made_by, program_format, options, code = unpack(_MAGIC, data, 4)
    except ValueError as error:
        raise _refused(str(error)) from error
    if made_by != version.encode():
        text = made_by.decode(errors="backslashreplace")
        raise _refused(f"was serialized by '{text}', this is '{version}'")
    if program_format != _FORMAT.encode():
        raise _refused(f"has the format {program_format!r}, not '{_FORMAT}'")
    return Source(code, _FORMAT, read_compile_options(options))


def _refused(why: str) -> PjrtError:
    return PjrtError(
        INVALID_ARGUMENT, f"this serialized executable {why}; compile the program again"
    )
