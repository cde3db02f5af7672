# SPDX-License-Identifier: Apache-2.0
"""A transformer that is trained divided in five ways, on devices and processes of any number.

Losses over 50 steps are those of one device, and the same bits in every run: nine digits tell two
numbers of f32 apart.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
STEPS = 50
WAYS = ("data", "fsdp", "tensor", "expert", "pipeline")


def run(devices: int, processes: int) -> str:
    """Return what the example prints: a line with the losses of each way."""
    command = [
        *(sys.executable, str(ROOT / "examples" / "jax_sharded_training.py")),
        *("--steps", str(STEPS), "--devices", str(devices), "--processes", str(processes)),
    ]
    environment = {**os.environ, "JAX_PLATFORMS": "ingot", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def losses(text: str) -> dict[str, np.ndarray]:
    rows = [line.split() for line in text.splitlines()]
    return {way: np.array(values, np.float32) for way, *values in rows}


first_run = cache(run)


@pytest.mark.parametrize(("devices", "processes"), [(2, 1), (4, 1), (8, 1), (1, 2), (2, 2), (1, 4)])
def test_losses_are_those_of_one_device(devices: int, processes: int) -> None:
    found, expected = losses(first_run(devices, processes)), losses(first_run(1, 1))
    assert tuple(found) == WAYS
    for way, values in found.items():
        assert values.shape == (STEPS,)
        np.testing.assert_allclose(values, expected[way], rtol=1e-5)
    assert all(values[-5:].mean() < values[:5].mean() / 1.5 for values in found.values())


@pytest.mark.parametrize(("devices", "processes"), [(4, 1), (2, 2)])
def test_every_run_gives_the_same_bits(devices: int, processes: int) -> None:
    assert run(devices, processes) == first_run(devices, processes)
