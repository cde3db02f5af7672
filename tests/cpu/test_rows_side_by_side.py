# SPDX-License-Identifier: Apache-2.0
"""Folds whose order counts: rows side by side in lanes, each row in its own order."""

from __future__ import annotations

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse_hlo
from ingot.hlo.module import Module

# As JAX writes it: a NaN wins, of equal elements the first.
ARGMAX = """HloModule argmax

wins {
  v = T[] parameter(0)
  i = s32[] parameter(1)
  w = T[] parameter(2)
  j = s32[] parameter(3)
  gt = pred[] compare(v, w), direction=GT
  ne = pred[] compare(v, v), direction=NE
  first = pred[] or(gt, ne)
  value = T[] select(first, v, w)
  eq = pred[] compare(v, w), direction=EQ
  lt = pred[] compare(i, j), direction=LT
  tie = pred[] and(eq, lt)
  takes = pred[] or(first, tie)
  index = s32[] select(takes, i, j)
  ROOT pair = (T[], s32[]) tuple(value, index)
}

ENTRY main {
  x = T[ROWS,LENGTH] parameter(0)
  i = s32[ROWS,LENGTH] iota(), iota_dimension=1
  least = T[] constant(-inf)
  zero = s32[] constant(0)
  ROOT r = (T[ROWS], s32[ROWS]) reduce(x, i, least, zero), dimensions={1}, to_apply=wins
}
"""


def _argmax(rows: str, length: str, element: str = "f32") -> Module:
    text = ARGMAX.replace("ROWS", rows).replace("LENGTH", length)
    return parse_hlo(text.replace("T[", f"{element}["))


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("length", [0, 1, 17, 130])
def test_argmax(rows: int, length: int) -> None:
    values = np.random.default_rng(rows).integers(0, 9, (rows, length)).astype(np.float32)
    values[values == 8] = np.nan if rows % 2 else np.inf
    module = _argmax(str(rows), str(length))
    for found, expected in zip(
        ingot.compile(module)(values), evaluate(module, [values]), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_any_size_by_one_compilation() -> None:
    executable = ingot.compile(_argmax("?n", "?m"))
    for rows, length in ((1, 1), (3, 50), (100, 33)):
        values = np.random.default_rng(rows).integers(0, 9, (rows, length)).astype(np.float32)
        np.testing.assert_array_equal(executable(values)[1], np.argmax(values, axis=1))


def test_a_fold_that_does_not_commute() -> None:
    module = parse_hlo("""HloModule fold

step {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  half = f32[] constant(0.5)
  c = f32[] multiply(a, half)
  ROOT d = f32[] add(c, b)
}

ENTRY main {
  x = f32[90,41] parameter(0)
  z = f32[] constant(3)
  ROOT r = f32[90] reduce(x, z), dimensions={1}, to_apply=step
}
""")
    values = np.random.default_rng(0).integers(-9, 9, (90, 41)).astype(np.float32)
    expected = np.full(90, 3, np.float32)
    for column in values.T:
        expected = expected * np.float32(0.5) + column
    np.testing.assert_allclose(ingot.compile(module)(values), expected, rtol=1e-6)
