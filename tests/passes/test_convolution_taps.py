# SPDX-License-Identifier: Apache-2.0
"""Convolutions to few features: one product for all taps, shifted and added."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.against_evaluator import agrees

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.passes.simplify.convolutions.taps import convolution_taps

# image, filter, result, window, labels
CASES = [
    ("2,13,11,8", "3,3,8,2", "2,13,11,2", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    ("?n,25,13,11", "3,25,5,5", "?n,3,13,11", "size=5x5 pad=2_2x2_2", "bf01_oi01->bf01"),
    ("2,12,40,17", "12,1,1,4", "2,41,17,1", "size=1x4 pad=0_0x2_2", "bf10_io01->b10f"),
    ("1,21,20,8", "3,2,8,1", "1,17,19,1", "size=3x2 rhs_dilate=2x1", "b01f_01io->b01f"),
    ("2,16,16,8", "3,3,8,2", "2,15,17,2", "size=3x3 pad=-1_2x2_1", "b01f_01io->b01f"),
    (
        "3,?n,7,9",
        "3,3,9,3",
        "3,?n,7,3",
        "size=3x3 pad=1_1x1_1 rhs_reversal=1x0",
        "b01f_01io->b01f",
    ),
    ("1,5,6,7,8", "2,1,3,8,1", "1,6,6,7,1", "size=2x1x3 pad=1_1x0_0x1_1", "b012f_012io->b012f"),
]


def _module(case: tuple[str, ...], element: str) -> ingot.Module:
    image, filter, result, window, labels = case
    return ingot.parse_hlo(f"""HloModule m
ENTRY e {{
  x = {element}[{image}] parameter(0)
  k = {element}[{filter}] parameter(1)
  y = {element}[{result}] convolution(x, k), window={{{window}}}, dim_labels={labels}
  ROOT z = {element}[{result}] negate(y)
}}""")


@pytest.mark.parametrize("element", ["f32", "bf16", "s32", "c64"])
@pytest.mark.parametrize("case", CASES)
def test_the_same_sums(case: tuple[str, ...], element: str) -> None:
    labels = case[-1].replace("01io", "01oi") if element == "s32" else case[-1]
    if labels != case[-1]:
        *window, channels, features = case[1].split(",")
        case = (case[0], ",".join((*window, features, channels)), *case[2:4], labels)
    module = _module(case, element)
    made, executable = module.clone(), ingot.compile(module)
    assert convolution_taps.run(made, PassContext())
    assert not list(made.find("convolution"))
    random = np.random.default_rng(3)
    for number in (1, 6) if "?n" in case[0] else (0,):
        sizes = [tuple(map(int, text.replace("?n", str(number)).split(","))) for text in case[:2]]
        values = [random.integers(-4, 5, size) for size in sizes]
        if element == "c64":
            values = [value + 1j * random.integers(-2, 3, value.shape) for value in values]
        inputs = [value.astype(module.entry.root.shape.dtype.numpy) for value in values]
        np.testing.assert_array_equal(evaluate(made, inputs), evaluate(module, inputs))
        agrees(module, inputs, executable=executable)


def test_infinities_stay_within_their_windows() -> None:
    module = _module(CASES[0], "f32")
    x, k = np.ones((2, 13, 11, 8), np.float32), np.ones((3, 3, 8, 2), np.float32)
    x[0, 4, 4, 3], x[1, 0, 10, 1] = np.inf, np.nan
    expected = np.asarray(evaluate(module, [x, k]))
    assert np.isinf(expected).sum() == 2 * 9
    assert np.isnan(expected).sum() == 2 * 4
    agrees(module, [x, k])


@pytest.mark.parametrize(
    ("image", "filter", "result", "window"),
    [
        ("2,12,12,8", "3,3,8,4", "2,12,12,4", "size=3x3 pad=1_1x1_1"),
        ("2,12,12,4", "3,3,4,1", "2,12,12,1", "size=3x3 pad=1_1x1_1"),
        ("2,12,12,8", "3,3,8,1", "2,6,6,1", "size=3x3 pad=1_1x1_1 stride=2x2"),
        ("2,8,8,8", "5,5,8,1", "2,4,4,1", "size=5x5"),
        ("2,12,12,8", "11,11,8,1", "2,12,12,1", "size=11x11 pad=5_5x5_5"),
    ],
)
def test_where_it_does_not_pay(image: str, filter: str, result: str, window: str) -> None:
    """Enough features, few channels, unused products, many taps: left as they are."""
    module = _module((image, filter, result, window, "b01f_01io->b01f"), "f32")
    assert not convolution_taps.run(module, PassContext())
