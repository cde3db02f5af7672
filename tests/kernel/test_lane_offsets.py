# SPDX-License-Identifier: Apache-2.0
"""Offsets of lanes: what evaluation at every lane gives, or None."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ingot
from ingot.hlo.dim import Dim, evaluate, floordiv, mod
from ingot.hlo.dtype import dtype
from ingot.kernel.analysis.lane_offsets import (
    cover,
    first_lane,
    holds_anywhere,
    lane_offsets,
    runs,
)

LANE, ROW = Dim.symbol("@1"), Dim.symbol("@0")

factors = st.integers(1, 40)


@given(
    st.lists(st.tuples(st.sampled_from(["linear", "div", "mod"]), factors, factors), max_size=3),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.integers(0, 30),
    st.integers(0, 9),
)
def test_offsets_are_differences(terms, lanes, aligned, shift, row):
    where = 7 * ROW + shift
    for kind, factor, divisor in terms:
        inner = LANE + 8 * ROW + shift
        part = {"linear": LANE, "div": floordiv(inner, divisor), "mod": mod(inner, divisor)}[kind]
        where = where + factor * part
    found = lane_offsets(where, "@1", lanes, aligned)
    for start in range(0, 3 * aligned, aligned):
        values = [evaluate(where, {"@0": row, "@1": start + lane}) for lane in range(lanes)]
        if found is not None:
            assert found == tuple(value - values[0] for value in values)


def test_heads_are_pieces():
    where = 4096 * floordiv(LANE, 32) + mod(LANE, 32)
    found = lane_offsets(where, "@1", 64, 64)
    assert found is not None
    assert runs(found, 4) == 2
    assert lane_offsets(where, "@1", 64, 1) is None
    assert holds_anywhere(where, "@1")
    assert not holds_anywhere(floordiv(LANE - 1, 32), "@1")
    assert not holds_anywhere(floordiv(8 + mod(LANE - 1, 3), 2), "@1")


def test_a_long_row_is_one_piece():
    where = 4096 * floordiv(LANE, 128) + mod(LANE, 128)
    assert runs(lane_offsets(where, "@1", 64, 64), 4) == 1


def test_run_time_steps_are_not_known():
    assert lane_offsets(LANE * Dim.symbol("n"), "@1", 8, 8) is None
    assert lane_offsets(ROW * Dim.symbol("n"), "@1", 8, 8) == (0,) * 8


@pytest.mark.parametrize("heads", [2, 3, 4])
@pytest.mark.parametrize("width", [8, 32, 48])
def test_heads_side_by_side(heads, width):
    """Rows of [heads, rows, width] turned to [rows, heads * width], beside others."""
    text = f"""HloModule m
ENTRY e {{
  x = f32[{heads},10,{width}] parameter(0)
  y = f32[10,{heads * width}] parameter(1)
  t = f32[10,{heads},{width}] transpose(x), dimensions={{1,0,2}}
  r = f32[10,{heads * width}] reshape(t)
  c = f32[10,{2 * heads * width}] concatenate(r, y), dimensions={{1}}
  ROOT n = f32[10,{2 * heads * width}] negate(c)
}}"""
    x = np.random.default_rng(0).standard_normal((heads, 10, width), np.float32)
    y = np.random.default_rng(1).standard_normal((10, heads * width), np.float32)
    wanted = -np.concatenate([x.transpose(1, 0, 2).reshape(10, -1), y], axis=1)
    np.testing.assert_array_equal(ingot.compile(ingot.parse_hlo(text))(x, y), wanted)


@given(st.lists(st.integers(-40, 40), min_size=8, max_size=8))
def test_a_cover_holds_every_lane_and_nothing_beyond(offsets):
    found = cover(tuple(offsets), 4)
    reach = max(offsets) - min(offsets) + 1
    if found is None:
        assert not 2 <= reach <= 32
        return
    assert min(found.starts) == min(offsets)
    assert max(found.starts) + found.length == max(offsets) + 1
    assert [found.starts[part] + at for part, at in found.sources] == offsets
    assert found.shared == max(offsets.count(offset) for offset in offsets)
    reading: set[int] = set()
    for number, start in enumerate(found.starts):
        for lanes in found.readers(number):
            for at, lane in enumerate(lanes):
                assert lane == 8 or offsets[lane] == start + at
                reading.add(lane)
    assert reading >= set(range(8))


@pytest.mark.parametrize("columns", [2, 3, 5, 7])
def test_columns_far_apart_are_stretches(columns):
    where = 1000 * mod(LANE, columns) + floordiv(LANE, columns)
    offsets = lane_offsets(where, "@1", 16 * columns, 16 * columns)
    assert offsets is not None
    found = cover(offsets, 8)
    assert found is not None
    assert found.starts == tuple(range(0, 1000 * columns, 1000))
    assert found.length == 16


@pytest.mark.parametrize("aligned", [1, 2, 8])
def test_a_pattern_begins_alike_in_every_block(aligned):
    where = 3 * mod(LANE + 1, 2) + 5
    known = first_lane(where, "@1", aligned)
    starts = {evaluate(where, {"@1": start}) for start in range(0, 64, aligned)}
    assert (known is not None) == (len(starts) == 1)
    assert known is None or starts == {known}
    assert first_lane(where + LANE, "@1", aligned) is None


ROWS = {
    "reverse(x), dimensions={0,1}": np.s_[::-1, ::-1],
    "slice(x), slice={[0:3], [1:WIDTH:2]}": np.s_[:, 1::2],
    "slice(x), slice={[0:3], [0:WIDTH:3]}": np.s_[:, ::3],
    "slice(x), slice={[1:3], [2:WIDTH:5]}": np.s_[1:, 2::5],
}


@pytest.mark.slow
@pytest.mark.parametrize("element", ["f32", "u8", "s16", "f64", "c64", "c128", "pred", "bf16"])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("width", [7, 64, 131])
def test_rows_read_backwards_and_with_strides(element, rows, width):
    x = np.arange(3 * width).reshape(3, width).astype(dtype(element).numpy)
    wanted = x[ROWS[rows]]
    height, length = wanted.shape
    module = ingot.parse_hlo(f"""HloModule m
ENTRY e {{ x = {element}[3,{width}] parameter(0)
  ROOT r = {element}[{height},{length}] {rows.replace("WIDTH", str(width))} }}""")
    assert np.array_equal(ingot.compile(module)(x), wanted)


def test_what_may_be_read_is_between_lanes_that_are_on() -> None:
    found = cover(tuple(range(0, 16, 2)), 4)
    assert found is not None
    assert found.reach([True] * 5 + [False] * 3) == range(9)
    assert found.reach([False] * 3 + [True] * 5) == range(6, 15)
    assert found.reach([False] * 8) == range(0)
    assert found.reach([True, False, *[True] * 6]) is None


@pytest.mark.parametrize("offsets", [(0, 1, 2, 20, 21, 0, 1, 2), (0, 30, 31, 32, 33, 0, 30, 31)])
def test_distant_runs_of_unequal_lengths_have_no_cover(offsets):
    assert cover(offsets, 1) is None
