# SPDX-License-Identifier: Apache-2.0
"""What a process holds: memory, file descriptors, threads, children; and whether that grows.

Example:
    readings = [read(os.getpid()) for _ in rounds]
    assert not growth(readings)
"""

from __future__ import annotations

import ctypes
import gc
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

_libc = ctypes.CDLL(None)


@dataclass(frozen=True, slots=True)
class Reading:
    """Attributes: resident memory in MiB, open descriptors, threads, child processes."""

    memory: float
    descriptors: int
    threads: int
    children: int


ALLOWED = Reading(memory=24.0, descriptors=0, threads=0, children=0)
"""By how much a median may grow; allocators keep some MiB more or less."""

FEWEST = 8
"""Readings of which nothing can be said."""


def settle() -> None:
    """Give back what is free, so that a reading says what is held."""
    gc.collect()
    _libc.malloc_trim(0)


def read(process: int) -> Reading:
    """Return what a process holds now."""
    folder = Path(f"/proc/{process}")
    pages = int((folder / "statm").read_text().split()[1])
    tasks = list((folder / "task").iterdir())
    children = [child for task in tasks for child in (task / "children").read_text().split()]
    return Reading(
        memory=pages * os.sysconf("SC_PAGESIZE") / 2**20,
        descriptors=len(list((folder / "fd").iterdir())),
        threads=len(tasks),
        children=len(children),
    )


def growth(readings: Sequence[Reading]) -> list[str]:
    """Return what grew between the second quarter of the readings and the last, in words.

    The first quarter is warming up: caches fill, and allocators take what they need.
    """
    if len(readings) < FEWEST:
        return []
    quarter = len(readings) // 4
    parts = readings[quarter : 2 * quarter], readings[-quarter:]
    found: list[str] = []
    for field in fields(Reading):
        before, after = (
            statistics.median(getattr(reading, field.name) for reading in part) for part in parts
        )
        if after - before > getattr(ALLOWED, field.name):
            found.append(f"{field.name} grew from {before:.1f} to {after:.1f}")
    return found
