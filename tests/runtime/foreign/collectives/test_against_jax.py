# SPDX-License-Identifier: Apache-2.0
"""What real XLA compiles for several devices, run here: same text, same shards, same results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate_replicated

SCRIPT = Path(__file__).with_name("jax_programs.py")


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_programs_of_shard_map(count: int, tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), str(tmp_path), str(count)]
    subprocess.run(command, check=True, timeout=240)
    texts = sorted(tmp_path.glob("*.hlo"))
    assert len(texts) == 24
    for path in texts:
        data = np.load(path.with_suffix(".npz"))
        module = ingot.parse_hlo(path.read_text())
        element = module.entry.parameters[0].shape.dtype.numpy
        inputs = [[data[f"in{n}"].astype(element)] for n in range(count)]
        for run in (
            ingot.compile(module).execute_replicated,
            lambda i, m=module: evaluate_replicated(m, i),
        ):
            for number, got in enumerate(run(inputs)):
                np.testing.assert_allclose(
                    np.asarray(got).astype(np.float32), data[f"out{number}"], rtol=2e-5, atol=1e-6,
                    err_msg=f"{path.stem}, device {number}",
                )  # fmt: skip
