# SPDX-License-Identifier: Apache-2.0
"""Which keys a mask of positions leaves to each row of an attention kernel."""

from __future__ import annotations

import math

import pytest
from tests.kernel.texts import SAMPLES

from ingot.kernel.attention.schedule import Bounds, key_bounds, least_seen
from ingot.kernel.ir import AttentionKernel
from ingot.kernel.parse import parse_kernel

COMPARED = "  v5 = pred compare(v3, v4), direction=LE\n"
SELECTED = "select(v5, v6, v7)"


def _kernel(mask: str = COMPARED, select: str = SELECTED, masked: str = "-inf") -> AttentionKernel:
    """Return the kernel with another mask: v3 is the key, v4 the row, v5 what is seen."""
    text = SAMPLES["attention"].replace(COMPARED, mask).replace(SELECTED, select)
    kernel = parse_kernel(text.replace("constant(-inf)", f"constant({masked})"))
    assert isinstance(kernel, AttentionKernel)
    return kernel


@pytest.mark.parametrize(
    ("direction", "low", "high"),
    [("LE", (), (0,)), ("LT", (), (-1,)), ("GE", (0,), ()), ("GT", (1,), ()), ("EQ", (0,), (0,))],
)
def test_each_comparison(direction: str, low: tuple[int, ...], high: tuple[int, ...]) -> None:
    mask = COMPARED.replace("LE", direction)
    assert key_bounds(_kernel(mask)) == Bounds(low, high)
    # Sides exchanged: key and row.
    other = {"LE": "GE", "LT": "GT", "GE": "LE", "GT": "LT", "EQ": "EQ"}[direction]
    assert key_bounds(_kernel(mask.replace("v3, v4", "v4, v3"))) == key_bounds(
        _kernel(COMPARED.replace("LE", other))
    )


def test_the_opposite_comparison_masks() -> None:
    mask = COMPARED.replace("LE", "GT")
    assert key_bounds(_kernel(mask, "select(v5, v7, v6)")) == key_bounds(_kernel())
    unequal = COMPARED.replace("LE", "NE")
    assert key_bounds(_kernel(unequal, "select(v5, v7, v6)")) == Bounds((0,), (0,))


def test_both_conditions_of_a_window_hold() -> None:
    window = """  v30 = s64 index(@n+40)
  v31 = pred compare(v30, v4), direction=GT
  v32 = pred compare(v3, v4), direction=LE
  v5 = pred and(v31, v32)
"""
    assert key_bounds(_kernel(window)) == Bounds((-39,), (0,))
    assert not key_bounds(_kernel(window.replace("pred and", "pred or")))


@pytest.mark.parametrize(
    "mask",
    [
        COMPARED.replace("LE", "NE"),
        "  v30 = s64 index(2*@n)\n  v5 = pred compare(v30, v4), direction=LE\n",
        "  v30 = s64 index(mod(@n,7))\n  v5 = pred compare(v30, v4), direction=LE\n",
        "  v30 = s8 convert(v3)\n  v31 = s8 convert(v4)\n"
        "  v5 = pred compare(v30, v31), direction=LE\n",
        "  v30 = s64 index(@b)\n  v5 = pred compare(v3, v30), direction=LE\n",
    ],
)
def test_what_says_nothing_of_rows_and_keys_leaves_all(mask: str) -> None:
    assert key_bounds(_kernel(mask)) == Bounds()


def test_the_constant_in_place_of_a_score_says_when_keys_count() -> None:
    low = _kernel(masked="-1000000000.0")
    bounds = key_bounds(low)
    assert bounds == Bounds((), (0,), -1e9)
    assert least_seen(low, bounds) > -1e9
    assert key_bounds(_kernel()).floor == -math.inf
    # Scores that are not seen are no less than others.
    assert not key_bounds(_kernel(masked="3.0"))
