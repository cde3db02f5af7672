# SPDX-License-Identifier: Apache-2.0
"""Serialized `jax.export` results: a FlatBuffer with a StableHLO artifact inside.

`jax.export.export(f)(...).serialize()` writes one; `formats.load` extracts the artifact and reads
it. The module needs none of the rest (trees, shardings, gradients): its parameters are the
flattened arguments that the function uses.

Invariant: any bytes are allowed; offsets outside the data mean that it is no such file.
Source: jax/_src/export/serialization.fbs; the FlatBuffers internals page.
"""

from __future__ import annotations

import struct

from ingot.formats.stablehlo.binding import is_bytecode
from ingot.support.diagnostics import ParseError

_MOST_FIELDS = 64
"""Fields of a table at most: far more than JAX's has."""


def artifact_of(data: bytes) -> bytes | None:
    """Return the StableHLO inside a `jax.export` artifact; None if the data is something else.

    It is the field of the root table that is a vector of bytes and begins as MLIR bytecode does.
    """
    try:
        (table,) = struct.unpack_from("<I", data, 0)
        (back,) = struct.unpack_from("<i", data, table)
        start = table - back
        if start < 0:
            return None
        (size,) = struct.unpack_from("<H", data, start)
        count = min(size // 2 - 2, _MOST_FIELDS)
        fields = struct.unpack_from(f"<{max(0, count)}H", data, start + 4)
        return next(filter(None, (_bytes_at(data, table + at) for at in fields if at)), None)
    except struct.error:
        return None


def _bytes_at(data: bytes, at: int) -> bytes | None:
    """Return the bytecode that a field refers to, None if it refers to something else."""
    if at + 4 > len(data):
        return None
    (offset,) = struct.unpack_from("<I", data, at)
    start = at + offset
    if start + 8 > len(data):
        return None
    (size,) = struct.unpack_from("<I", data, start)
    found = data[start + 4 : start + 4 + size]
    return found if len(found) == size and is_bytecode(found) else None


def require_artifact(data: bytes) -> bytes:
    """Return the StableHLO inside a `jax.export` artifact.

    Raises:
        ParseError: INGOT0120 there is none.
    """
    found = artifact_of(data)
    if found is None:
        raise ParseError(
            "this is not what jax.export writes: there is no StableHLO inside",
            code="INGOT0120",
            hint="write it with jax.export.export(f)(...).serialize()",
        )
    return found
