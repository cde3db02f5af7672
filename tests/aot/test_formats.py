# SPDX-License-Identifier: Apache-2.0
"""`ingot aot` takes every format that its page names; the result runs where there is no JAX."""

import pickle
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import ingot
from ingot.aot.build import compile_aot
from ingot.formats.load import WRITERS
from ingot.tools.cli import main

CHILD = """
import pickle, sys
from pathlib import Path
import ingot

library, inputs, results = map(Path, sys.argv[1:])
rows = [ingot.load_executable(library)(*args) for args in pickle.loads(inputs.read_bytes())]
results.write_bytes(pickle.dumps(rows))
print([name for name in ("jax", "jaxlib", "tensorflow", "llvmlite") if name in sys.modules])
"""

TEXT = """
HloModule scaled
ENTRY main {
  x = f32[4,3] parameter(0)
  w = f32[3,2] constant({{1, 2}, {3, 4}, {5, 6}})
  ROOT y = f32[4,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def network(x, w):
    hidden = jax.nn.gelu(x @ w)
    return jax.nn.softmax(hidden), jnp.argmax(hidden, axis=-1)


def run_without_frameworks(tmp_path, data, calls, *options):
    """Return what an artifact of `data` gives for each of the calls, in a process of its own."""
    (tmp_path / "model").write_bytes(data)
    (tmp_path / "inputs").write_bytes(pickle.dumps(calls))
    assert main(["aot", str(tmp_path / "model"), "-o", str(tmp_path / "net"), *options]) == 0
    paths = [str(tmp_path / name) for name in ("libnet.so", "inputs", "results")]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *paths], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
    return pickle.loads((tmp_path / "results").read_bytes())


@pytest.mark.parametrize("form", ["whole", "module"])
@pytest.mark.parametrize("rows", ["5", "rows"])
def test_what_jax_exports_runs_without_jax(tmp_path, rows, form):
    (size,) = export.symbolic_shape(rows)
    shapes = [jax.ShapeDtypeStruct(dims, np.float32) for dims in ((size, 3), (3, 4))]
    exported = export.export(jax.jit(network), platforms=["cpu"])(*shapes)
    random = np.random.default_rng(3)
    calls = [
        [random.standard_normal(dims, np.float32) for dims in ((count, 3), (3, 4))]
        for count in ([5] if rows == "5" else [5, 1, 40])
    ]
    data = exported.serialize() if form == "whole" else exported.mlir_module_serialized
    results = run_without_frameworks(tmp_path, data, calls)
    for (probability, label), call in zip(results, calls, strict=True):
        wanted, best = network(*call)
        np.testing.assert_allclose(probability, wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(label, best)


@pytest.mark.parametrize("form", ["hlo_text", "hlo_proto"])
def test_hlo_as_text_and_as_proto_give_the_same_program(tmp_path, form):
    data = WRITERS[form](ingot.parse_hlo(TEXT))
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    for options in ((), ("--from", form)):
        (result,) = run_without_frameworks(tmp_path, data, [[x]], *options)
        np.testing.assert_array_equal(result, x @ [[1, 2], [3, 4], [5, 6]])


def test_what_jax_cannot_export_whole_names_its_line():
    def solve(x):
        return jnp.linalg.cholesky(x @ x.T)  # the line that is told

    lowered = jax.jit(solve).lower(np.eye(3, dtype=np.float32))
    text = lowered.as_text(debug_info=True)
    with pytest.raises(ingot.UnsupportedError, match="a function of LAPACK") as info:
        compile_aot(ingot.load(text), "solve", "plain")
    location = info.value.diagnostic.location
    assert location is not None
    line = Path(location.file).read_text().splitlines()[location.line - 1]
    assert "the line that is told" in line


def test_stablehlo_text_runs_without_jax(tmp_path):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    lowered = jax.jit(lambda x: jnp.sort(x * -2, axis=1) + 1).lower(x)
    (result,) = run_without_frameworks(tmp_path, lowered.as_text().encode(), [[x]])
    np.testing.assert_array_equal(result, np.sort(x * -2, axis=1) + 1)
