# SPDX-License-Identifier: Apache-2.0
"""The layout of a drawn graph: nodes in layers, each below the nodes that it needs.

The report's page and `tools/fusion_picture.py` use it.

Example:
    >>> layers([(), (0,), (0,), (1, 2)])
    [[0], [1, 2], [3]]
"""

from __future__ import annotations

from collections.abc import Sequence


def layers(needs: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return nodes by depth, each layer ordered by the positions of the nodes' needs.

    Args:
        needs: for each node, the nodes that it needs; all of smaller number.
    """
    depth: list[int] = []
    for row in needs:
        depth.append(1 + max((depth[need] for need in row), default=-1))
    rows: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    position: dict[int, float] = {}
    for number, level in enumerate(depth):
        rows[level].append(number)
    for row in rows:
        row.sort(key=lambda n: sum(position[m] for m in needs[n]) / max(1, len(needs[n])))
        for at, number in enumerate(row):
            position[number] = (at + 0.5) / len(row)
    return rows


def curve(start: tuple[float, float], end: tuple[float, float]) -> str:
    """Return the SVG path of a line that leaves downwards and arrives from above."""
    (x0, y0), (x1, y1) = start, end
    middle = (y0 + y1) / 2
    return f"M{x0:.1f} {y0:.1f}C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
