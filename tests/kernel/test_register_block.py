# SPDX-License-Identifier: Apache-2.0
"""Register blocks: every row and column is in one, and registers hold them."""

import pytest

from ingot.analysis.library import VECTORS
from ingot.kernel.contraction.register_block import FEW_ROWS, BlockSearch, most_rows
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
    assert found.rest_vectors(n) <= found.vectors


def test_the_common_width_is_kept_unless_another_saves_much():
    assert BlockSearch(16, WIDE).even(128, 256).vectors == VECTORS
    assert BlockSearch(16, WIDE).even(64, 48).vectors == 3
    assert BlockSearch(16, WIDE).even(FEW_ROWS, 768).vectors > VECTORS
    assert BlockSearch(16, WIDE).even(100, 10).vectors == 1
