# SPDX-License-Identifier: Apache-2.0
"""Measured rows of whole models as data; the pages of `make bench-tf` and `bench-torch` show them.

All rows take hours, so they may be measured in parts. Each stands in the file as soon as it is
measured, with when and how busy the machine was, in the place of what was there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.common.programs import Timing
from benchmarks.common.whole import Measured, Side, Task


def load(path: Path) -> list[Measured]:
    """Return the rows of a file; none if there is no file."""
    if not path.exists():
        return []
    return [_row(data) for data in json.loads(path.read_text(encoding="utf-8"))]


def save(path: Path, rows: list[Measured]) -> None:
    """Write rows, one per line."""
    lines = ",\n".join(json.dumps(asdict(row)) for row in rows)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def keep(path: Path, row: Measured, order: Sequence[Task]) -> list[Measured]:
    """Put a row into a file of rows, in the place of the one that was there; return them all.

    Args:
        path: the file.
        row: as it was measured.
        order: all tasks as they are now; rows of others leave the file.
    """
    numbers = {task: number for number, task in enumerate(order)}
    rows = [old for old in load(path) if old.key != row.key and old.task in numbers]
    rows = sorted([*rows, row], key=lambda each: (each.threads, numbers[each.task]))
    save(path, rows)
    return rows


def _row(data: dict[str, Any]) -> Measured:
    sides = {
        engine: Side(**{**side, "calls": Timing(**side["calls"])})
        for engine, side in data.pop("sides").items()
    }
    return Measured(Task(**data.pop("task")), sides=sides, **data)
