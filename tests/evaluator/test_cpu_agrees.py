# SPDX-License-Identifier: Apache-2.0
"""Random modules give on the CPU backend what they give on the evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.random_modules import random_module

import ingot
from ingot.evaluator import evaluate

pytestmark = pytest.mark.fast_share(4)


@pytest.mark.parametrize("seed", range(40))
def test_as_the_evaluator(seed: int) -> None:
    module, inputs = random_module(seed, steps=20)
    got = ingot.compile(module)(*inputs)
    want = evaluate(module, inputs)
    assert len(got) == len(want)
    for value, other in zip(got, want, strict=True):
        assert value.dtype == other.dtype
        if value.dtype == np.float32:
            np.testing.assert_allclose(value, other, rtol=1e-3, atol=1e-3)
        else:
            np.testing.assert_array_equal(value, other)
