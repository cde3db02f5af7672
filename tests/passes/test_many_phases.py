# SPDX-License-Identifier: Apache-2.0
"""Convolutions with a dilated input whose phases become features: many, or all alike."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.against_evaluator import agrees

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.passes.simplify.convolutions.phases import convolution_phases

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
    assert convolution_phases.run(made, PassContext())
    assert not convolution_phases.run(made, PassContext())
    executable, random = ingot.compile(module), np.random.default_rng(3)
    dtype = module.entry.root.shape.dtype.numpy
    for number in (0, 1, 3) if batch == "?n" else (2,):
        sizes = [tuple(map(int, text.replace("?n", str(number)).split(","))) for text in (x, k)]
        inputs = [random.integers(-4, 5, size).astype(dtype) for size in sizes]
        np.testing.assert_array_equal(evaluate(made, inputs), evaluate(module, inputs))
        agrees(module, inputs, executable=executable)


@pytest.mark.parametrize("window", ["size=3x3 pad=2_4x2_4", "size=7x5 pad=6_4x4_4"])
def test_infinities_meet_no_zeros_of_a_filter(window: str) -> None:
    """Phases that use fewer elements of the filter than others give no NaN."""
    height, width = window[5], window[7]
    module = ingot.parse_hlo(f"""HloModule m
ENTRY e {{
  x = f32[1,5,5,4] parameter(0)
  k = f32[{height},{width},4,4] parameter(1)
  ROOT y = f32[1,25,25,4] convolution(x, k),
    window={{{window} lhs_dilate=5x5}}, dim_labels=b01f_01io->b01f
}}""")
    made = module.clone()
    assert convolution_phases.run(made, PassContext())
    x = np.ones((1, 5, 5, 4), np.float32)
    x[0, 2, 2, 1], x[0, 0, 4, 3] = np.inf, -np.inf
    inputs = [x, np.ones((int(height), int(width), 4, 4), np.float32)]
    assert not np.isnan(evaluate(module, inputs)).any()
    np.testing.assert_array_equal(evaluate(made, inputs), evaluate(module, inputs))
    agrees(module, inputs)


@pytest.mark.parametrize(("element", "features"), [("f32", 2), ("bf16", 3), ("s32", 8)])
def test_few_phases_that_are_alike(element: str, features: int) -> None:
    """4x4 by steps of 2, which the driver does not take: one convolution of all phases."""
    module = ingot.parse_hlo(f"""HloModule m
ENTRY e {{
  x = {element}[2,35,37,32] parameter(0)
  k = {element}[4,4,32,{features}] parameter(1)
  ROOT y = {element}[2,70,74,{features}] convolution(x, k),
    window={{size=4x4 pad=2_2x2_2 lhs_dilate=2x2 rhs_reversal=1x0}}, dim_labels=b01f_01io->b01f
}}""")
    made, random = module.clone(), np.random.default_rng(5)
    assert convolution_phases.run(made, PassContext())
    (dense,) = made.find("convolution")
    assert dense.shape.dims[-1] == 4 * features
    dtype = module.entry.root.shape.dtype.numpy
    shapes = [item.shape.static_dims for item in module.entry.parameters]
    inputs = [random.integers(-3, 4, shape).astype(dtype) for shape in shapes]
    np.testing.assert_array_equal(evaluate(made, inputs), evaluate(module, inputs))
    agrees(module, inputs)


@pytest.mark.parametrize("step", [3, 17])
def test_any_size_in_space(step: int) -> None:
    """Few or many phases of images of symbolic size."""
    module = ingot.parse_hlo(f"""HloModule m
ENTRY e {{
  x = f32[?b,?n,4,3] parameter(0)
  k = f32[{step},2,3,5] parameter(1)
  ROOT y = f32[?b,?({step}*n),3,5] convolution(x, k),
    window={{size={step}x2 pad=1_{2 * step - 3}x0_0 lhs_dilate={step}x1 rhs_reversal=0x1}},
    dim_labels=b01f_01io->b01f
}}""")
    made, random = module.clone(), np.random.default_rng(7)
    assert convolution_phases.run(made, PassContext())
    (dense,) = made.find("convolution")
    assert dense.shape.dims[-1] == 5 * step
    executable = ingot.compile(module)
    for batch, size in ((1, 1), (2, 7), (0, 3)):
        shapes = (batch, size, 4, 3), (step, 2, 3, 5)
        inputs = [random.integers(-3, 4, shape).astype(np.float32) for shape in shapes]
        np.testing.assert_array_equal(evaluate(made, inputs), evaluate(module, inputs))
        agrees(module, inputs, executable=executable)
