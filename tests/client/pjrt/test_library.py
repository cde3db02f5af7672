# SPDX-License-Identifier: Apache-2.0
"""`libingot_pjrt.so` in a host without Python, and loaded by JAX as any plugin."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ingot.client.pjrt.library import write_library
from ingot.formats.stablehlo.binding import parse_mlir

pytestmark = pytest.mark.slow
pytest.importorskip("jaxlib", reason="it reads MLIR")

FOLDER = Path(__file__).parent
PROGRAM = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.exponential %x : tensor<2x3xf32>
  %1 = stablehlo.add %0, %x : tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}
"""
EXPECTED = [1, 3.718282, 9.389056, 23.085537, 58.59815, 153.41316]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("library") / "libingot_pjrt.so"
    assert write_library(path) == path.stat().st_size
    return path


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    found = importlib.util.find_spec("tensorflow")
    if compiler is None or found is None or found.origin is None:
        pytest.skip("needs a C compiler, and the header that TensorFlow ships")
    path = tmp_path_factory.mktemp("host") / "host"
    include = Path(found.origin).parent / "include"
    source = str(FOLDER / "host.c")
    subprocess.run(
        [compiler, f"-I{include}", source, "-o", str(path), "-ldl", "-lpthread"], check=True
    )
    return path


def run(
    host: Path, library: Path, program: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the host in a folder that is not ours; it inherits nothing that finds our Python."""
    return subprocess.run(
        [str(host), str(library), str(program)],
        env=environment or {},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def _numbers(done: subprocess.CompletedProcess[str]) -> list[float]:
    return [float(word) for word in done.stdout.split()]


@pytest.mark.parametrize("environment", [{}, {"PYTHONHOME": "/nowhere", "PATH": "/usr/bin:/bin"}])
def test_c_host_runs_text(host: Path, library: Path, tmp_path: Path, environment: dict[str, str]):
    program = tmp_path / "program.mlir"
    program.write_text(PROGRAM)
    done = run(host, library, program, environment)
    assert _numbers(done) == pytest.approx(EXPECTED, rel=1e-5), done.stderr


def test_a_python_that_is_gone_is_named(host: Path, tmp_path: Path):
    library = tmp_path / "lost.so"
    write_library(library, Path("/nowhere/libpython3.so"))
    done = run(host, library, tmp_path / "no program")
    assert done.returncode == 1
    assert "make it again with `ingot pjrt`" in done.stderr
    assert "/nowhere/libpython3.so" in done.stderr


def test_c_host_runs_a_portable_artifact(host: Path, library: Path, tmp_path: Path):
    from jaxlib.mlir.dialects import stablehlo

    program = tmp_path / "program.mlirbc"
    module = parse_mlir(PROGRAM)
    program.write_bytes(stablehlo.serialize_portable_artifact(module, "1.0.0"))
    done = run(host, library, program)
    assert _numbers(done) == pytest.approx(EXPECTED, rel=1e-5), done.stderr


def test_c_host_gets_our_errors(host: Path, library: Path, tmp_path: Path):
    program = tmp_path / "program.mlir"
    program.write_text("nothing of the kind")
    done = run(host, library, program)
    assert done.returncode == 1
    assert "error[INGOT0120]" in done.stderr


def test_jax_loads_the_library(library: Path):
    program = "import jax; print(jax.jit(lambda x: x * 2)(21), jax.devices()[0].platform)"
    environment = {
        **os.environ,
        "PJRT_NAMES_AND_LIBRARY_PATHS": f"other:{library}",
        "JAX_PLATFORMS": "other",
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.stdout.split()[:1] == ["42"], done.stderr
