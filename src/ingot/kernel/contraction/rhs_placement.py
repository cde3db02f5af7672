# SPDX-License-Identifier: Apache-2.0
"""Where a contraction reads its rhs: in place, from a packed buffer, or by dot products along k.

Packing costs a pass over the rhs and gains contiguous panels, so it pays from some number of rows
on. Dot products have their lanes along k and need no panels: they suit few rows, or few columns.

Invariant: the answer depends on the kernel, its extents and the target's vectors alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ingot.hlo.dim import ceil_div
from ingot.hlo.dtype import PRED
from ingot.kernel.contraction.operands import (
    assumed,
    has_plain_lhs,
    is_dense_along_k,
    is_plain,
    loaded,
    stride,
    unit_strides,
)
from ingot.kernel.contraction.unit_blocks import STREAM_BYTES
from ingot.kernel.ir import ContractionKernel
from ingot.llvm.machine_model import MANY_REGISTERS, Vectors

MAX_DEPTH = 1024
"""Products that are summed in one go of a packed panel, at most."""

UNPACKED_BYTES = 300_000
"""An rhs no larger than this, about a third of the L2 cache, is read in place."""

CROWDED_STEP = 2048
"""Rows that lie a multiple of this many bytes apart fall into few cache sets: the L2 cache keeps
only as many rows of a block of columns as whole rows. Packing the others made products of 64 to 192
x 784 x 512 1.3 times as fast (Xeon, one thread, 2026-11-27). Smaller L2 caches, of CPUs without
AVX-512, and register blocks of half as many rows leave no size at which they are better read in
place: against that 128 to 512 rows x 512x512 took 0.7 to 0.76 of the time, 32 to 96 rows 0.86 to
1.05, 64 to 512 rows x 256x512 0.76 to 0.96, x 64x512 0.9 to 0.96, x 64x1024 0.6, 32 times
128x64x1024 0.43 (AVX2, one thread, a loaded machine, 2026-11-29)."""

Factors = Literal["whole", "converted", "words"]
"""How dot products read operands: as they are, or converted, or several factors in a word."""

DOT_DEPTHS: Mapping[Factors, tuple[int, int, int]] = {
    "whole": (0, 128, 128),
    "converted": (0, 128, 512),
    "words": (64, 256, 512),
}
"""The least depth for each of `DOT_ROWS`. Against packing the rhs, f32 took 0.62 of the time
for 4x64x512, 0.55 to 0.78 for 8 rows of 128 to 512, 0.45 to 0.84 for 9 to 16 of 128 to 3072 (1.2
for 16x2048x64); bf16 0.65 for 8x512x1000 and 1.14 for 16x256x1000; bytes 0.73 for 4x100x400, 1.25
for 4x32x200, 0.88 for 8x256x300, 1.31 for 8x128x512, 0.79 for 16x1024x1024, 1.36 for 16x256x1000
(AVX-512, one thread, 2026-11-27)."""

DOT_ROWS, DOT_BLOCK_ROWS = (4, 8, 16), 8
"""Most rows of a product with a transposed rhs that is computed as dot products, with lanes along
k, each with its own least depth (`DOT_DEPTHS`); most rows of a block of dot products."""

FEW_ROWS = 16
"""Up to this many rows, packing the rhs costs more than it gains."""

FEW_SHORT_ROWS = 24
"""The same if rows of the rhs are shorter than the runs that memory delivers fastest. Against
packing 20x768x768 took 0.81 of the time, 24x3072x768 0.8, 20x512x512 0.89, 30x1245x820 and
40x1000x1000 as long (AVX2, one thread, 2026-11-30)."""

MIN_COLUMN_DOT_DEPTH, MAX_COLUMN_DOT_DEPTH = 64, 8192
"""Depths of convolutions of few columns that are computed as dot products too, since vectors along
n would be half empty: deep enough to pay for adding lanes, short enough to pack whole rows."""

COLUMN_CYCLES, PACKING_CYCLES, TOTAL_CYCLES = 0.58, 1.6, 1.5
"""Cycles that a vector along n takes for each row and k, that packing takes for each element of the
rhs, and that adding the lanes of a dot product takes. By dot products 256x2x256 took 0.33 of the
time, 256x4x256 0.51, 256x7x256 0.88, 256x4x64 0.6, 29x4x120 0.99, 512x4x512 0.15 (AMD EPYC with
AVX-512, one thread, 2026-11-27)."""

RhsPlacement = Literal["direct", "packed", "transposed", "dots", "packed dots"]

DOTS: tuple[RhsPlacement, ...] = ("dots", "packed dots")


def rhs_placement(
    kernel: ContractionKernel, bits: int, rows: int, vectors: Vectors, *, masks: bool
) -> RhsPlacement:
    """Return how the rhs is read; `bits` of an element, `rows` of a register block.

    `masks`: whether vectors along n may be loaded in place (`schedule`).
    """
    names = (kernel.n.name, kernel.k.name)
    if is_plain(kernel.rhs, names, kernel.accumulate):
        if has_plain_lhs(kernel) and suits_dots(kernel, "whole"):
            return "dots"
        along = stride(kernel.rhs.payload.index, kernel.n.name)
        if masks and (along == 1 or kernel.n.extent == 1) and _stays(kernel, bits, rows, vectors):
            return "direct"
    across = unit_strides(kernel.rhs, kernel.k.name) > unit_strides(kernel.rhs, kernel.n.name)
    return "transposed" if across and kernel.n.extent != 1 else "packed"


def suits_dots(kernel: ContractionKernel, factors: Factors) -> bool:
    """Whether there are few rows, and k has stride one in both operands (which are plain)."""
    m, n, k = kernel.m.extent, kernel.n.extent, kernel.k.extent
    depth = k if isinstance(k, int) else 0
    depths = zip(DOT_ROWS, DOT_DEPTHS[factors], strict=True)
    most_rows = max((rows for rows, least in depths if depth >= least), default=0)
    if not isinstance(m, int) or m > most_rows or kernel.accumulate is PRED:
        return False
    lhs, rhs = (loaded(item).payload.index for item in (kernel.lhs, kernel.rhs))
    if any(stride(index, kernel.k.name) != 1 for index in (lhs, rhs)):
        return False
    return n == 1 or stride(rhs, kernel.n.name) != 1


def suits_column_dots(kernel: ContractionKernel, lanes: int) -> bool:
    """Whether columns fill half a vector at most, and dot products are quicker with them."""
    m, n, k = (axis.extent for axis in (kernel.m, kernel.n, kernel.k))
    if kernel.accumulate is PRED or not isinstance(n, int) or not isinstance(k, int):
        return False
    if 2 * n > lanes or k > MAX_COLUMN_DOT_DEPTH:
        return False
    if kernel.patches is not None:
        return k >= MIN_COLUMN_DOT_DEPTH and kernel.patches.along_k
    if not has_plain_lhs(kernel) or stride(kernel.lhs.payload.index, kernel.k.name) != 1:
        return False
    m = assumed(m)
    packing = 0 if is_dense_along_k(kernel) else PACKING_CYCLES * n * k
    dots = m * n * (ceil_div(k, lanes) + TOTAL_CYCLES)
    return n > 1 and dots + packing < COLUMN_CYCLES * m * k


def _stays(kernel: ContractionKernel, bits: int, rows: int, vectors: Vectors) -> bool:
    """Whether reading the rhs where it lies is better than packing it."""
    m, n, k = (axis.extent for axis in (kernel.m, kernel.n, kernel.k))
    if are_few(kernel, bits, rows):
        return True
    step = stride(kernel.rhs.payload.index, kernel.k.name)
    row_bytes = step * bits // 8 if step and isinstance(step, int) else CROWDED_STEP
    is_crowded = row_bytes % CROWDED_STEP == 0
    is_plain_product = kernel.patches is None and all(isinstance(size, int) for size in (m, n, k))
    if is_crowded and step and is_plain_product and vectors.registers < MANY_REGISTERS:
        return False
    if isinstance(n, int) and isinstance(k, int) and n * k * bits // 8 <= UNPACKED_BYTES:
        return True
    if kernel.patches is not None and isinstance(n, int):
        # Patches are packed again for each block of columns; pieces of k stay in the cache.
        return n * MAX_DEPTH * bits // 8 <= UNPACKED_BYTES
    # Rows may be few; packing for few costs more than many gain by it.
    return not isinstance(m, int) and not is_crowded and isinstance(k, int)


def are_few(kernel: ContractionKernel, bits: int, rows: int) -> bool:
    """Whether there are so few rows that packing the rhs costs more than it gains."""
    m, n, most = kernel.m.extent, kernel.n.extent, max(2 * rows, FEW_ROWS)
    if isinstance(n, int) and n * bits // 8 < STREAM_BYTES[0] and kernel.patches is None:
        most = max(most, FEW_SHORT_ROWS)
    return isinstance(m, int) and m <= most
