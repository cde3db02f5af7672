# SPDX-License-Identifier: Apache-2.0
"""Convolutions whose input is dilated so far that their phases become features of one."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.against_evaluator import agrees

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.passes.simplify.convolution_phases import ConvolutionPhases

# image, result, window: the gradient of patches; steps and edges of other sizes than the filter
CASES = [
    ("5,4", "80,64", "size=16x16 pad=15_15x15_15 lhs_dilate=16x16 rhs_reversal=1x1"),
    ("5,4", "80,64", "size=16x16 pad=15_15x15_15 lhs_dilate=16x16"),
    ("5,4", "40,16", "size=8x4 pad=7_7x3_3 lhs_dilate=8x4 rhs_reversal=1x0"),
    ("6,5", "48,40", "size=16x16 pad=11_11x11_11 lhs_dilate=8x8 rhs_reversal=1x1"),
    ("6,5", "40,26", "size=11x3 pad=10_4x2_1 lhs_dilate=7x6 rhs_reversal=1x1"),
    ("3,7", "15,25", "size=2x5 pad=-3_2x3_1 lhs_dilate=8x4"),
    ("9,7", "9,108", "size=3x17 pad=1_1x9_12 lhs_dilate=1x17 rhs_reversal=0x1"),
]


@pytest.mark.parametrize(
    ("element", "batch", "labels"),
    [
        ("f32", "2", "b01f_01io->b01f"),
        ("f32", "?n", "bf01_io01->bf01"),
        ("bf16", "2", "bf01_oi01->bf01"),
    ],
)
@pytest.mark.parametrize("case", CASES)
def test_the_same_sums(case: tuple[str, str, str], batch: str, element: str, labels: str) -> None:
    image, result, window = case
    taps = window.split()[0][5:].replace("x", ",")
    left, rest = labels.split("_")
    right, output = rest.split("->")

    def shape(letters: str, sizes: dict[str, str]) -> str:
        return ",".join(sizes[letter] for letter in letters if letter not in "1")

    x = shape(left, {"b": batch, "0": image, "f": "3"})
    k = shape(right, {"i": "3", "0": taps, "o": "5"})
    y = shape(output, {"b": batch, "0": result, "f": "5"})
    module = ingot.parse_hlo(f"""HloModule m
ENTRY e {{
  x = {element}[{x}] parameter(0)
  k = {element}[{k}] parameter(1)
  ROOT y = {element}[{y}] convolution(x, k), window={{{window}}}, dim_labels={labels}
}}""")
    made = module.clone()
    assert ConvolutionPhases().run(made, PassContext())
    assert not ConvolutionPhases().run(made, PassContext())
    executable, random = ingot.compile(module), np.random.default_rng(3)
    dtype = module.entry.root.shape.dtype.numpy
    for number in (0, 1, 3) if batch == "?n" else (2,):
        sizes = [tuple(map(int, text.replace("?n", str(number)).split(","))) for text in (x, k)]
        inputs = [random.integers(-4, 5, size).astype(dtype) for size in sizes]
        np.testing.assert_array_equal(evaluate(made, inputs), evaluate(module, inputs))
        agrees(module, inputs, executable=executable)
