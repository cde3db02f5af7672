# SPDX-License-Identifier: Apache-2.0
"""Convolutions of signals are padded first, then products in library code."""

import numpy as np
import pytest
from tests.support.against_evaluator import agrees

import ingot
from ingot.evaluator import evaluate
from ingot.llvm.target import TargetSpec

WINDOWS = {
    "": (0, 1),
    "pad=63_63": (126, 1),
    "pad=-3_5": (2, 1),
    "rhs_reversal=1": (0, 1),
    "pad=4_0 rhs_reversal=1 rhs_dilate=2": (4, 2),
}
"""Windows, by how much they make the result longer, and their dilation."""


def signal(element, size, taps, window, labels="b0f_0io->b0f"):
    more, dilation = WINDOWS[window]
    count = size + more - (taps - 1) * dilation
    shapes = {
        "b0f_0io->b0f": (f"[1,{size},1]", f"[{taps},1,1]", f"[1,{count},1]"),
        "bf0_oi0->bf0": (f"[1,1,{size}]", f"[1,1,{taps}]", f"[1,1,{count}]"),
    }[labels]
    first, second, result = (element + shape for shape in shapes)
    return ingot.parse_hlo(f"""HloModule signal

ENTRY main {{
  x = {first} parameter(0)
  w = {second} parameter(1)
  ROOT y = {result} convolution(x, w), window={{size={taps} {window}}}, dim_labels={labels}
}}
""")


def check(module):
    random = np.random.default_rng(0)
    inputs = [
        random.integers(-4, 5, parameter.shape.dims).astype(parameter.shape.dtype.numpy)
        for parameter in module.entry.parameters
    ]
    return agrees(module, inputs).executable


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(("size", "taps"), [(5000, 64), (300, 1), (70, 3), (40, 17)])
def test_windows(size, taps, window):
    """Small integers: sums are exact in any order."""
    if size + WINDOWS[window][0] - (taps - 1) * WINDOWS[window][1] > 0:
        check(signal("f32", size, taps, window))


@pytest.mark.parametrize("element", ["f64", "bf16", "f16", "s32", "s8", "c64"])
def test_elements(element):
    check(signal(element, 700, 20, "pad=63_63"))


@pytest.mark.parametrize("labels", ["b0f_0io->b0f", "bf0_oi0->bf0"])
def test_signals_have_no_code_of_their_own(labels):
    executable = check(signal("f32", 5000, 64, "pad=63_63", labels))
    if TargetSpec.host().vector_bits >= 512:
        kernels = executable.inspection.compiled.kernels.compiled.values()
        assert all(kernel.code is None for kernel in kernels)


def test_padding_takes_part_in_sums_as_zero():
    module = signal("f32", 100, 5, "pad=63_63")
    signal_, taps = np.ones((1, 100, 1), np.float32), np.full((5, 1, 1), np.nan, np.float32)
    found = ingot.compile(module).call(signal_, taps)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(evaluate(module, [signal_, taps])))
