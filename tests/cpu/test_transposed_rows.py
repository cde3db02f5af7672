# SPDX-License-Identifier: Apache-2.0
"""Short rows transposed in registers: every length and type, rows left over, ends of memory."""

from __future__ import annotations

import ctypes
import mmap

import ml_dtypes
import numpy as np
import pytest
from tests.support.against_evaluator import agrees

from ingot.formats.hlo_text import parse_hlo
from ingot.hlo.module import Module
from ingot.kernel.schedule.row_folds import LEAST_TRANSPOSED
from ingot.llvm.target import TargetSpec, host_levels

TYPES = {
    "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16,
    "s8": np.int8, "u16": np.uint16, "s32": np.int32, "s64": np.int64, "pred": np.bool_,
    "f8e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
OPS = {"add": 0, "maximum": 1, "multiply": 1, "and": 1}


def _fold(element: str, shape: tuple[int, ...], op: str, more: str = "") -> Module:
    given, kept = (",".join(map(str, dims)) for dims in (shape, shape[:-1]))
    end = f"ROOT r = {element}[{kept}] {more}" if more else ""
    return parse_hlo(f"""HloModule fold

fold {{
  a = {element}[] parameter(0)
  b = {element}[] parameter(1)
  ROOT c = {element}[] {op}(a, b)
}}

ENTRY main {{
  x = {element}[{given}] parameter(0)
  z = {element}[] constant({OPS[op]})
  {"" if more else "ROOT "}y = {element}[{kept}] reduce(x, z), dimensions={{{len(shape) - 1}}},
    to_apply=fold
  {end}
}}
""")


def _some(element: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 3, shape).astype(TYPES[element])


def _check(module: Module, x: np.ndarray, level: str = "") -> None:
    agrees(module, [x], level=level)


def _rows(length: int, more: int) -> int:
    return -(-LEAST_TRANSPOSED // length) // 64 * 64 + 64 + more


def test_rows_of_seven() -> None:
    shape = (_rows(7, 5), 7)
    _check(_fold("s32", shape, "add"), _some("s32", shape))


@pytest.mark.slow
@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize("length", [3, 5, 6, 7, 8, 9])
def test_lengths(length: int, level: str) -> None:
    for more in (0, 1, 15, 17):
        shape = (_rows(length, more), length)
        _check(_fold("s32", shape, "add"), _some("s32", shape), level)
    shape = (3, _rows(length, 7), length)
    _check(_fold("f32", shape, "maximum", "negate(y)"), _some("f32", shape), level)


def _has(element: str, op: str) -> bool:
    is_bits = element == "pred" or element[0] in "us"
    return is_bits if op == "and" else element != "pred" or op == "maximum"


@pytest.mark.slow
@pytest.mark.parametrize(("element", "op"), [(e, op) for e in TYPES for op in OPS if _has(e, op)])
def test_types(element: str, op: str) -> None:
    for length in (5, 8):
        shape = (_rows(length, 9), length)
        _check(_fold(element, shape, op), _some(element, shape))


@pytest.mark.parametrize("special", [np.nan, -np.inf, -0.0])
def test_special_values(special: float) -> None:
    x = _some("f32", (_rows(6, 3), 6)) - 5
    x[::7, 2] = special
    _check(_fold("f32", x.shape, "maximum"), x)


def _extreme(element: str, direction: str) -> str:
    """Return the computation `fold` of pairs: the extreme of the numbers and its first index."""
    return f"""fold {{
  a = {element}[] parameter(0)
  i = s32[] parameter(1)
  b = {element}[] parameter(2)
  j = s32[] parameter(3)
  more = pred[] compare(a, b), direction={direction}
  same = pred[] compare(a, b), direction=EQ
  before = pred[] compare(i, j), direction=LT
  first = pred[] and(same, before)
  left = pred[] or(more, first)
  v = {element}[] select(left, a, b)
  k = s32[] select(left, i, j)
  ROOT t = ({element}[], s32[]) tuple(v, k)
}}"""


@pytest.mark.slow
@pytest.mark.parametrize("length", [5, 7, 8, 11, 16, 17, 20, 32, 49, 127, 128])
@pytest.mark.parametrize("element", ["f32", "s32", "s8", "f64"])
def test_indices_of_extremes(element: str, length: int) -> None:
    rows = _rows(length, 13)
    module = parse_hlo(f"""HloModule places

{_extreme(element, "GT")}

ENTRY main {{
  x = {element}[{rows},{length}] parameter(0)
  n = s32[{rows},{length}] iota(), iota_dimension=1
  low = {element}[] constant(-100)
  zero = s32[] constant(0)
  ROOT r = ({element}[{rows}], s32[{rows}]) reduce(x, n, low, zero), dimensions={{1}},
    to_apply=fold
}}
""")
    _check(module, _some(element, (rows, length)))


@pytest.mark.parametrize("length", [5, 8])
@pytest.mark.parametrize("more", [0, 11])
def test_nothing_is_read_behind_the_last_row(length: int, more: int) -> None:
    shape = (_rows(length, more), length)
    size = 4 * shape[0] * length
    page = mmap.PAGESIZE
    room = mmap.mmap(-1, -(-size // page) * page + page)
    end = len(room) - page
    address = ctypes.addressof(ctypes.c_char.from_buffer(room))
    libc = ctypes.CDLL(None)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    assert libc.mprotect(address + end, page, 0) == 0
    try:
        held = (ctypes.c_char * size).from_address(address + end - size)
        x = np.frombuffer(held, np.int32).reshape(shape)
        x[...] = _some("s32", shape)
        _check(_fold("s32", shape, "add"), x)
    finally:
        assert libc.mprotect(address + end, page, 3) == 0


@pytest.mark.parametrize("length", [5, 20, 49])
def test_numbers_of_rows_and_columns_beside_them(length: int) -> None:
    """Distances to centres: of each row and of each column there is a number more."""
    rows = _rows(length, 13)
    module = parse_hlo(f"""HloModule nearest

{_extreme("f32", "LT")}

ENTRY main {{
  x = f32[{rows},{length}] parameter(0)
  r = f32[{rows}] parameter(1)
  c = f32[{length}] parameter(2)
  of.rows = f32[{rows},{length}] broadcast(r), dimensions={{0}}
  of.columns = f32[{rows},{length}] broadcast(c), dimensions={{1}}
  some = f32[{rows},{length}] subtract(of.rows, x)
  all = f32[{rows},{length}] add(some, of.columns)
  n = s32[{rows},{length}] iota(), iota_dimension=1
  high = f32[] constant(inf)
  zero = s32[] constant(0)
  ROOT y = (f32[{rows}], s32[{rows}]) reduce(all, n, high, zero), dimensions={{1}}, to_apply=fold
}}
""")
    x = _some("f32", (rows, length))
    x[3, 1], x[::5, 2] = np.inf, -0.0
    found = agrees(module, [x, _some("f32", (rows,)), _some("f32", (length,))])
    (kernel,) = found.executable.kernels
    if TargetSpec.host().vector_bits >= 512:
        assert kernel.strategy == "transposed rows"
