# SPDX-License-Identifier: Apache-2.0
"""Rows of large arrays that indices choose are fetched some rows before they are read."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.support.against_evaluator import agrees

import ingot
from ingot.formats.hlo_text import parse_hlo
from ingot.kernel.analysis import gathers
from ingot.llvm.target import host_levels

TYPES = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "u8": np.uint8}

CHOSEN = """HloModule chosen

ENTRY main {
  x = TYPE[50,WIDTH] parameter(0)
  i = s32[COUNT,1] parameter(1)
  r = TYPE[COUNT,WIDTH] gather(x, i), offset_dims={1}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=1, slice_sizes={1,WIDTH}
  y = TYPE[WIDTH] parameter(2)
  b = TYPE[COUNT,WIDTH] broadcast(y), dimensions={1}
  ROOT s = TYPE[COUNT,WIDTH] add(r, b)
}
"""

SUMMED = """HloModule summed

sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }

ENTRY main {
  x = f32[50,70] parameter(0)
  i = s32[9,5,1] parameter(1)
  r = f32[9,5,70] gather(x, i), offset_dims={2}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=2, slice_sizes={1,70}
  zero = f32[] constant(0)
  ROOT s = f32[9,70] reduce(r, zero), dimensions={1}, to_apply=sum
}
"""


@pytest.fixture(autouse=True)
def _all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathers, "LARGE_BYTES", 0)


def chosen(element: str, count: int, width: int) -> str:
    text = CHOSEN.replace("TYPE", element)
    return text.replace("COUNT", str(count)).replace("WIDTH", str(width))


def indices(*shape: int) -> np.ndarray:
    """Return indices, some of them out of bounds."""
    found = np.random.default_rng(0).integers(-9, 60, shape, np.int32)
    found.flat[0], found.flat[-1] = np.iinfo(np.int32).max, np.iinfo(np.int32).min
    return found


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("count", [1, 8, 9, 23])
@pytest.mark.parametrize("width", [16, 33, 700])
def test_rows(element: str, count: int, width: int) -> None:
    random = np.random.default_rng(1)
    x, y = (random.integers(0, 9, size).astype(TYPES[element]) for size in ((50, width), width))
    for level in ("", host_levels()[0]):
        agrees(parse_hlo(chosen(element, count, width)), [x, indices(count, 1), y], level=level)


def test_only_rows_of_the_grid_are_fetched() -> None:
    x = np.random.default_rng(1).integers(0, 9, (50, 70)).astype(np.float32)
    agrees(parse_hlo(SUMMED), [x, indices(9, 5, 1)])


def test_the_schedule_says_what_is_fetched() -> None:
    text = ingot.compile(parse_hlo(chosen("f32", 23, 700))).as_text("schedule")
    assert "fetched=[b0[700*$0+@1]]" in text, text
