# SPDX-License-Identifier: Apache-2.0
"""Lanes run along the axis that reads memory in whole pieces; short rows run side by side."""

import numpy as np

import ingot
from ingot.client import Executable


def compiled(body: str) -> Executable:
    return ingot.compile(ingot.parse_hlo(f"HloModule m\n{body}"))


ROW_TIMES_MATRIX = """
ENTRY main {
  x = f32[1,300] parameter(0)
  w = f32[300,700] parameter(1)
  ROOT y = f32[1,700] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""

SUM_OF_EXPONENTIALS = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY main {
  x = f32[ROWS,10] parameter(0)
  e = f32[ROWS,10] exponential(x)
  zero = f32[] constant(0)
  ROOT s = f32[ROWS] reduce(e, zero), dimensions={1}, to_apply=add
}
"""


def test_a_row_times_a_matrix_gathers_nothing():
    executable = compiled(ROW_TIMES_MATRIX)
    assert "gather" not in executable.as_text("llvm")
    generator = np.random.default_rng(0)
    x, w = generator.random((1, 300), np.float32), generator.random((300, 700), np.float32)
    np.testing.assert_allclose(executable(x, w), x @ w, 1e-5)


def test_short_rows_are_computed_side_by_side_where_there_are_many():
    for rows, side_by_side in ((128, True), (8, False)):
        executable = compiled(SUM_OF_EXPONENTIALS.replace("ROWS", str(rows)))
        assert ("gather" in executable.as_text("llvm")) is side_by_side
        x = np.random.default_rng(0).standard_normal((rows, 10), np.float32)
        np.testing.assert_allclose(executable(x), np.exp(x).sum(1), 1e-5)


def test_tall_column_sums_are_shared_out():
    executable = compiled(
        SUM_OF_EXPONENTIALS.replace("ROWS,10", "4096,256")
        .replace("ROWS", "256")
        .replace("dimensions={1}", "dimensions={0}")
    )
    # Few columns and many rows: parts of the rows first, then their sums.
    assert "_part" in executable.as_text("llvm")
    x = np.random.default_rng(0).standard_normal((4096, 256), np.float32)
    np.testing.assert_allclose(executable(x), np.exp(x).sum(0), 1e-4)


EMBEDDING_BAG = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY main {
  t = f32[90,WIDTH] parameter(0)
  i = s32[40,7,1] parameter(1)
  g = f32[40,7,WIDTH] gather(t, i), offset_dims={2}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=2, slice_sizes={1,WIDTH}
  zero = f32[] constant(0)
  ROOT s = f32[40,WIDTH] reduce(g, zero), dimensions={1}, to_apply=add
}
"""


def test_sums_of_gathered_rows_run_along_the_rows():
    """The table is read in whole pieces then; along the places of rows lanes would be gathered."""
    for width in (1, 3, 16, 100):
        executable = compiled(EMBEDDING_BAG.replace("WIDTH", str(width)))
        assert ("gather" in executable.as_text("llvm")) is (width == 1)
        generator = np.random.default_rng(width)
        table = generator.integers(0, 9, (90, width)).astype(np.float32)
        places = generator.integers(0, 90, (40, 7, 1)).astype(np.int32)
        np.testing.assert_array_equal(executable(table, places), table[places[..., 0]].sum(1))
