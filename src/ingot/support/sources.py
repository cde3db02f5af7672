# SPDX-License-Identifier: Apache-2.0
"""A stamp of Ingot's own sources, for caches whose entries depend on them.

Such an entry is determined by a name and by the code of Ingot. Invariant: a process that may have
imported older code than the disk has now gets no stamp.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ingot.support import BEGAN

SETTLED_SECONDS = 60.0
"""Seconds before the start of the process: sources that changed later may be newer than its
code."""


@cache
def sources_stamp(packages: tuple[str, ...]) -> str:
    """Return a text that changes whenever a source file of these packages of Ingot does.

    It is empty if one has changed so recently that the code in memory may be older.
    """
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    found = sorted(status for name in packages for status in _package(root / name))
    for path, size, changed in found:
        digest.update(f"{path}|{size}|{changed}\n".encode())
    newest = max(changed for _, _, changed in found) / 1e9
    return digest.hexdigest() if newest + SETTLED_SECONDS < BEGAN else ""


@cache
def _package(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Return path, bytes and time of change (ns) of every source file of a package.

    Stamps share packages, whose files are looked at once in a process.
    """
    return tuple(_sources(folder))


def _sources(folder: Path | str) -> Iterator[tuple[str, int, int]]:
    """Yield path, bytes and time of change (ns) of every source file."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _sources(entry.path)
            elif entry.name.endswith(".py"):
                status = entry.stat()
                yield entry.path, status.st_size, status.st_mtime_ns
