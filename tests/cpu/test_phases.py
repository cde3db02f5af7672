# SPDX-License-Identifier: Apache-2.0
"""Rows of several arrays in turn (`kernel.passes.unroll_phases`): the evaluator's bits."""

from __future__ import annotations

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse_hlo
from ingot.hlo.dtype import dtype
from ingot.hlo.module import Module
from ingot.llvm.target import TargetSpec, host_levels

ROWS = (3, 4, 5, 8, 9, 10, 11, 97)


def _in_turn(rows: int, columns: int, element: str) -> Module:
    """Return two arrays in turn, all rows of which but the last are every second row."""
    first, second = (rows + 1) // 2, rows // 2
    return parse_hlo(f"""HloModule m

ENTRY e {{
  x = {element}[2,{first},{columns}] parameter(0)
  y = {element}[2,{second},{columns}] parameter(1)
  zero = {element}[] constant({"(0, 0)" if element == "c64" else "0"})
  p = {element}[2,{rows},{columns}] pad(x, zero), padding=0_0x0_{1 - rows % 2}_1x0_0
  q = {element}[2,{rows},{columns}] pad(y, zero), padding=0_0x1_{rows % 2}_1x0_0
  both = {element}[2,{rows},{columns}] add(p, q)
  low = {element}[2,{rows - 1},{columns}] slice(both), slice={{[0:2],[0:{rows - 1}],[0:{columns}]}}
  ROOT r = {element}[2,{2 * rows},{columns}] pad(low, zero), padding=0_0x1_2_1x0_0
}}""")


@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize("element", ["f32", "f64", "bf16", "u8", "c64"])
@pytest.mark.parametrize("columns", [1, 3, 8, 11, 64])
def test_rows_in_turn(columns, element, level):
    for rows in ROWS:
        module = _in_turn(rows, columns, element)
        choose = np.random.default_rng(rows)
        shapes = [parameter.shape.dims for parameter in module.entry.parameters]
        arrays = [choose.integers(0, 9, dims).astype(dtype(element).numpy) for dims in shapes]
        if element not in ("u8", "c64"):
            arrays[0][0, 0], arrays[1][0, 0] = np.nan, -0.0
            arrays[0][1, 0], arrays[1][1, 0] = np.inf, 1e-40
        found = ingot.compile(module, target=TargetSpec.host(level))(*arrays)
        wanted = np.asarray(evaluate(module, arrays))
        assert np.asarray(found).tobytes() == wanted.tobytes(), rows


def test_rows_in_turn_have_no_masks():
    executable = ingot.compile(_in_turn(97, 64, "f32"), target=TargetSpec.at_level("avx2"))
    assert "masked" not in executable.as_text("llvm_optimized")
