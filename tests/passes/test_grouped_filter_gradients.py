# SPDX-License-Identifier: Apache-2.0
"""Groups of filter gradients are joined without a change of meaning."""

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.passes.simplify.convolutions.grouped_filter_gradients import grouped_filter_gradients


def _module(labels, groups, channels, features, size=20):
    sizes = {"f": 3, "b": groups * channels, "0": size, "1": size + 3}
    of_gradient = {"i": 3, "o": groups * features, "0": size - 1, "1": size + 3}
    of_result = {"b": channels, "f": groups * features, "0": 3, "1": 2}
    left, right, result = labels.replace("->", "_").split("_")
    shapes = [
        f"f32[{','.join(str(known[letter]) for letter in letters)}]"
        for letters, known in ((left, sizes), (right, of_gradient), (result, of_result))
    ]
    return ingot.parse_hlo(f"""HloModule m
ENTRY e {{
  x = {shapes[0]} parameter(0)
  g = {shapes[1]} parameter(1)
  ROOT k = {shapes[2]} convolution(x, g), window={{size={size - 1}x{size + 3} pad=1_0x1_0}}, \
dim_labels={labels}, batch_group_count={groups}
}}""")


@pytest.mark.parametrize("labels", ["f01b_i01o->01bf", "fb01_io01->fb01", "fb01_io01->bf01"])
@pytest.mark.parametrize(
    ("groups", "channels", "features"), [(4, 4, 4), (6, 2, 2), (8, 2, 3), (2, 4, 2), (32, 3, 2)]
)
def test_the_same_sums(labels, groups, channels, features):
    module, random = _module(labels, groups, channels, features), np.random.default_rng(1)
    x, g = (
        random.integers(-9, 9, item.shape.static_dims).astype(np.float32)
        for item in module.entry.parameters
    )
    expected = evaluate(module, [x, g])
    made = module.clone()
    assert grouped_filter_gradients.run(made, PassContext())
    np.testing.assert_array_equal(evaluate(made, [x, g]), expected)
    np.testing.assert_array_equal(ingot.compile(module)(x, g), expected)


@pytest.mark.parametrize("sizes", [(8, 1, 1), (4, 8, 8), (3, 4, 4), (4, 4, 4, 3)])
def test_others_stay(sizes):
    """One channel each, channels enough, groups that cannot be halved, few products."""
    module = _module("f01b_i01o->01bf", *sizes)
    assert not grouped_filter_gradients.run(module, PassContext())
