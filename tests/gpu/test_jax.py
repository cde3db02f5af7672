# SPDX-License-Identifier: Apache-2.0
"""JAX programs on a GPU: the plugin over the fake driver, beside JAX's own CPU."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
RUN_CASES = "tests/frontends/jax/run_cases.py"
CASES = "tests/gpu/jax_cases.py"


def _run(output: Path, platform: str, *prefix: str) -> dict[str, Any]:
    environment = {
        **os.environ,
        **{"JAX_PLATFORMS": platform, "INGOT_GPU": "1", "PYTHONPATH": str(ROOT)},
    }
    command = [sys.executable, *prefix, RUN_CASES, CASES, str(output)]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return pickle.loads(output.read_bytes())


def test_programs_give_what_they_give_on_the_cpu(tmp_path: Path) -> None:
    wanted = _run(tmp_path / "cpu", "cpu")
    found = _run(tmp_path / "gpu", "ingot", "-m", "tests.gpu.fake_gpu")
    assert len(wanted) == 11
    for name, leaves in wanted.items():
        assert isinstance(leaves, list), f"{name} on JAX's CPU: {leaves}"
        assert isinstance(found[name], list), f"{name}: {found[name]}"
        for one, other in zip(found[name], leaves, strict=True):
            np.testing.assert_allclose(one, other, 2e-4, 2e-4, err_msg=name)
