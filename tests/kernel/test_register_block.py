# SPDX-License-Identifier: Apache-2.0
"""Register blocks: every row and column is in one, and registers hold them."""

import pytest

from ingot.analysis.library import VECTORS
from ingot.kernel.contraction.register_block import (
    FEW_ROWS,
    BlockSearch,
    most_rows,
    narrow_lanes,
)
from ingot.llvm.machine_model import Vectors

WIDE, NARROW = Vectors(512, 32), Vectors(256, 16)


@pytest.mark.parametrize("vectors", [WIDE, NARROW])
@pytest.mark.parametrize("m", [1, 2, 5, 6, 13, 15, 29, 64, 100, 1000])
@pytest.mark.parametrize("n", [1, 3, 16, 17, 48, 80, 768])
def test_blocks_cover_all_rows_and_columns(m, n, vectors):
    lanes = vectors.lanes(32, 1)
    found = BlockSearch(lanes, vectors).even(m, n)
    assert found.tall * (found.low + 1) + (found.row_blocks - found.tall) * found.low == m
    assert found.rows <= max(1, most_rows(found.vectors, vectors))
    assert found.columns < n + lanes * found.vectors


@pytest.mark.parametrize(("n", "vectors", "rows"), [(20, 2, 10), (40, 3, 7), (8, 1, 29)])
def test_blocks_with_a_narrow_vector_leave_registers_free(n, vectors, rows):
    found = BlockSearch(16, WIDE).even(1000, n)
    assert found.vectors == vectors
    assert found.rows <= rows
    assert narrow_lanes(16, n, found.rows) == 8


def test_a_narrow_vector_beside_others_is_not_worth_spilling():
    assert narrow_lanes(16, 20, 14) == 0
    assert narrow_lanes(16, 20, 10) == 8
    assert narrow_lanes(16, 25, 10) == 0
    assert narrow_lanes(16, 32, 10) == 0
    assert narrow_lanes(16, 8, 28) == 8


def test_the_common_width_is_kept_unless_another_saves_much():
    assert BlockSearch(16, WIDE).even(128, 256).vectors == VECTORS
    assert BlockSearch(16, WIDE).even(64, 48).vectors == 3
    assert BlockSearch(16, WIDE).even(FEW_ROWS, 768).vectors > VECTORS
    assert BlockSearch(16, WIDE).even(100, 10).vectors == 1
