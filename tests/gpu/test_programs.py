# SPDX-License-Identifier: Apache-2.0
"""Whole programs on a GPU: the host program, the runtime and the kernels, against the evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from tests.gpu.fake_driver import FakeDriver
from tests.gpu.programs import COMPUTATIONS

import ingot
from ingot.client.gpu_executable import GpuExecutable

pytest_plugins = ("tests.gpu.fixtures",)


def compiled(body: str, computations: str = "") -> GpuExecutable:
    """Return a program on the GPU."""
    text = f"HloModule m\n{COMPUTATIONS}{computations}\nENTRY e {{ {body} }}"
    found = ingot.compile(text, device="gpu")
    assert isinstance(found, GpuExecutable)
    return found


def test_a_sum_of_products(fake: FakeDriver) -> None:
    executable = compiled("""x = f32[?n] parameter(0)
      y = f32[?n] parameter(1)
      p = f32[?n] multiply(x, y)
      z = f32[] constant(0)
      ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=add_f32""")
    for count in (0, 1, 7, 1000):
        x, y = np.arange(count, dtype=np.float32), np.full(count, 2, np.float32)
        found = executable(x, y)
        assert isinstance(found, ingot.DeviceArray)
        assert np.asarray(found) == 2 * x.sum()
