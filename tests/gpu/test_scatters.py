# SPDX-License-Identifier: Apache-2.0
"""Scatters of many elements: updates are sorted by element, and made in order."""

from __future__ import annotations

import pytest
from tests.gpu.kernels import ARGMAX_SCATTER, SCATTER
from tests.gpu.programs import check

SORTED = "a thread per point, then sorted tiles, then merged runs, then sorted updates"


@pytest.mark.parametrize("element", ["f32", "s32", "bf16", "f64"])
@pytest.mark.parametrize("op", ["add", "subtract"])
def test_updates_of_an_element_come_in_order(element: str, op: str) -> None:
    # To the bit, and indices beyond the end update nothing.
    check(SCATTER.format(type=element, n=13, count=2500, op=op), SORTED)


@pytest.mark.parametrize("count", [0, 1, 1024, 1025, 3000])
def test_symbolic_sizes(count: int) -> None:
    body = SCATTER.format(type="f32", n="?n", count="?m", op="add")
    check(body, SORTED, {"n": 19, "m": count}, seeds=(0,))


def test_few_updates_are_read_by_all_owners() -> None:
    check(SCATTER.format(type="f32", n=13, count=2047, op="add"), "in order", seeds=(0,))


@pytest.mark.parametrize("n", [7, 3000])
def test_short_rows(n: int) -> None:
    body = f"""x = f32[{n},5] parameter(0)
      i = s32[600,1] parameter(1)
      u = f32[600,5] parameter(2)
      ROOT r = f32[{n},5] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}},
        scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=subtract_f32"""
    check(body, SORTED, below=n + 2)


def test_two_operands() -> None:
    check(ARGMAX_SCATTER.format(count=2100), SORTED, below=9)
