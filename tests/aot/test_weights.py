# SPDX-License-Identifier: Apache-2.0
"""Weights outside of the code: beside the library, by path or from the caller."""

import shutil
import subprocess

import numpy as np
import pytest
from tests.aot.programs import PROGRAMS

import ingot
from ingot.aot.build import compile_aot
from ingot.aot.weights import checksum, joined
from ingot.tools.cli import main

GCC = shutil.which("gcc")
TABLE = np.arange(3000, dtype=np.float32)
TEXT = f"""
HloModule table
ENTRY main {{
  x = f32[3000] parameter(0)
  w = f32[3000] constant({{{", ".join(map(str, TABLE))}}})
  ROOT y = f32[3000] add(x, w)
}}
"""

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include "table.h"
static float x[3000], y[3000];
static const char* run(void) {
  const void* args[] = {x};
  void* results[] = {y};
  return table_error_msg(table(args, results));
}
int main(int count, char** arguments) {
  puts(run());
  puts(table_error_msg(table_load_weights("no/such/file")));
  puts(table_error_msg(table_set_weights(x, 12)));
  char* area = aligned_alloc(64, TABLE_WEIGHTS_BYTES + 64);
  puts(table_error_msg(table_set_weights(area + 4, TABLE_WEIGHTS_BYTES)));
  puts(table_error_msg(table_set_weights(area, TABLE_WEIGHTS_BYTES)));
  puts(table_error_msg(table_load_weights(count > 1 ? arguments[1] : NULL)));
  puts(run());
  printf("%g\n", y[2999]);
  return 0;
}
"""
EXPECTED = """the weights are not loaded
the file of weights cannot be read
these weights are not those of this program: the size differs
weights must be aligned to 64 bytes
these weights are not those of this program: the checksum differs


2999
"""


def made(tmp_path, weights, levels="plain,avx2"):
    (tmp_path / "table.hlo").write_text(TEXT)
    options = [f"--level={levels}", f"--weights={weights}"]
    assert main(["aot", str(tmp_path / "table.hlo"), "-o", str(tmp_path / "table"), *options]) == 0


def test_weights_beside_the_library_are_found(tmp_path):
    made(tmp_path, "beside")
    assert (tmp_path / "table.weights").stat().st_size == 12032
    assert (tmp_path / "libtable.so").read_bytes().find(TABLE[100:120].tobytes()) < 0
    run = ingot.load_executable(tmp_path / "libtable.so")
    assert (run.metadata.weights, run.metadata.constant_bytes) == ("beside", 12032)
    np.testing.assert_array_equal(run(TABLE), TABLE * 2)


def test_the_first_weights_stay_in_use(tmp_path):
    made(tmp_path, "beside", "plain")
    first = ingot.load_executable(tmp_path / "libtable.so")
    shutil.copy(tmp_path / "table.weights", tmp_path / "copy")
    second = ingot.load_executable(tmp_path / "libtable.so", weights=tmp_path / "copy")
    (tmp_path / "wrong").write_bytes(bytes(12032))
    with pytest.raises(ingot.ResourceError, match="the checksum differs"):
        ingot.load_executable(tmp_path / "libtable.so", weights=tmp_path / "wrong")
    del first
    np.testing.assert_array_equal(second(TABLE), TABLE * 2)


def test_weights_of_another_name_are_given(tmp_path):
    made(tmp_path, "caller")
    moved = tmp_path / "elsewhere"
    (tmp_path / "table.weights").rename(moved)
    with pytest.raises(ingot.ResourceError, match="cannot be read from"):
        ingot.load_executable(tmp_path / "libtable.so")
    run = ingot.load_executable(tmp_path / "libtable.so", weights=moved)
    np.testing.assert_array_equal(run(TABLE), TABLE * 2)


@pytest.mark.parametrize("change", ["size", "value", "order"])
def test_weights_of_another_program_are_refused(tmp_path, change):
    made(tmp_path, "beside", "plain")
    path = tmp_path / "table.weights"
    data = bytearray(path.read_bytes())
    if change == "size":
        data += bytes(64)
    elif change == "value":
        data[4000] ^= 1
    else:
        data[:8], data[8:16] = data[8:16], data[:8]
    path.write_bytes(data)
    reason = "size" if change == "size" else "checksum"
    with pytest.raises(ingot.ResourceError, match=f"the {reason} differs"):
        ingot.load_executable(tmp_path / "libtable.so")


@pytest.mark.skipif(GCC is None, reason="no gcc on this machine")
@pytest.mark.parametrize(
    ("inputs", "arguments"),
    [
        (["table.o"], []),
        (["table.o"], ["elsewhere/renamed"]),
        (["-L.", "-ltable", "-Wl,-rpath,."], []),
    ],
    ids=["object", "path", "library"],
)
def test_a_c_program_loads_weights(tmp_path, inputs, arguments):
    made(tmp_path, "beside")
    if arguments:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "table.weights").rename(tmp_path / arguments[0])
    (tmp_path / "main.c").write_text(SOURCE)
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1"]
    command = [GCC, *flags, "main.c", *inputs, "-lm", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(
        ["./main", *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == EXPECTED


def test_a_program_without_constants_needs_no_file(tmp_path):
    program = compile_aot(ingot.parse_hlo(PROGRAMS["f32"]), "none", "plain", weights="beside")
    assert program.weights == b""
    path = tmp_path / "libnone.so"
    path.write_bytes(program.library)
    x = np.ones((7, 13), np.float32)
    np.testing.assert_array_equal(ingot.load_executable(path)(x, x), x * 2)


def test_where_weights_cannot_be_is_refused():
    module = ingot.parse_hlo(PROGRAMS["weights"])
    with pytest.raises(ingot.UnsupportedError, match="weights cannot be 'outside'"):
        compile_aot(module, "w", "plain", weights="outside")
    with pytest.raises(ingot.UnsupportedError, match="WebAssembly has no files"):
        compile_aot(module, "w", triple="wasm32-unknown-unknown", weights="beside")


def test_constants_that_differ_lie_side_by_side():
    block = joined([b"a" * 70, b"b" * 3, b"a" * 70])
    assert block.offsets == (0, 128, 0)
    assert len(block.data) == 192
    assert checksum(block.data) != checksum(block.data[::-1])
