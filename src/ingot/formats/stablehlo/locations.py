# SPDX-License-Identifier: Apache-2.0
"""MLIR locations to metadata: names become `op_name`, the innermost file:line the source location.

JAX writes `loc("jit(f)/sin"(callsite("f"("a.py":3:4) at "<module>"("a.py":9:1))))`: a name on the
outside, then the frames, innermost first, each with the name of its function. TensorFlow and others
fuse several locations: their names are joined with `;`, as XLA does.

Source: xla/hlo/translate/mhlo_to_hlo/location_exporter.cc.
"""

from __future__ import annotations

from typing import Any

from ingot.hlo.instruction import NO_METADATA, Metadata

_FILE, _NAME, _CALL, _FUSED = "FileLineColLoc", "NameLoc", "CallSiteLoc", "FusedLoc"


class Locations:
    """Metadata by location, for one module (MLIR keeps one object per location)."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[Any, Metadata] = {}

    def metadata(self, location: Any) -> Metadata:
        """Return the metadata of an op at `location`."""
        key = location.attr
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = _metadata(location)
        return found


def _metadata(location: Any) -> Metadata:
    names = _names(location)
    found = _file_line(location)
    if not names and found is None:
        return NO_METADATA
    file, line = found or ("", 0)
    return Metadata(op_name=";".join(names), source_file=file, source_line=line)


def _names(location: Any) -> list[str]:
    names: list[str] = []
    stack = [location]
    while stack:
        part = stack.pop()
        kind = type(part).__name__
        if kind == _NAME:
            names.append(part.name_str)
        elif kind == _FUSED:
            stack.extend(reversed(part.locations))
    return names


def _file_line(location: Any) -> tuple[str, int] | None:
    """Return the innermost file and line."""
    stack = [location]
    while stack:
        part = stack.pop()
        kind = type(part).__name__
        if kind == _FILE:
            # MLIR has 32 bits for it, and gives those from 2^31 on as negative.
            return part.filename, max(part.start_line, 0)
        if kind == _NAME:
            stack.append(part.child_loc)
        elif kind == _CALL:
            stack += [part.caller, part.callee]
        elif kind == _FUSED:
            stack += reversed(list(part.locations))
    return None
