# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions of few channels run in strips without a change of meaning."""

from dataclasses import dataclass

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.passes.simplify.convolutions.depthwise_strips import depthwise_strips

LABELS = ["bf01_oi01->bf01", "b01f_01io->b01f", "01bf_i0o1->f0b1"]


@dataclass
class _Groups:
    """Sizes of a depthwise convolution: what is drawn for each kind."""

    channels: int
    repeated: int = 1
    added: int = 1


def _groups(random, kind):
    few, many = random.integers(1, 4), random.integers(8, 13)
    factor = int(random.integers(2, 4))
    return {
        "few": lambda: _Groups(few, random.integers(1, 3)),
        "several features": lambda: _Groups(many, factor),
        "several channels": lambda: _Groups(random.choice([2, many]), 1, factor),
    }[kind]()


def _drawn(random):
    """Return what a window is, at random: image, taps, stride, base, dilation, reversal, pads."""
    image, taps = random.integers(33, 48, 2), random.integers(2, 6, 2)
    stride, base, dilation, backwards = (random.integers(1, 3, 2) for _ in range(4))
    return image, taps, stride, base, dilation, backwards - 1, random.integers(-2, 5, (2, 2))


def _text(element, shapes, window, rest):
    """Return a module of one convolution; `shapes`: letters and sizes of operands and result."""

    def shape(letters, known):
        return f"{element}[{','.join(str(known[letter]) for letter in letters)}]"

    def each(values):
        return "x".join(map(str, values))

    taps, stride, base, dilation, backwards, (low, high) = window
    pad = each(f"{a}_{b}" for a, b in zip(low, high, strict=True))
    left, right, result = (shape(*item) for item in shapes)
    return ingot.parse_hlo(f"""\
HloModule m

ENTRY e {{
  x = {left} parameter(0)
  k = {right} parameter(1)
  ROOT y = {result} convolution(x, k), window={{size={each(taps)} \
stride={each(stride)} pad={pad} lhs_dilate={each(base)} rhs_dilate={each(dilation)} \
rhs_reversal={each(backwards)}}}, {rest}
}}
""")


def _module(random, labels, element, kind):
    """Return a depthwise convolution with everything at random."""
    groups, batch = _groups(random, kind), random.integers(1, 6)
    image, taps, stride, base, dilation, backwards, pads = _drawn(random)
    spread = (image - 1) * base + 1 + pads.sum(0)
    count = (spread - (taps - 1) * dilation - 1) // stride + 1
    left, right, result = labels.replace("->", "_").split("_")
    features = groups.channels * groups.repeated
    of_input = {**_sizes(image), "b": batch, "f": groups.channels * groups.added}
    of_taps = {**_sizes(taps), "i": groups.added, "o": features}
    of_result = {**_sizes(count), "b": batch, "f": features}
    shapes = (left, of_input), (right, of_taps), (result, of_result)
    rest = f"dim_labels={labels}, feature_group_count={groups.channels}"
    return _text(element, shapes, (taps, stride, base, dilation, backwards, pads), rest)


def _sizes(values):
    return {str(number): value for number, value in enumerate(values)}


def _checked(module, random) -> bool:
    """Check what the pass and a compilation make of a module; whether the pass changed it."""
    x, k = (
        random.integers(-9, 9, item.shape.static_dims).astype(item.shape.dtype.numpy)
        for item in module.entry.parameters
    )
    expected = evaluate(module, [x, k])
    made = module.clone()
    changed = depthwise_strips.run(made, PassContext())
    assert not depthwise_strips.run(made, PassContext())
    np.testing.assert_array_equal(evaluate(made, [x, k]), expected)
    np.testing.assert_array_equal(ingot.compile(module)(x, k), expected)
    return changed


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("kind", ["few", "several features", "several channels"])
def test_the_same_sums(kind, labels, element):
    random = np.random.default_rng(3)
    changed = [_checked(_module(random, labels, element, kind), random) for _ in range(8)]
    assert sum(changed) > 3


@pytest.mark.parametrize(("channels", "repeated"), [(3, 1), (3, 2), (12, 2), (40, 1)])
def test_filter_gradients_are_the_same_sums(channels, repeated):
    random = np.random.default_rng(5)
    for _ in range(4):
        image, taps, dilation, _, stride, backwards, pads = _drawn(random)
        taps, base = taps + 8, np.ones(2, int)
        spread = image + pads.sum(0)
        count = (spread - (taps - 1) * dilation - 1) // stride + 1
        of_input = {**_sizes(image), "f": 2, "b": channels}
        of_gradient = {**_sizes(taps), "i": 2, "o": channels * repeated}
        of_result = {**_sizes(count), "b": 1, "f": channels * repeated}
        shapes = ("f01b", of_input), ("i01o", of_gradient), ("01bf", of_result)
        rest = f"dim_labels=f01b_i01o->01bf, batch_group_count={channels}"
        window = (taps, stride, base, dilation, backwards, pads)
        assert _checked(_text("f32", shapes, window, rest), random)


@pytest.mark.parametrize("repeated", [1, 2])
def test_filter_gradients_of_a_symbolic_batch(repeated):
    module = ingot.parse_hlo(f"""HloModule m
ENTRY e {{
  x = f32[?n,19,17,24] parameter(0)
  g = f32[?n,19,17,{24 * repeated}] parameter(1)
  ROOT y = f32[3,5,1,{24 * repeated}] convolution(x, g), window={{size=19x17 pad=1_1x2_2}}, \
dim_labels=f01b_i01o->01bf, batch_group_count=24
}}""")
    made = module.clone()
    assert depthwise_strips.run(made, PassContext())
    executable, random = ingot.compile(module), np.random.default_rng(1)
    for batch in (0, 1, 5):
        shapes = (batch, 19, 17, 24), (batch, 19, 17, 24 * repeated)
        inputs = [random.integers(-9, 9, shape).astype(np.float32) for shape in shapes]
        expected = evaluate(module, inputs)
        np.testing.assert_array_equal(evaluate(made, inputs), expected)
        np.testing.assert_array_equal(executable(*inputs), expected)


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
        "f32[2,60,60,4] f32[5,5,2,6] f32[2,56,56,6] 2",
        "f32[2,60,60,4] f32[5,5,4,1] f32[2,56,56,1] 1",
    ],
    ids=["channels enough", "too small", "unknown size", "no driver", "groups", "one feature"],
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
    assert not depthwise_strips.run(module, PassContext())
