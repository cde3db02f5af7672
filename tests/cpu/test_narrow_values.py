# SPDX-License-Identifier: Apache-2.0
"""Indices computed in s32, from coordinates of every kind of number."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.against_evaluator import agrees

from ingot.formats.hlo_text import parse_hlo
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import F32, S32, S64
from ingot.kernel import expr as ex
from ingot.kernel.passes.narrow_values import Range, Ranges
from ingot.llvm.target import host_levels

SAMPLED = """HloModule sampled

ENTRY main {
  image = f32[2,CHANNELS,77] parameter(0)
  x = f32[2,COUNT] parameter(1)
  y = f32[2,COUNT] parameter(2)
  c0 = f32[] constant(0)
  c6 = f32[] constant(6)
  c10 = f32[] constant(10)
  c11 = s64[] constant(11)
  zero = f32[2,COUNT] broadcast(c0), dimensions={}
  bottom = f32[2,COUNT] broadcast(c6), dimensions={}
  right = f32[2,COUNT] broadcast(c10), dimensions={}
  width = s64[2,COUNT] broadcast(c11), dimensions={}
  row = f32[2,COUNT] floor(y)
  low = pred[2,COUNT] compare(row, zero), direction=GE
  high = pred[2,COUNT] compare(row, bottom), direction=LE
  inside = pred[2,COUNT] and(low, high)
  held = f32[2,COUNT] select(inside, row, zero)
  rows = s64[2,COUNT] convert(held)
  column = f32[2,COUNT] clamp(zero, x, right)
  columns = s64[2,COUNT] convert(column)
  first = s64[2,COUNT] multiply(rows, width)
  index = s64[2,COUNT] add(first, columns)
  found = f32[2,CHANNELS,COUNT] gather(image, index), offset_dims={1}, collapsed_slice_dims={2},
    start_index_map={2}, operand_batching_dims={0}, start_indices_batching_dims={0},
    index_vector_dim=2, slice_sizes={1,CHANNELS,1}
  ROOT made = f32[2,CHANNELS,COUNT] negate(found)
}
"""

ODD = [np.nan, np.inf, -np.inf, -0.0, 1e-45, -1e-45, 6.5, 7.0, 10.999, 3e9, -3e9, 1e38]


@pytest.mark.parametrize("level", host_levels()[:2])
@pytest.mark.parametrize(("channels", "count"), [(1, 1), (3, 67), (17, 33), (24, 12)])
def test_pixels(channels: int, count: int, level: str) -> None:
    random = np.random.default_rng(count)
    image = random.standard_normal((2, channels, 77)).astype(np.float32)
    x, y = (random.uniform(-3, 13, (2, count)).astype(np.float32) for _ in range(2))
    x.flat[: len(ODD)] = ODD[: x.size]
    y.flat[: len(ODD)] = ODD[: y.size][::-1]
    text = SAMPLED.replace("CHANNELS", str(channels)).replace("COUNT", str(count))
    agrees(parse_hlo(text), [image, x, y], level=level)


X = ex.load(0, Dim.symbol("@0"), F32)


def _held(low: float, high: float, value: ex.Expr = X) -> ex.Expr:
    ends = [ex.scalar(end, value.dtype) for end in (low, high)]
    both = ex.conjunction(ex.compare("GE", value, ends[0]), ex.compare("LT", value, ends[1]))
    assert both is not None
    return ex.select(both, value, ex.scalar(0, value.dtype))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (X, Range(-np.inf, np.inf, may_be_nan=True)),
        (ex.converted(X, S32), Range(-(2**31), 2**31 - 1)),
        (_held(2, 7.5), Range(0, 7.5)),
        (ex.converted(_held(-2.5, 7.5), S64), Range(-2, 7)),
        (ex.compute("floor", _held(-2.5, 7.5)), Range(-3, 7)),
        (ex.compute("maximum", X, ex.scalar(0, F32)), Range(0, np.inf, may_be_nan=True)),
        (ex.compute("multiply", *[ex.converted(_held(-3, 5), S32)] * 2), Range(-15, 25)),
        # A sum that may wrap may be any number.
        (ex.compute("add", *[ex.converted(_held(0, 2e9), S32)] * 2), Range(-(2**31), 2**31 - 1)),
        (ex.index(Dim.symbol("@0") * 3 + 1), Range(1, 28)),
        (_held(5, 9, ex.index(Dim.symbol("@0"))), Range(0, 9)),
    ],
)
def test_ranges(value: ex.Expr, expected: Range) -> None:
    assert Ranges({"@0": (0, 9)}).of(value) == expected
