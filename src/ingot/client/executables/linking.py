# SPDX-License-Identifier: Apache-2.0
"""From an artifact for this machine to a program that can be called.

The code of a program that was just compiled is in this process already (`link`); that of one that
comes from the disk is mapped first (`load`).
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping

from ingot.artifact.artifact import Artifact
from ingot.artifact.steps import Steps
from ingot.llvm.linking import Library, link_object
from ingot.runtime.programs.program import DEFAULT_RELEASE_GIL_BYTES, Program
from ingot.support.forking import ForkLock

_lock = ForkLock()
_parts: weakref.WeakValueDictionary[bytes, Library] = weakref.WeakValueDictionary()
"""Parts of the library that programs from the disk use, by their objects."""


def link(artifact: Artifact, imports: Mapping[str, int], owner: object) -> Program:
    """Return the program of an artifact; its code lives as long as it does.

    Args:
        artifact: the program.
        imports: addresses of the functions and tables that the host program names.
        owner: what owns the memory at those addresses.
    """
    # A loop or a foreign call may run long on little data, without blocking other threads.
    patient = bool(artifact.calls) or artifact.has_loop
    release_gil_bytes = 0 if patient else DEFAULT_RELEASE_GIL_BYTES
    if isinstance(artifact.host, Steps):
        return Program.from_steps(
            artifact.info,
            artifact.host,
            imports,
            artifact.constants,
            keep_alive=owner,
            release_gil_bytes=release_gil_bytes,
        )
    calls, owners = _linked_calls(artifact)
    library = link_object([artifact.host], {**imports, **calls}, (owner, owners))
    return Program.from_library(
        artifact.info, library, artifact.constants, release_gil_bytes=release_gil_bytes
    )


def _linked_calls(artifact: Artifact) -> tuple[dict[str, int], list[object]]:
    """Return the address of every foreign call of a program, and the owners of the code."""
    if not artifact.calls:
        return {}, []
    from ingot.runtime.foreign.link import link_calls

    return link_calls(artifact.calls)


def load(artifact: Artifact) -> Program:
    """Return the program of an artifact whose code is not in this process yet."""
    parts = [_part(data) for data in artifact.parts]
    shared = _addresses(parts)
    kernels = [link_object(artifact.objects, shared)] if artifact.objects else []
    tables = {symbol: table.ctypes.data for symbol, table in artifact.tables.items()}
    imports = shared | tables | _addresses(kernels)
    return link(artifact, imports, (parts, kernels, artifact))


def _part(data: bytes) -> Library:
    """Return a part of the library, which all programs from the disk share."""
    with _lock:
        found = _parts.get(data)
        if found is None:
            found = _parts[data] = link_object([data])
        return found


def _addresses(libraries: list[Library]) -> dict[str, int]:
    """Return the address of every symbol of some libraries."""
    return {name: library.address(name) for library in libraries for name in library.symbols}
