# SPDX-License-Identifier: Apache-2.0
"""What cannot be in an artifact, and which artifacts are not loaded: clear errors for both."""

import json
import subprocess
import sys

import numpy as np
import pytest
from tests.aot.programs import PROGRAMS

import ingot
from ingot.aot import cpu_check
from ingot.aot.build import compile_aot
from ingot.artifact import metadata
from ingot.runtime import load

CALL = """
HloModule c
ENTRY main {{
  x = f32[4,4] parameter(0)
  ROOT y = f32[4,4] {}, metadata={{op_type="Op" op_name="net/op" source_file="m.py" source_line=3}}
}}
"""


def program(name, level="plain"):
    return compile_aot(ingot.parse_hlo(PROGRAMS[name]), name, level)


def written(tmp_path, data, name="lib.so"):
    path = tmp_path / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("op", "target"),
    [
        ("cholesky(x), lower=true", "lapack_spotrf_ffi"),
        ('custom-call(x), custom_call_target="mine"', "mine"),
    ],
)
def test_calls_of_code_outside_name_the_op_and_the_line(op, target):
    with pytest.raises(ingot.UnsupportedError) as info:
        compile_aot(ingot.parse_hlo(CALL.format(op)), "c")
    text = str(info.value)
    assert f"'{target}' cannot be in an artifact" in text
    assert "net/op" in text
    assert "m.py:3" in text


def test_calls_of_python_are_told_and_all_are_named():
    text = """
HloModule c
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] custom-call(x), custom_call_target="xla_ffi_python_cpu_callback",
    metadata={op_name="jit(f)/pure_callback" source_file="f.py" source_line=8}
  ROOT z = f32[4] custom-call(y), custom_call_target="other",
    metadata={op_name="g" source_file="f.py" source_line=9}
}
"""
    with pytest.raises(ingot.UnsupportedError) as info:
        compile_aot(ingot.parse_hlo(text), "c", "plain")
    shown = str(info.value)
    assert "it is a call of Python, which is not there when the artifact runs" in shown
    assert "jit(f)/pure_callback" in shown
    assert "f.py:8" in shown
    assert "nor can 'other' of 'g' at f.py:9" in shown


def test_sizes_that_the_program_computes_name_the_op_and_the_line():
    text = """
HloModule s
ENTRY main {
  k = s64[] parameter(0)
  n = pred[?n] custom-call(k), custom_call_target="ingot.size",
    metadata={op_type="Where" op_name="net/where" source_file="m.py" source_line=5}
  zero = f32[] constant(0)
  ROOT z = f32[?n] broadcast(zero), dimensions={}
}
"""
    with pytest.raises(ingot.UnsupportedError, match="computes the size n") as info:
        compile_aot(ingot.parse_hlo(text), "s", "plain")
    assert "net/where" in str(info.value)
    assert "m.py:5" in str(info.value)


@pytest.mark.parametrize(("symbol", "level"), [("a-b", ""), ("1x", ""), ("", ""), ("x", "sse9")])
def test_invalid_names_and_levels_are_refused(symbol, level):
    with pytest.raises(ingot.UnsupportedError, match=r"cannot be the name|no CPU level"):
        compile_aot(ingot.parse_hlo(PROGRAMS["f32"]), symbol, level)


def test_a_cpu_that_lacks_the_level_is_told_before_anything_runs(tmp_path, monkeypatch):
    # Bit 16 of leaf 1's ecx is reserved: no CPU sets it.
    monkeypatch.setitem(cpu_check.NEEDS, "plain", (cpu_check.Need(1, "ecx", 1 << 16),))
    path = written(tmp_path, program("f32").library)
    with pytest.raises(ingot.UnsupportedError, match=r"CPU level 'plain'.*lacks"):
        ingot.load_executable(path)


def test_a_library_of_another_format_is_refused(tmp_path):
    old = f'"format": {metadata.FORMAT}'.encode()
    data = program("f32").library
    assert data.count(old) == 1
    path = written(tmp_path, data.replace(old, b'"format": 9'))
    with pytest.raises(ingot.UnsupportedError, match="format 9, made by Ingot"):
        ingot.load_executable(path)


def test_files_that_are_no_library_for_this_machine_are_refused(tmp_path):
    made = program("f32")
    other = bytearray(made.library)
    other[18] = 183
    cases = [
        (b"not a library", "not a shared library"),
        (made.object, "an object file"),
        (bytes(other), "for aarch64; this machine is"),
    ]
    for number, (data, message) in enumerate(cases):
        with pytest.raises(ingot.UnsupportedError, match=message):
            ingot.load_executable(written(tmp_path, data, f"{number}.so"))
    with pytest.raises(ingot.IngotError, match="INGOT0411"):
        ingot.load_executable(tmp_path / "absent.so")


def test_a_foreign_library_is_refused():
    command = "import ingot, ctypes.util, sys; ingot.load_executable(sys.argv[1])"
    import _ctypes

    done = subprocess.run(
        [sys.executable, "-c", command, _ctypes.__file__],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "not one of Ingot's" in done.stderr


def test_arguments_that_do_not_fit_are_refused(tmp_path):
    run = ingot.load_executable(written(tmp_path, program("symbolic").library))
    ones = np.ones((4, 3), np.float32)
    with pytest.raises(ingot.IngotError, match="takes 2 arguments, not 1"):
        run(ones)
    with pytest.raises(ingot.IngotError, match=r"'x' is float64\[4,3\], and has to be f32\[\?,3\]"):
        run(ones.astype(float), ones)
    with pytest.raises(ingot.IngotError, match="dimension 0 of 'y' must be n"):
        run(ones, np.ones((5, 3), np.float32))
    total, _ = run(ones[::2], ones[1::2])
    np.testing.assert_array_equal(total, np.full((2, 3), 2, np.float32))


def test_metadata_is_json_and_says_what_the_code_is_for(tmp_path):
    made = program("weights")
    found = json.loads(made.metadata.to_json())
    assert (found["version"], found["levels"], found["cpu"]) == (
        ingot.__version__, ["plain"], "x86-64",
    )  # fmt: skip
    run = ingot.load_executable(written(tmp_path, made.library))
    assert run.metadata == made.metadata
    assert repr(run) == "AotExecutable(weights: (f32[3,2]) -> (f32[3,3], f32[3,3], f32[2,3]))"


def test_element_types_that_numpy_lacks_ask_for_ml_dtypes(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    row = metadata.ArrayInfo("x", "f8e5m2", "float8_e5m2x", (2,))
    with pytest.raises(ingot.UnsupportedError, match="install ml_dtypes"):
        load.storage_of(row)
