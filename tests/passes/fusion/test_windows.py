# SPDX-License-Identifier: Apache-2.0
"""Folds of stencils: what reads a window under masks is a kernel of its own, if there is much."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.against_evaluator import agrees

import ingot
from ingot.formats.hlo_text import parse_hlo
from ingot.hlo.module import Module

ROLL = """a = f32[{r},{last}] slice(x), slice={{[0:{r}], [1:{c}]}}
  b = f32[{r},1] slice(x), slice={{[0:{r}], [0:1]}}
  near = f32[{r},{c}] concatenate(a, b), dimensions={{1}}"""
PAD = """p = f32[{r},{more}] pad(x, zero), padding=0_0x0_2
  s = f32[{r},{c}] slice(p), slice={{[0:{r}], [1:{next}]}}
  t = f32[{r},{c}] slice(p), slice={{[0:{r}], [2:{more}]}}
  near = f32[{r},{c}] subtract(s, t)"""
PLAIN = "near = f32[{r},{c}] negate(x)"


def _program(rows: int, columns: int, window: str, dims: str, kept: str) -> Module:
    body = window.format(r=rows, c=columns, last=columns - 1, more=columns + 2, next=columns + 1)
    return parse_hlo(f"""HloModule stencil

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}

ENTRY main {{
  x = f32[{rows},{columns}] parameter(0)
  zero = f32[] constant(0)
  {body}
  change = f32[{rows},{columns}] subtract(near, x)
  square = f32[{rows},{columns}] multiply(change, change)
  ROOT total = f32[{kept}] reduce(square, zero), dimensions={{{dims}}}, to_apply=add
}}
""")


@pytest.mark.parametrize(("dims", "kept"), [("0,1", ""), ("1", "101"), ("0", "97")])
@pytest.mark.parametrize(("window", "kernels"), [(ROLL, 2), (PAD, 2), (PLAIN, 1)])
def test_windows_are_computed_before_they_are_folded(
    window: str, kernels: int, dims: str, kept: str
) -> None:
    module = _program(101, 97, window, dims, kept)
    x = np.random.default_rng(0).integers(-5, 5, (101, 97)).astype(np.float32)
    x[3, 4], x[50, 96] = np.inf, -0.0
    assert len(agrees(module, [x]).executable.kernels) == kernels


@pytest.mark.parametrize("window", [ROLL, PAD])
def test_little_is_folded_with_its_masks(window: str) -> None:
    assert len(ingot.compile(_program(16, 16, window, "0,1", "")).kernels) == 1
