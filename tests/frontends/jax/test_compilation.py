# SPDX-License-Identifier: Apache-2.0
"""How JAX hands programs over: the cases of `inside`, in a process where Ingot is the platform."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")
pytestmark = pytest.mark.slow

CASES = Path(__file__).parent / "inside" / "compilation_cases.py"


def test_programs_are_handed_over_as_they_are():
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "ingot",
        "JAX_NUM_CPU_DEVICES": "2",
        "JAX_ENABLE_COMPILATION_CACHE": "0",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*command, str(CASES)], env=environment, capture_output=True, text=True, timeout=280,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
