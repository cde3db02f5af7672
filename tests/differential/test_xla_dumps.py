# SPDX-License-Identifier: Apache-2.0
"""The whole of what real XLA dumps for four programs is read, printed, read again and run natively.

Before its optimizations XLA prints plain HLO; after them fusions, bitcasts, layouts, calls of its
own kernels and schedules. Both texts must come back the same, and run to XLA's own results.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.differential.xla_programs import PROGRAMS
from tests.support.module_equality import assert_equal

import ingot
from ingot.formats.hlo_text import parse, print_module

pytestmark = pytest.mark.slow

STAGES = ("before_optimizations", "cpu_after_optimizations")


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with XLA's dumps and the arrays, made by a process of its own."""
    folder = tmp_path_factory.mktemp("dumps")
    script = Path(__file__).parent / "xla_programs.py"
    flags = f"--xla_dump_to={folder} --xla_dump_hlo_as_text"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    command = [sys.executable, str(script), str(folder)]
    subprocess.run(command, env=environment, check=True, timeout=280)
    return folder


def _text(dumps: Path, program: str, stage: str) -> str:
    (path,) = dumps.glob(f"module_*.jit_{program}.{stage}.txt")
    return path.read_text(encoding="utf-8")


def _arrays(dumps: Path, program: str) -> tuple[list[Any], list[Any]]:
    with np.load(dumps / f"{program}.npz") as file:
        names = sorted(file.files)
        inputs = [file[name] for name in names if name.startswith("input")]
        return inputs, [file[name] for name in names if name.startswith("output")]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_read_printed_and_read_again(dumps: Path, program: str, stage: str) -> None:
    module = parse(_text(dumps, program, stage))
    assert_equal(parse(print_module(module)), module)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_runs_natively(dumps: Path, program: str, stage: str) -> None:
    inputs, wanted = _arrays(dumps, program)
    outputs = ingot.compile(parse(_text(dumps, program, stage)))(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    assert len(outputs) == len(wanted)
    for number, (got, want) in enumerate(zip(outputs, wanted, strict=True)):
        size = max(1.0, float(np.abs(want).max()))
        np.testing.assert_allclose(
            got, want, rtol=1e-3, atol=1e-4 * size, err_msg=f"output {number}"
        )
