# SPDX-License-Identifier: Apache-2.0
"""Updates at indices that are positions: lanes combine neighbours, windows overlap in order."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.support.against_evaluator import agrees

from ingot.formats.hlo_text import parse_hlo
from ingot.llvm.target import host_levels

FOLDED = """HloModule folded

combine { a = TYPE[] parameter(0) b = TYPE[] parameter(1) ROOT c = TYPE[] OP }

ENTRY main {
  x = TYPE[3,COUNT,2] parameter(0)
  old = TYPE[2,SIZE] parameter(1)
  row = INDEX[3,COUNT] iota(), iota_dimension=0
  column = INDEX[3,COUNT] iota(), iota_dimension=1
  start = INDEX[] constant(START)
  first = INDEX[3,COUNT] broadcast(start), dimensions={}
  sum = INDEX[3,COUNT] add(row, column)
  index = INDEX[3,COUNT] add(sum, first)
  ROOT r = TYPE[2,SIZE] scatter(old, index, x), update_window_dims={2}, inserted_window_dims={1},
    scatter_dims_to_operand_dims={1}, index_vector_dim=2, to_apply=combine
}
"""
TYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "s32": np.int32}


@pytest.mark.parametrize("level", host_levels()[:2])
@pytest.mark.parametrize("op", ["add(a, b)", "maximum(a, b)", "copy(b)"])
@pytest.mark.parametrize(
    ("count", "size", "start"), [(1, 3, 0), (67, 69, 0), (67, 40, -5), (64, 200, 50), (5, 0, 0)]
)
def test_windows(count: int, size: int, start: int, op: str, level: str) -> None:
    random = np.random.default_rng(count)
    for element, index in (("f32", "s64"), ("bf16", "s32"), ("s32", "s8")):
        text = FOLDED
        words = {"TYPE": element, "INDEX": index, "COUNT": count, "SIZE": size, "START": start}
        for word, value in {**words, "OP": op}.items():
            text = text.replace(word, str(value))
        inputs = [
            random.integers(-9, 9, dims).astype(TYPES[element])
            for dims in ((3, count, 2), (2, size))
        ]
        agrees(parse_hlo(text), inputs, level=level)
