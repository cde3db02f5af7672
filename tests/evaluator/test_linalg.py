# SPDX-License-Identifier: Apache-2.0
"""Sums of no products are zero, whatever NumPy's einsum finds where an array has no elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse

PROGRAMS = {
    "cholesky": (
        "a = f32[2,2] constant({{4,2},{2,5}})\n  ROOT r = f32[2,2] cholesky(a), lower=true",
        [[2, 0], [1, 2]],
    ),
    "triangular-solve": (
        "a = f32[2,2] constant({{2,0},{1,4}})\n  b = f32[2,1] constant({{2},{9}})\n"
        "  ROOT r = f32[2,1] triangular-solve(a, b), left_side=true, lower=true,"
        " unit_diagonal=false, transpose_a=NO_TRANSPOSE",
        [[1], [2]],
    ),
    "convolution": (
        "x = f32[1,2,0] constant({{{},{}}})\n  w = f32[1,0,3] constant({{}})\n"
        "  ROOT r = f32[1,2,3] convolution(x, w), window={size=1}, dim_labels=b0f_0io->b0f",
        np.zeros((1, 2, 3)),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_sum_of_no_products_is_zero(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    einsum = np.einsum

    def reads_beyond(subscripts: str, *operands: Any) -> Any:
        """Give NaN for empty operands, as NumPy 2.4.6 does now and then."""
        sums = einsum(subscripts, *operands)
        return sums if all(operand.size for operand in operands) else np.full_like(sums, np.nan)

    monkeypatch.setattr(np, "einsum", reads_beyond)
    body, wanted = PROGRAMS[name]
    result: Any = evaluate(parse(f"HloModule m\nENTRY e {{\n  {body}\n}}\n"), [])
    np.testing.assert_array_equal(result, wanted)
