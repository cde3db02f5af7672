# SPDX-License-Identifier: Apache-2.0
"""The comparison with the evaluator fails when it should."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.support.against_evaluator import agrees, assert_same

import ingot

NAN = np.float32(np.nan)
OTHER_NAN = np.uint32(0x7FC00001).view(np.float32)
TEXT = """HloModule same

ENTRY main {
  x = f32[3] parameter(0)
  a = f32[3] add(x, x)
  t = (f32[3]) tuple(a)
  ROOT r = (f32[3], (f32[3])) tuple(x, t)
}
"""

SAME: list[tuple[Any, Any, dict[str, Any]]] = [
    (1.0, 1.0, {}),
    (NAN, OTHER_NAN, {}),
    (NAN, -OTHER_NAN, {"exact": "signs"}),
    (np.float32(-0.0), np.float32(0.0), {}),
    (-0.0, -0.0, {"exact": "bits"}),
    (np.inf, np.inf, {"rtol": 1.0}),
    (1.0, 1.05, {"rtol": 0.1}),
    (1.0, 1.05, {"atol": 0.1}),
    (np.array([1.0, 100.0]), np.array([1.5, 100.0]), {"of_largest": 0.01}),
    (np.zeros(0), np.zeros(0), {"of_largest": 0.01}),
    (1 + 1j, 1 + 1.05j, {"rtol": 0.1}),
    (ml_dtypes.bfloat16(1), ml_dtypes.bfloat16(1.0625), {"rtol": 0.1}),
    ((1.0, (True, 2)), [1.0, True, 2], {}),
]
DIFFERENT: list[tuple[Any, Any, dict[str, Any]]] = [
    (1.0, np.nextafter(1.0, 2.0), {}),
    (NAN, np.float32(1), {"rtol": 9.0}),
    (NAN, OTHER_NAN, {"exact": "bits"}),
    (np.float32(-0.0), np.float32(0.0), {"exact": "signs"}),
    (-0.0, 0.0, {"exact": "bits"}),
    (np.inf, -np.inf, {"rtol": 1.0}),
    (np.array([1.0, 10.0]), np.array([1.5, 10.0]), {"of_largest": 0.01}),
    (np.array([1.0, np.inf]), np.array([2.0, np.inf]), {"of_largest": 0.01}),
    (100, 101, {"rtol": 0.1, "atol": 2.0, "of_largest": 1.0}),
    (2**62, 2**62 + 1, {}),
    (True, False, {"atol": 2.0}),
    (ml_dtypes.bfloat16(1), ml_dtypes.bfloat16(1.0625), {}),
    (np.array([1, 2], ml_dtypes.int4), np.array([1, 3], ml_dtypes.int4), {"atol": 2.0}),
    (np.float32(1), np.float64(1), {}),
    (np.ones(3), np.float64(1), {}),
    ((1.0, 2.0), (1.0,), {}),
]


@pytest.mark.parametrize(("found", "wanted", "how"), SAME)
def test_equal_results(found: Any, wanted: Any, how: dict[str, Any]) -> None:
    assert_same(found, wanted, **how)


@pytest.mark.parametrize(("found", "wanted", "how"), DIFFERENT)
def test_different_results(found: Any, wanted: Any, how: dict[str, Any]) -> None:
    with pytest.raises((AssertionError, ValueError), match=r"result|argument"):
        assert_same(found, wanted, **how)


def test_exactness_has_no_tolerance() -> None:
    with pytest.raises(AssertionError, match="no tolerance"):
        assert_same(1.0, 1.0, exact="bits", rtol=0.1)


def test_what_runs_is_what_was_compiled() -> None:
    x = np.float32([1, 2, 3])
    module = ingot.parse_hlo(TEXT)
    results = agrees(module, [x]).results
    assert [one.tolist() for one in results] == [[1, 2, 3], [2, 4, 6]]
    other = ingot.compile(ingot.parse_hlo(TEXT.replace("add(", "multiply(")))
    with pytest.raises(AssertionError, match="result 1"):
        agrees(module, [x], executable=other)
