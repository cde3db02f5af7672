# SPDX-License-Identifier: Apache-2.0
"""JAX programs on Ingot and on JAX's own CPU backend, each in a process of its own."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")
pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent
PROGRAMS = sorted((FOLDER / "programs").glob("*.py"))
_TOLERANCE = {"float16": 1e-2, "bfloat16": 3e-2, "float32": 2e-5, "complex64": 2e-5}
_EXACT = 1e-12


def results(program: Path, platform: str, scratch: Path) -> dict[str, Any]:
    """Run a program's cases on a platform."""
    output = scratch / f"{platform}.pickle"
    environment = {**os.environ, "JAX_PLATFORMS": platform, "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, str(FOLDER / "run_cases.py"), str(program), str(output)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert output.exists(), done.stdout + done.stderr
    return pickle.loads(output.read_bytes())


def difference(found: list[Any], expected: list[Any]) -> str:
    """Return what differs, empty if nothing does."""
    if len(found) != len(expected):
        return f"{len(found)} results, not {len(expected)}"
    for index, (got, want) in enumerate(zip(found, expected, strict=True)):
        if (got.dtype, got.shape) != (want.dtype, want.shape):
            return f"result {index} is {got.dtype}{got.shape}, not {want.dtype}{want.shape}"
        if want.dtype.kind in "biuSU":
            same = np.array_equal(got, want)
        else:
            close = _TOLERANCE.get(want.dtype.name, _EXACT)
            wide = np.complex128 if want.dtype.kind == "c" else np.float64
            left, right = got.astype(wide), want.astype(wide)
            same = np.allclose(left, right, rtol=close, atol=close, equal_nan=True)
        if not same:
            return f"result {index}:\n{got}\nnot\n{want}"
    return ""


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_program(program: Path, tmp_path: Path):
    expected = results(program, "cpu", tmp_path)
    found = results(program, "ingot", tmp_path)
    problems: list[str] = []
    for name, want in expected.items():
        got = found[name]
        assert not isinstance(want, str), f"{name} fails on JAX's own CPU:\n{want}"
        why = got if isinstance(got, str) else difference(got, want)
        if why:
            problems.append(f"{name}: {why}")
    assert not problems, "\n\n".join(problems)
