# SPDX-License-Identifier: Apache-2.0
"""A sample of `make conformance-gpu`, and random programs."""

from __future__ import annotations

import numpy as np
import pytest
from tests.gpu.fake_driver import FakeDriver
from tests.gpu.sweep import differences, programs
from tests.support.random_modules import random_module

import ingot
from ingot.evaluator import evaluate

pytest_plugins = ("tests.gpu.fixtures",)


def test_programs_of_every_op(fake: FakeDriver) -> None:
    assert list(differences(programs(40))) == []


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(fake: FakeDriver, seed: int) -> None:
    module, inputs = random_module(seed, steps=40)
    found = ingot.compile(module, device="gpu")(*inputs)
    for one, other in zip(found, evaluate(module, inputs), strict=True):
        np.testing.assert_allclose(np.asarray(one), other, 1e-3, 1e-3)
