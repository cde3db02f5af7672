# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions of few channels run in strips without a change of meaning."""

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.passes.simplify.depthwise_strips import DepthwiseStrips

LABELS = ["bf01_oi01->bf01", "b01f_01io->b01f", "01bf_i0o1->f0b1"]


def _module(random, labels, element="f32"):
    """Return a depthwise convolution of 1 to 3 channels, everything else at random."""
    channels, multiplier, batch = (
        random.integers(1, 4),
        random.integers(1, 3),
        random.integers(1, 6),
    )
    image, taps = random.integers(33, 48, 2), random.integers(2, 6, 2)
    stride, dilation, backwards = (random.integers(1, 3, 2) for _ in range(3))
    low, high = random.integers(-2, 5, (2, 2))
    count = (image + low + high - (taps - 1) * dilation - 1) // stride + 1
    left, right, result = labels.replace("->", "_").split("_")
    features = channels * multiplier
    of_input = {"0": image[0], "1": image[1], "b": batch, "f": channels}
    of_taps = {"0": taps[0], "1": taps[1], "i": 1, "o": features}
    of_result = {"0": count[0], "1": count[1], "b": batch, "f": features}

    def shape(letters, known):
        return f"{element}[{','.join(str(known[letter]) for letter in letters)}]"

    def each(values):
        return "x".join(map(str, values))

    pad = each(f"{a}_{b}" for a, b in zip(low, high, strict=True))
    return ingot.parse_hlo(f"""\
HloModule m

ENTRY e {{
  x = {shape(left, of_input)} parameter(0)
  k = {shape(right, of_taps)} parameter(1)
  ROOT y = {shape(result, of_result)} convolution(x, k), window={{size={each(taps)} \
stride={each(stride)} pad={pad} rhs_dilate={each(dilation)} \
rhs_reversal={each(backwards - 1)}}}, dim_labels={labels}, feature_group_count={channels}
}}
""")


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("labels", LABELS)
def test_the_same_sums(labels, element):
    random, in_strips = np.random.default_rng(3), 0
    for _ in range(12):
        module = _module(random, labels, element)
        x, k = (
            random.integers(-9, 9, item.shape.static_dims).astype(item.shape.dtype.numpy)
            for item in module.entry.parameters
        )
        expected = evaluate(module, [x, k])
        made = module.clone()
        if DepthwiseStrips().run(made, PassContext()):
            in_strips += 1
            assert not DepthwiseStrips().run(made, PassContext())
        np.testing.assert_array_equal(evaluate(made, [x, k]), expected)
        np.testing.assert_array_equal(ingot.compile(module)(x, k), expected)
    assert in_strips > 5


def test_one_kernel_sums_them_by_the_driver():
    """Blurs of images in colours, alone and several of different sizes in one program."""
    blur = """  k{n} = f32[11,11,1,3] parameter({filter})
  x{n} = f32[2,{size},{size},3] parameter({image})
  y{n} = f32[2,{rest},{rest},3] convolution(x{n}, k{n}), window={{size=11x11}}, \
dim_labels=b01f_01io->b01f, feature_group_count=3
"""
    bodies = [
        blur.format(n=n, filter=2 * n, image=2 * n + 1, size=size, rest=size - 10)
        for n, size in enumerate((64, 48))
    ]
    module = ingot.parse_hlo(f"""HloModule m
ENTRY e {{
{"".join(bodies)}  ROOT t = (f32[2,54,54,3], f32[2,38,38,3]) tuple(y0, y1)
}}""")
    kernels = ingot.compile(module).kernels
    found = [kernel.strategy for kernel in kernels if kernel.opcodes == ("convolution",)]
    assert found == ["direct convolution"] * 2


@pytest.mark.parametrize(
    "sizes",
    [
        "f32[2,60,60,8] f32[5,5,1,8] f32[2,56,56,8] 8",
        "f32[1,16,16,3] f32[2,2,1,3] f32[1,15,15,3] 3",
        "f32[?n,60,60,3] f32[5,5,1,3] f32[?n,56,56,3] 3",
        "bf16[2,60,60,3] bf16[5,5,1,3] bf16[2,56,56,3] 3",
        "f32[2,60,60,4] f32[5,5,2,4] f32[2,56,56,4] 2",
    ],
    ids=["channels enough", "too small", "unknown size", "no driver", "several channels a feature"],
)
def test_others_stay(sizes):
    image, taps, result, groups = sizes.split()
    size = taps[taps.index("[") + 1]
    module = ingot.parse_hlo(f"""HloModule m
ENTRY e {{
  x = {image} parameter(0)
  k = {taps} parameter(1)
  ROOT y = {result} convolution(x, k), window={{size={size}x{size}}}, \
dim_labels=b01f_01io->b01f, feature_group_count={groups}
}}""")
    assert not DepthwiseStrips().run(module, PassContext())
