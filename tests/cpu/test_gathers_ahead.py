# SPDX-License-Identifier: Apache-2.0
"""Gathers whose places are computed ahead: blocks, what is left over, tables of every type."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.support.against_evaluator import agrees

from ingot.formats.hlo_text import parse_hlo
from ingot.llvm.target import host_levels

TYPES = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "u8": np.uint8, "s32": np.int32, "pred": np.bool_, "c64": np.complex64,
    "f8e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip

ROWS = """HloModule rows

ENTRY main {
  x = TYPE[7,SIZE] parameter(0)
  i = INDEX[7,COUNT,1] parameter(1)
  ROOT r = TYPE[7,COUNT] gather(x, i), offset_dims={}, collapsed_slice_dims={1},
    start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0},
    index_vector_dim=2, slice_sizes={1,1}
}
"""

COLUMNS = """HloModule columns

ENTRY main {
  x = TYPE[5,SIZE] parameter(0)
  i = INDEX[COUNT,1] parameter(1)
  ROOT r = TYPE[5,COUNT] gather(x, i), offset_dims={0}, collapsed_slice_dims={1},
    start_index_map={1}, index_vector_dim=1, slice_sizes={5,1}
}
"""

OF_TWO = """HloModule of_two

ENTRY main {
  x = TYPE[SIZE,9] parameter(0)
  i = INDEX[COUNT,2] parameter(1)
  ROOT r = TYPE[COUNT] gather(x, i), offset_dims={}, collapsed_slice_dims={0,1},
    start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}
}
"""

PROGRAMS = {
    "rows": (ROWS, lambda size: (7, size), lambda count: (7, count, 1)),
    "columns": (COLUMNS, lambda size: (5, size), lambda count: (count, 1)),
    "of two": (OF_TWO, lambda size: (size, 9), lambda count: (count, 2)),
}


def _check(name: str, element: str, index: str, size: int, count: int, level: str = "") -> None:
    text, table, places = PROGRAMS[name]
    for word, value in (("TYPE", element), ("INDEX", index), ("SIZE", size), ("COUNT", count)):
        text = text.replace(word, str(value))
    random = np.random.default_rng(count)
    x = random.integers(0, 100, table(size)).astype(TYPES[element])
    kind = np.dtype({"s": "int", "u": "uint"}[index[0]] + index[1:])
    limits = np.iinfo(kind)
    low, high = max(limits.min, -5), min(limits.max, size + 5)
    i = random.integers(low, high, places(count), endpoint=True).astype(kind)
    i.flat[0] = limits.max
    i.flat[-1] = limits.min
    agrees(parse_hlo(text), [x, i], level=level)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("count", [64, 77])
def test_blocks(name: str, count: int) -> None:
    """Of this CPU, which may have fast gathers, and of any CPU with such vectors."""
    for level in ("", host_levels()[0]):
        _check(name, "f32", "s32", 50, count, level)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 8, 16, 31, 63, 65, 255, 256, 257, 511, 1000])
def test_counts(name: str, count: int) -> None:
    for level in host_levels():
        for size in (1, 3, 300):
            _check(name, "f32", "s32", size, max(count, 1), level)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("element", TYPES)
def test_types(name: str, element: str) -> None:
    for count in (5, 64, 300):
        _check(name, element, "s32", 40, count)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("index", ["s8", "u8", "s16", "s32", "u32", "s64", "u64"])
def test_types_of_indices(name: str, index: str) -> None:
    for count in (3, 77, 256):
        _check(name, "f32", index, 90, count)


@pytest.mark.slow
@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("name", ["rows", "columns"])
def test_many_short_rows(name: str, element: str) -> None:
    for length in (2, 3, 8, 15, 16, 17, 40, 63):
        _check_short(name, element, length)


def test_short_rows() -> None:
    _check_short("columns", "f32", 5)
    _check_short("rows", "f32", 19)


def _check_short(name: str, element: str, length: int) -> None:
    """Rows of few places, more than a block of them and not a whole number of blocks."""
    batch = ROWS.replace("[7,", "[300,") if name == "rows" else COLUMNS.replace("[5,", "[300,")
    text = batch.replace("slice_sizes={5,1}", "slice_sizes={300,1}")
    for word, value in (("TYPE", element), ("INDEX", "s32"), ("SIZE", 11), ("COUNT", length)):
        text = text.replace(word, str(value))
    random = np.random.default_rng(length)
    x = random.integers(0, 100, (300, 11)).astype(TYPES[element])
    places = (300, length, 1) if name == "rows" else (length, 1)
    agrees(parse_hlo(text), [x, random.integers(-5, 15, places).astype(np.int32)])


CHAIN = """HloModule chain

add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }

ENTRY main {
  x = f32[500] parameter(0)
  i = s32[300,1] parameter(1)
  j = s32[4,COUNT,1] parameter(2)
  k = s32[4,COUNT] gather(i, j), offset_dims={}, collapsed_slice_dims={0,1},
    start_index_map={0}, index_vector_dim=2, slice_sizes={1,1}
  l = s32[4,COUNT,1] reshape(k)
  y = f32[4,COUNT] gather(x, l), offset_dims={}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=2, slice_sizes={1}
  z = f32[] constant(0)
  ROOT r = RESULT
}
"""

ENDS = {
    "as it is": "f32[4,COUNT] negate(y)",
    "summed": "f32[4] reduce(y, z), dimensions={1}, to_apply=add",
    "across": "f32[COUNT] reduce(y, z), dimensions={0}, to_apply=add",
    "padded": "f32[4,PADDED] pad(y, z), padding=0_0x3_2",
    "backwards": "f32[4,COUNT] reverse(y), dimensions={1}",
    "columns": "f32[COUNT,4] transpose(y), dimensions={1,0}",
}


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("count", [3, 64, 500])
def test_indices_that_are_gathered(end: str, count: int) -> None:
    """A gather of a gather, with what may follow in the same kernel."""
    text = CHAIN.replace("RESULT", ENDS[end]).replace("PADDED", str(count + 5))
    random = np.random.default_rng(1)
    inputs = [
        random.integers(-9, 9, 500).astype(np.float32),
        random.integers(-9, 600, (300, 1)).astype(np.int32),
        random.integers(-9, 400, (4, count, 1)).astype(np.int32),
    ]
    agrees(parse_hlo(text.replace("COUNT", str(count))), inputs)
