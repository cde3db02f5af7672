# SPDX-License-Identifier: Apache-2.0
"""Where the nodes of a drawn graph stand: in layers, each below what it needs.

The report's page and `tools/fusion_picture.py` draw with it.

Example:
    >>> layers([(), (0,), (0,), (1, 2)])
    [[0], [1, 2], [3]]
"""

from __future__ import annotations

from collections.abc import Sequence


def layers(needs: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return nodes by depth, each layer ordered by where its needs stand.

    Args:
        needs: for each node, the nodes that it needs; all of smaller number.
    """
    depth: list[int] = []
    for row in needs:
        depth.append(1 + max((depth[need] for need in row), default=-1))
    rows: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    place: dict[int, float] = {}
    for number, level in enumerate(depth):
        rows[level].append(number)
    for row in rows:
        row.sort(key=lambda n: sum(place[m] for m in needs[n]) / max(1, len(needs[n])))
        for at, number in enumerate(row):
            place[number] = (at + 0.5) / len(row)
    return rows


def curve(start: tuple[float, float], end: tuple[float, float]) -> str:
    """Return the SVG path of a line that leaves downwards and arrives from above."""
    (x0, y0), (x1, y1) = start, end
    middle = (y0 + y1) / 2
    return f"M{x0:.1f} {y0:.1f}C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
