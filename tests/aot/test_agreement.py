# SPDX-License-Identifier: Apache-2.0
"""Libraries, run in a process that loads no compiler, agree with the JIT and the evaluator."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from tests.aot.programs import PROGRAMS

import ingot
from ingot.aot.build import compile_aot
from ingot.evaluator import evaluate
from ingot.llvm.target import host_levels
from ingot.tools.programs.inputs import random_inputs

CHILD = """
import pickle, sys
from pathlib import Path
import ingot

folder = Path(sys.argv[1])
inputs = pickle.loads((folder / "inputs").read_bytes())
results = {name: ingot.load_executable(folder / f"lib{name}.so")(*args)
           for name, args in inputs.items()}
(folder / "results").write_bytes(pickle.dumps(results))
parts = ("analysis", "aot", "client", "cpu", "formats", "hlo", "kernel", "llvm", "passes")
print([part for part in parts if f"ingot.{part}" in sys.modules], "llvmlite" in sys.modules)
"""


def leaves(value):
    return value if isinstance(value, tuple) else (value,)


@pytest.fixture(scope="module", params=sorted({host_levels()[0], "plain"}))
def outcomes(request, tmp_path_factory):
    """Run all programs in one child; return (results, modules, inputs) by name."""
    folder = tmp_path_factory.mktemp("aot")
    modules = {name: ingot.parse_hlo(text) for name, text in PROGRAMS.items()}
    inputs = {name: random_inputs(module, 7, {"n": 6}) for name, module in modules.items()}
    for name, module in modules.items():
        program = compile_aot(module, f"p_{name}", request.param)
        (folder / f"lib{name}.so").write_bytes(program.library)
    (folder / "inputs").write_bytes(pickle.dumps(inputs))
    command = [sys.executable, "-c", CHILD, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[] False", "the loader imports the compiler"
    results = pickle.loads((folder / "results").read_bytes())
    return request.param, results, modules, inputs


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_library_computes_what_the_evaluator_does(outcomes, name):
    level, results, modules, inputs = outcomes
    expected = leaves(evaluate(modules[name], inputs[name]))
    tolerance = 0.02 if name in ("bf16", "f16") else 1e-5
    for got, want in zip(leaves(results[name]), expected, strict=True):
        want = np.asarray(want)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if got.dtype.kind in "biu":
            np.testing.assert_array_equal(got, want)
        else:
            wide = np.complex128 if got.dtype.kind == "c" else np.float64
            pair = got.astype(wide), want.astype(wide)
            np.testing.assert_allclose(*pair, rtol=tolerance, atol=tolerance * 4)
    if level == host_levels()[0]:
        for got, want in zip(
            leaves(results[name]), leaves(ingot.compile(modules[name])(*inputs[name])), strict=True
        ):
            np.testing.assert_allclose(got.astype(complex), want.astype(complex), rtol=1e-6)
