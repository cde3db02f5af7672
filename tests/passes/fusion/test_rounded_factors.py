# SPDX-License-Identifier: Apache-2.0
"""Factors rounded to 8 or 16 bits: once and in memory, if a product reads each of them often."""

from __future__ import annotations

import pytest
from tests.passes.fusion.programs import kernels_of


def product(rows: int, source: str, factor: str, sums: str) -> str:
    """Return a product of a rounded matrix of `rows` rows by one that lies in memory."""
    return f"""x = {source}[{rows},64] parameter(0)
      w = {factor}[64,32] parameter(1)
      r = {factor}[{rows},64] convert(x)
      ROOT d = {sums}[{rows},32] dot(r, w), lhs_contracting_dims={{1}},
        rhs_contracting_dims={{0}}"""


@pytest.mark.parametrize(
    ("source", "factor", "sums", "kernels"),
    [
        ("f32", "s8", "s32", 2),
        ("f32", "u8", "s32", 2),
        ("s32", "s16", "s32", 2),
        ("f32", "bf16", "f32", 2),
        ("f32", "f16", "f32", 1),  # no instruction multiplies several of these
        ("f64", "f32", "f32", 1),
        ("s8", "s16", "s32", 1),  # wider: packing converts them
    ],
)
def test_factors_in_words_are_rounded_before(
    source: str, factor: str, sums: str, kernels: int
) -> None:
    assert len(kernels_of(product(16, source, factor, sums))) == kernels


@pytest.mark.parametrize(("rows", "kernels"), [(3, 1), (4, 2)])
def test_weights_that_few_rows_read_are_rounded_in_the_product(rows: int, kernels: int) -> None:
    text = f"""x = s8[{rows},64] parameter(0)
      w = f32[64,32] parameter(1)
      r = s8[64,32] convert(w)
      ROOT d = s32[{rows},32] dot(x, r), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"""
    assert len(kernels_of(text)) == kernels
