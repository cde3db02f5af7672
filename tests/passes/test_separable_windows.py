# SPDX-License-Identifier: Apache-2.0
"""Large pools that are folded along one dimension after the other mean what they meant whole."""

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
  x = {type}[{dims}] parameter(0)
  first = {type}[] constant({first})
  ROOT r = {type}[{result}] reduce-window(x, first), window={{{window}}}, to_apply=fold
}}"""

WINDOWS = [
    ("2,19,23,3", "2,19,23,3", "size=1x7x7x1 pad=0_0x3_3x3_3x0_0"),
    ("2,20,20,37", "2,20,20,37", "size=1x13x13x1 pad=0_0x6_6x6_6x0_0"),
    ("1,17,1,1", "1,17,1,1", "size=1x5x5x1 pad=0_0x2_2x2_2x0_0"),
    ("3,31,29,2", "3,14,14,2", "size=1x7x5x1 stride=1x2x2x1 pad=0_0x1_1x1_2x0_0"),
    ("2,16,18,5", "2,10,13,5", "size=1x4x6x1 pad=0_0x0_0x3_2x0_0 rhs_dilate=1x2x2x1"),
    ("5,6,7,8,2", "5,6,7,8,2", "size=1x3x3x3x1 pad=0_0x1_1x1_1x1_1x0_0"),
    ("0,9,9,2", "0,9,9,2", "size=1x5x5x1 pad=0_0x2_2x2_2x0_0"),
]


@pytest.mark.parametrize(("dims", "result", "window"), WINDOWS)
@pytest.mark.parametrize(
    ("element", "fold", "first"),
    [
        ("f32", "maximum", "-inf"),
        ("f32", "add", "0"),
        ("f64", "minimum", "inf"),
        ("s32", "add", "0"),
        ("u8", "and", "255"),
        ("f16", "add", "0"),
        ("f32", "maximum", "-0.5"),
    ],
)
def test_pools(dims: str, result: str, window: str, element: str, fold: str, first: str) -> None:
    text = TEXT.format(
        type=element, fold=fold, dims=dims, first=first, result=result, window=window
    )
    module = parse_hlo(text)
    choose = np.random.default_rng(len(text))
    dtype = np.dtype({"s": "i", "u": "u", "f": "f"}[element[0]] + str(int(element[1:]) // 8))
    size = tuple(int(one) for one in dims.split(","))
    array = choose.integers(-9 if element[0] != "u" else 0, 20, size).astype(dtype)
    if dtype.kind == "f" and array.size > 8:
        array.flat[[1, 5, 6, 7]] = [np.nan, np.inf, -0.0, np.finfo(dtype).smallest_subnormal]
    found, wanted = ingot.compile(module)(array), evaluate(module, [array])
    assert np.array_equal(np.asarray(found), np.asarray(wanted), equal_nan=dtype.kind == "f")


def test_a_symbolic_size() -> None:
    window = "size=1x9x9x1 pad=0_0x4_4x4_4x0_0"
    dims = "?n,20,20,3"
    text = TEXT.format(
        type="f32", fold="maximum", first="-inf", dims=dims, result=dims, window=window
    )
    module = parse_hlo(text)
    executable = ingot.compile(module)
    assert len(executable.kernels) == 2
    for count in (0, 1, 5):
        array = np.random.default_rng(count).normal(size=(count, 20, 20, 3)).astype(np.float32)
        assert np.array_equal(np.asarray(executable(array)), np.asarray(evaluate(module, [array])))


def test_exact_sums_stay_whole() -> None:
    text = TEXT.format(
        type="f32",
        fold="add",
        first="0",
        dims="1,20,20,3",
        result="1,14,14,3",
        window="size=1x7x7x1",
    )
    assert len(ingot.compile(text).kernels) == 2
    assert len(ingot.compile(text, fp="exact").kernels) == 1
