# SPDX-License-Identifier: Apache-2.0
"""Operands of a convolution change places, and filters are sliced, without a change of meaning."""

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.passes.simplify.convolutions.operands import (
    conv_operand_swapper,
    convolution_filter_slicer,
)

LABELS = ["bf01_oi01->bf01", "b01f_01io->b01f", "01bf_i0o1->f0b1"]


def _module(random, labels):
    """Return a convolution with a large kernel, everything else at random."""
    while True:
        image, taps = random.integers(1, 5, 2), random.integers(3, 8, 2)
        stride, base, dilation, backwards = (random.integers(1, 4, 2) for _ in range(4))
        low, high = random.integers(-2, 9, (2, 2))
        spread = (image - 1) * base + 1 + low + high
        reach = (taps - 1) * dilation + 1
        if (spread >= reach).all() and taps.prod() >= 2 * image.prod():
            break
    left, right, result = labels.replace("->", "_").split("_")
    sizes = {"0": image[0], "1": image[1], "b": 16, "f": 3}
    of_taps = {"0": taps[0], "1": taps[1], "i": 3, "o": 4}
    count = (spread - reach) // stride + 1
    of_result = {"0": count[0], "1": count[1], "b": 16, "f": 4}

    def shape(letters, known):
        return f"f32[{','.join(str(known[letter]) for letter in letters)}]"

    def each(values):
        return "x".join(map(str, values))

    pad = each(f"{a}_{b}" for a, b in zip(low, high, strict=True))
    return ingot.parse_hlo(f"""\
HloModule m

ENTRY e {{
  x = {shape(left, sizes)} parameter(0)
  k = {shape(right, of_taps)} parameter(1)
  ROOT y = {shape(result, of_result)} convolution(x, k), window={{size={each(taps)} \
stride={each(stride)} pad={pad} lhs_dilate={each(base)} rhs_dilate={each(dilation)} \
rhs_reversal={each(backwards % 2)}}}, dim_labels={labels}
}}
""")


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("seed", range(12))
def test_the_same_sums(labels, seed):
    random = np.random.default_rng(seed)
    module = _module(random, labels)
    parameters = [item.shape.dims for item in module.entry.parameters]
    x, k = (random.integers(-9, 9, dims).astype(np.float32) for dims in parameters)
    expected = evaluate(module, [x, k])
    swapped = module.clone()
    assert conv_operand_swapper.run(swapped, PassContext())
    assert not conv_operand_swapper.run(swapped, PassContext())
    np.testing.assert_array_equal(evaluate(swapped, [x, k]), expected)
    np.testing.assert_array_equal(ingot.compile(module)(x, k), expected)


@pytest.mark.parametrize("labels", LABELS)
def test_slices_of_filters_give_the_same_sums(labels):
    random = np.random.default_rng(7)
    sliced = 0
    for _ in range(40):
        module = _module(random, labels)
        parameters = [item.shape.dims for item in module.entry.parameters]
        x, k = (random.integers(-9, 9, dims).astype(np.float32) for dims in parameters)
        expected = evaluate(module, [x, k])
        made = module.clone()
        if convolution_filter_slicer.run(made, PassContext()):
            sliced += 1
            assert not convolution_filter_slicer.run(made, PassContext())
        np.testing.assert_array_equal(evaluate(made, [x, k]), expected)
    assert sliced > 5
