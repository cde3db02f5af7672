# SPDX-License-Identifier: Apache-2.0
"""JAX programs on GPUs: the plugin over the fake driver, beside JAX's own CPU."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
RUN_CASES = "tests/frontends/jax/run_cases.py"
PROGRAMS = "tests/frontends/jax/programs"

ONLY_OF_CPUS = {
    "case_buffer_callback": "its function would see memory of the GPU",
    "case_dlpack": "an array of NumPy, which JAX takes without a copy",
    "case_donation_with_a_view": "the host sees copies, so memory is donated",
    "case_memory_kinds": "GPUs have one kind of memory here",
}


def _run(output: Path, program: str, platform: str, gpus: int = 1) -> dict[str, Any]:
    environment = {
        **os.environ,
        **{"JAX_PLATFORMS": platform, "INGOT_GPU": "1", "FAKE_GPUS": str(gpus)},
        "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", ""))),
    }
    prefix = ["-m", "tests.gpu.fake_gpu"] if platform == "ingot" else []
    command = [sys.executable, *prefix, RUN_CASES, program, str(output)]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return pickle.loads(output.read_bytes())


@pytest.mark.parametrize(("program", "gpus", "least"), [
    ("tests/gpu/jax_cases.py", 1, 11),
    pytest.param(f"{PROGRAMS}/transformations.py", 1, 20, marks=pytest.mark.slow),
    pytest.param(f"{PROGRAMS}/host.py", 1, 18, marks=pytest.mark.slow),
    pytest.param(f"{PROGRAMS}/partitioned.py", 4, 11, marks=pytest.mark.slow),
])  # fmt: skip
def test_programs_give_what_they_give_on_the_cpu(
    tmp_path: Path, program: str, gpus: int, least: int
) -> None:
    wanted = _run(tmp_path / "cpu", program, "cpu")
    found = _run(tmp_path / "gpu", program, "ingot", gpus)
    compared = [name for name in wanted if name not in ONLY_OF_CPUS]
    assert len(compared) >= least
    for name in compared:
        assert isinstance(wanted[name], list), f"{name} on JAX's CPU: {wanted[name]}"
        assert isinstance(found[name], list), f"{name}: {found[name]}"
        for one, other in zip(found[name], wanted[name], strict=True):
            np.testing.assert_allclose(one, other, 2e-4, 2e-4, err_msg=name)
