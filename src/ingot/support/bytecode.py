# SPDX-License-Identifier: Apache-2.0
"""The bytecode of all of Ingot's modules in one file, from which they are imported faster.

A first compilation imports hundreds of modules. For each, Python looks through a folder, opens a
file beside the source and checks it: a quarter of the time of an import. The archive lies beside
those files, in `__pycache__`, is written where Python would write them, and is believed as they
are: a module's entry holds for a source of the same size and time of change.

Invariant: a module is what Python would import without the archive. One that has no valid entry is
imported by Python's own finders.

Source: PEP 3147; importlib/_bootstrap_external.py (SourceLoader.get_code, _validate_timestamp_pyc).
"""

from __future__ import annotations

import contextlib
import importlib.util
import marshal
import mmap
import os
import struct
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

Entry = tuple[str, str, int, int, int, int]
"""Of a module: its source, in the package's folder; its cached file; the source's time of change
(s) and bytes; offset and bytes of its code."""

_INIT = "__init__.py"
_WORD = struct.Struct("<Q")
_PYC = struct.Struct("<4sIII")
"""Magic number, flags, time of change, bytes: what is before the code in a cached file."""
_MASK = 0xFFFFFFFF

MANY = 50
"""Modules imported in a process without an entry, from which on a new archive is worth a process's
time: writing one takes as long as importing 200 modules without it (Xeon, 2026-11-30)."""


class _Loader(SourceFileLoader):
    """Loads a module whose code is in the archive; all else is as for a source file."""

    code: memoryview

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the module."""
        return marshal.loads(self.code)


class Archive:
    """Finds the modules of a package that its archive has; stands in `sys.meta_path`.

    Attributes:
        missed: modules of the package that had no valid entry, so far.
    """

    def __init__(self, package: str, folder: Path) -> None:
        """Open the archive of a package in a folder, if there is one."""
        self.package = package
        self.missed = 0
        self._folder, self._root = folder, str(folder)
        # Python's name for a file of this version and this level of optimization.
        name = importlib.util.cache_from_source(str(folder / "archive.py"))
        self.path = Path(name).with_suffix(".modules")
        self._prefix = f"{package}."
        self._entries: dict[str, Entry] = {}
        self._data = memoryview(b"")
        with contextlib.suppress(OSError, ValueError, EOFError, TypeError, struct.error):
            self._open()

    def _open(self) -> None:
        with open(self.path, "rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        magic = importlib.util.MAGIC_NUMBER
        if bytes(data[: len(magic)]) != magic:
            return
        start = len(magic) + _WORD.size
        (size,) = _WORD.unpack(data[len(magic) : start])
        entries: dict[str, Entry] = marshal.loads(data[start : start + size])
        code = data[start + size :]
        if len(code) == sum(length for *_, length in entries.values()):
            self._entries, self._data = entries, code

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module with a valid entry, else None."""
        if not fullname.startswith(self._prefix):
            return None
        entry = self._entries.get(fullname)
        if entry is None:
            self.missed += 1
            return None
        source, cached, *status, offset, length = entry
        file = f"{self._root}/{source}"
        try:
            is_valid = _status(file) == tuple(status)
        except OSError:
            return None
        if not is_valid:
            self.missed += 1
            return None
        loader = _Loader(fullname, file)
        loader.code = self._data[offset : offset + length]
        spec = ModuleSpec(fullname, loader, origin=file)
        spec.has_location = True
        spec.cached = cached
        if source.endswith(_INIT):
            spec.submodule_search_locations = [os.path.dirname(file)]
        return spec

    def renew(self) -> None:
        """Write the archive anew if this process missed many modules in it.

        It has the modules whose cached file is valid now. Nothing is written where Python writes
        no such files, and errors of the file system are ignored, as Python does.
        """
        if self.missed < MANY or sys.dont_write_bytecode or not os.access(self._folder, os.W_OK):
            return
        self.missed = 0
        with contextlib.suppress(OSError):
            self.write()

    def write(self) -> None:
        """Write the archive; processes that have the one before keep it."""
        entries: dict[str, Entry] = {}
        parts: list[bytes] = []
        offset = 0
        for name, source in sorted(self._sources()):
            cached = importlib.util.cache_from_source(str(source))
            with contextlib.suppress(OSError, struct.error):
                status, data = _status(str(source)), Path(cached).read_bytes()
                if _PYC.unpack_from(data) == (importlib.util.MAGIC_NUMBER, 0, *status):
                    files = (str(source.relative_to(self._folder)), cached)
                    entries[name] = (*files, *status, offset, len(data) - _PYC.size)
                    parts.append(data[_PYC.size :])
                    offset += len(parts[-1])
        index = marshal.dumps(entries)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(f".{os.getpid()}")
        try:
            with open(part, "xb") as file:
                file.write(importlib.util.MAGIC_NUMBER + _WORD.pack(len(index)) + index)
                file.writelines(parts)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self.path)
        finally:
            part.unlink(missing_ok=True)

    def _sources(self) -> Iterator[tuple[str, Path]]:
        """Yield the name and the source of every module below the package."""
        for source in self._folder.rglob("*.py"):
            parts = source.relative_to(self._folder).with_suffix("").parts
            if parts[-1] == "__init__":
                parts = parts[:-1]
            if parts:
                yield ".".join((self.package, *parts)), source


def _status(source: str) -> tuple[int, int]:
    """Return the time of change (s) and the bytes of a source, as cached files have them."""
    status = os.stat(source)
    return int(status.st_mtime) & _MASK, status.st_size & _MASK


@cache
def archive() -> Archive:
    """Return the archive of Ingot's modules, from which modules are imported from now on."""
    made = Archive("ingot", Path(__file__).parents[1])
    finders: list[Any] = sys.meta_path
    finders.insert(0, made)
    return made
