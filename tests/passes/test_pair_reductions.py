# SPDX-License-Identifier: Apache-2.0
"""Reductions over pairs of rows mean the same by columns, which a kernel of their own makes."""

from __future__ import annotations

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse_hlo

TEXT = """HloModule m

fold {{
  a = {type}[] parameter(0)
  b = {type}[] parameter(1)
  ROOT r = {type}[] {fold}(a, b)
}}

ENTRY e {{
  x = {type}[3,70,{k}] parameter(0)
  y = {type}[3,33,{k}] parameter(1)
  first = {type}[] constant(0)
  xs = {type}[3,70,33,{k}] broadcast(x), dimensions={{0,1,3}}
  ys = {type}[3,70,33,{k}] broadcast(y), dimensions={{0,2,3}}
  f = {type}[3,70,33,{k}] {op}(xs, ys)
  ROOT d = {type}[3,70,33] reduce(f, first), dimensions={{3}}, to_apply=fold
}}"""


@pytest.mark.parametrize("k", [2, 3, 8, 65])
@pytest.mark.parametrize(
    ("element", "op", "fold"),
    [("s32", "xor", "add"), ("u8", "and", "or"), ("f32", "subtract", "maximum")],
)
def test_pairs_of_batches_of_rows(element: str, op: str, fold: str, k: int) -> None:
    module = parse_hlo(TEXT.format(type=element, op=op, fold=fold, k=k))
    choose = np.random.default_rng(k)
    dtype = {"s32": np.int32, "u8": np.uint8, "f32": np.float32}[element]
    arrays = [choose.integers(0, 99, (3, rows, k)).astype(dtype) for rows in (70, 33)]
    executable = ingot.compile(module)
    assert [kernel.opcodes[0] for kernel in executable.kernels].count("transpose") == 1
    found, wanted = executable(*arrays), evaluate(module, arrays)
    assert np.array_equal(np.asarray(found), np.asarray(wanted))
