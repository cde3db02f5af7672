"""Register blocks of contractions: how many rows and columns of sums a micro-kernel holds.

Invariant: the sums, one row of the rhs and one element of the lhs fit into the target's registers;
a block that spills runs at 80 % of the speed.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.kernel.schedule import Vectors

VECTORS = 2
"""Vectors per row of the register blocks of plain products."""


def register_block(m: int, n: int, lanes: int, vectors: Vectors) -> tuple[int, int]:
    """Return (rows, columns) of the register block with the fewest cycles for the extents."""
    shapes = list(_shapes(m, n, lanes, vectors))
    rows, count = min(
        shapes, key=lambda shape: (_cycles(m, n, lanes, *shape), -shape[0] * shape[1])
    )
    return rows, lanes * count


def least_cycles(m: int, n: int, lanes: int, vectors: Vectors) -> float:
    """Return the cycles of one k with the register block that suits the extents best."""
    return min(_cycles(m, n, lanes, *shape) for shape in _shapes(m, n, lanes, vectors))


def most_rows(count: int, vectors: Vectors) -> int:
    """Return the rows of a register block of `count` vectors a row that registers hold."""
    # Without FMA a product needs a register of its own.
    spare = 1 if vectors.bits > 128 else 2
    return (vectors.registers - 1 - count - spare) // count


def _shapes(m: int, n: int, lanes: int, vectors: Vectors) -> Iterator[tuple[int, int]]:
    for count in (1, 2, 3, 4, 6, 8, 12, 16, 24):
        if count > 1 and ((count - 1) * lanes >= n or count + 4 > vectors.registers):
            return
        for rows in range(1, max(1, min(most_rows(count, vectors), m)) + 1):
            yield rows, count


def _cycles(m: int, n: int, lanes: int, rows: int, count: int) -> float:
    """Return the cycles of one k over all register blocks."""
    columns = -(-n // lanes)
    full_rows, left_rows = divmod(m, rows)
    full_columns, left_columns = divmod(columns, count)
    return (
        full_rows * full_columns * block_cycles(rows, count)
        + full_rows * block_cycles(rows, left_columns)
        + full_columns * block_cycles(left_rows, count)
        + block_cycles(left_rows, left_columns)
    )


def block_cycles(rows: int, count: int) -> float:
    """Return the cycles of one k of a register block: products, loads, latency."""
    if not rows or not count:
        return 0.0
    return max(rows * count / 2, (rows + count) * 0.55, 4.0) + 0.1
