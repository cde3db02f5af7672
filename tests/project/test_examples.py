# SPDX-License-Identifier: Apache-2.0
"""The examples run as they stand, under plain Python and under `python -m ingot`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LAUNCHERS = {"plain": [], "ingot": ["-m", "ingot"]}

# Program -> what its output must hold.
EXPECTED = {
    "fused_reduce": r"reduce_sum\(x \+ y \* z\) over 1048576 numbers: 785975\.",
    "training_step": r"held-out accuracy: (0\.9[1-9]|1\.0)",
    "keras_mlp": r"accuracy: (0\.9[1-9]|1\.0).*\n.*predict agrees with evaluate: True",
    "keras_cnn": r"training loss.*\nheld-out loss: 0\.\d+, accuracy: (0\.9[1-9]|1\.0)",
    "control_flow": r"eigenvalue 4\.7320\d after 14 steps\n.*\(0\.6000, 0\.8000\)\n.*\(3\.0000, 4",
    "shapes": r"batch 1000: rows sum to 1000\.\d+, both ways agree: True",
    "digits_page": r"digits\.html: \d+ KB, held-out accuracy (0\.9[1-9]|1\.0)",
    "errors": r"a string op: InvalidArgumentError(.|\n)*shapes that do not fit: InvalidArgument",
    "jax_sharded_training": r"data 4\.1\d+ .* 3\.1\d+\nfsdp 4\.1(.|\n)*\npipeline 4\.1.* 3\.1\d+\n",
    "torch_speedup": r"results agree: True\nPyTorch's kernels [\d.]+ ms, .*Ingot [\d.]+ ms",
    "torch_training": r"first epoch as eager's: True\nheld-out accuracy: (0\.9[4-9]|1\.0)",
    "torch_lengths": r"(agrees with eager: True\n.*){4}graphs compiled: 1\n",
}
TORCH = {program for program in EXPECTED if program.startswith("torch")}


# One program shows that examples are plain TensorFlow; each is read for that below.
RUNS = [(program, "ingot") for program in EXPECTED if program not in {"digits_page", *TORCH}]
RUNS += [(program, "plain") for program in ("fused_reduce", "digits_page", *sorted(TORCH))]


@pytest.mark.slow
@pytest.mark.parametrize(("program", "launcher"), RUNS)
def test_example(program, launcher, tmp_path):
    command = [sys.executable, *LAUNCHERS[launcher], str(EXAMPLES / f"{program}.py")]
    command += [str(tmp_path / "digits.html")] if program == "digits_page" else []
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "INGOT_STRICT": "1"}
    environment["JAX_PLATFORMS"] = "ingot"
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=280, env=environment
    )
    assert result.returncode == 0, result.stderr[-4000:]
    assert re.search(EXPECTED[program], result.stdout), result.stdout


def test_every_example_is_tested():
    not_programs = {"digits", "demo"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} - not_programs == set(EXPECTED)


# One is about what Ingot alone does: code for WebAssembly.
@pytest.mark.parametrize("program", sorted(set(EXPECTED) - {"digits_page"}))
def test_examples_are_the_frameworks_own_programs(program):
    text = (EXAMPLES / f"{program}.py").read_text(encoding="utf-8")
    assert not re.search(r"^\s*(import|from) ingot", text, re.MULTILINE)
