# SPDX-License-Identifier: Apache-2.0
"""Which dimensions of a convolution's input are walked as one, and that results do not show it."""

from __future__ import annotations

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse
from ingot.kernel.elemental.convolution_index import joins_last


@pytest.mark.parametrize(
    ("features", "window", "joins"),
    [
        (3, "size=3x3 pad=1_1x1_1", True),
        (31, "size=3x3 pad=1_1x1_1", True),
        (32, "size=3x3 pad=1_1x1_1", False),
        (37, "size=2x4 pad=0_0x2_1", False),
        (64, "size=3x3 pad=1_1x0_0", True),
        (64, "size=3x3", True),
    ],
)
def test_padding_is_left_out_by_positions_of_many_features(
    features: int, window: str, joins: bool
) -> None:
    size = window.split()[0].removeprefix("size=").replace("x", ",")
    text = f"""HloModule m
ENTRY e {{
  x = f32[2,9,11,{features}] parameter(0)
  w = f32[{size},{features},3] parameter(1)
  ROOT r = convolution(x, w), window={{{window}}}, dim_labels=b01f_01io->b01f
}}
"""
    module = parse(text)
    assert joins_last(module.entry.root) == joins
    random = np.random.default_rng(features)
    arguments = [
        random.integers(-3, 4, parameter.shape.static_dims).astype(np.float32)
        for parameter in module.entry.parameters
    ]
    found = ingot.compile(module)(*arguments)
    np.testing.assert_array_equal(found, evaluate(parse(text), arguments))
