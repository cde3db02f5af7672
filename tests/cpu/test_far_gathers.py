# SPDX-License-Identifier: Apache-2.0
"""Gathers of single numbers: clamped places, tables larger than caches, every width of element."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.support.against_evaluator import agrees

from ingot.formats.hlo_text import parse_hlo
from ingot.hlo.module import Module

TYPES = {
    "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "u8": np.uint8,
    "s32": np.int32, "pred": np.bool_,
}  # fmt: skip
FAR = 1_200_000
"""Elements: of 4 bytes they are more than the schedule takes for near."""


def _gather(element: str, size: int, count: int, index: str = "s32") -> Module:
    return parse_hlo(f"""HloModule gather

ENTRY main {{
  x = {element}[{size}] parameter(0)
  i = {index}[{count},1] parameter(1)
  ROOT r = {element}[{count}] gather(x, i), offset_dims={{}}, collapsed_slice_dims={{0}},
    start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1}}
}}
""")


@pytest.mark.slow
@pytest.mark.parametrize("size", [7, FAR])
@pytest.mark.parametrize("element", TYPES)
def test_types(element: str, size: int) -> None:
    random = np.random.default_rng(0)
    table = random.integers(0, 100, size).astype(TYPES[element])
    for count in (1, 31, 130):
        indices = random.integers(-5, size + 5, (count, 1)).astype(np.int32)
        agrees(_gather(element, size, count), [table, indices])


@pytest.mark.parametrize("index", ["s8", "u8", "s16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("size", [100, FAR])
def test_types_of_indices(index: str, size: int) -> None:
    """The least and the greatest place of a type are held within the table."""
    element = np.dtype({"s": "int", "u": "uint"}[index[0]] + index[1:])
    limits = np.iinfo(element)
    given = [limits.min, limits.max, 0, 1, 99, min(size - 1, limits.max), min(size, limits.max)]
    indices = np.array(given * 6, element)[:, None]
    table = np.arange(size, dtype=np.float32)
    agrees(_gather("f32", size, len(indices), index), [table, indices])


def test_computed_indices() -> None:
    """A gather of a gather, and of what is computed on."""
    module = parse_hlo(f"""HloModule chain

ENTRY main {{
  x = f32[{FAR}] parameter(0)
  i = s32[1000,1] parameter(1)
  j = s32[500,1] parameter(2)
  y = f32[{FAR}] negate(x)
  k = s32[500] gather(i, j), offset_dims={{}}, collapsed_slice_dims={{0,1}},
    start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,1}}
  l = s32[500,1] reshape(k)
  ROOT r = f32[500] gather(y, l), offset_dims={{}}, collapsed_slice_dims={{0}},
    start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1}}
}}
""")
    random = np.random.default_rng(1)
    inputs = [
        random.normal(size=FAR).astype(np.float32),
        random.integers(-9, FAR, (1000, 1)).astype(np.int32),
        random.integers(0, 1000, (500, 1)).astype(np.int32),
    ]
    agrees(module, inputs)
