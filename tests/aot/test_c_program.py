# SPDX-License-Identifier: Apache-2.0
"""A C program, compiled by the machine's own compiler, links an artifact and runs it."""

import shutil
import subprocess

import numpy as np
import pytest
from tests.aot.programs import PROGRAMS

import ingot
from ingot.tools.cli import main

GCC = shutil.which("gcc")
pytestmark = pytest.mark.skipif(GCC is None, reason="no gcc on this machine")

SOURCE = r"""
#include <stdio.h>
#include "weights.h"
#include "symbolic.h"

static void in_turn(void* pool, void (*function)(void*, int64_t), void* env, int64_t chunks) {
  ++*(int*)pool;
  while (chunks--) function(env, chunks);
}

int main(void) {
  if (!weights_supported()) return 2;
  float x[WEIGHTS_NUM_ARGS][6] = {{1, 2, 3, 4, 5, 6}}, y[9], z[9], w[6];
  const void* args[] = {x};
  void* results[] = {y, z, w};
  int32_t status = weights(args, results);
  if (status) { puts(weights_error_msg(status)); return 1; }
  for (int i = 0; i < 9; ++i) printf("%g ", y[i]);
  puts("");

  int64_t rows = 200000, other = 999;
  static float a[600000], b[600000], sum[600000], product[600000];
  for (int i = 0; i < 600000; ++i) a[i] = i, b[i] = 2;
  int64_t dims[2][2] = {{rows, 3}, {rows, 3}}, sizes[SYMBOLIC_NUM_SIZES];
  const int64_t* in_dims[] = {dims[0], dims[1]};
  if (symbolic_prepare(in_dims, sizes)) return 3;
  printf("%d %d\n", (int)sizes[SYMBOLIC_OUTPUT_BYTES], (int)sizes[SYMBOLIC_OUTPUT_DIMS]);
  const void* both[] = {a, b};
  void* out[] = {sum, product};
  int calls = 0;
  if (symbolic_execute_on(both, out, sizes, in_turn, &calls)) return 4;
  printf("%g %g %d\n", sum[599999], product[599999], calls > 0);
  dims[1][0] = other;
  puts(symbolic_error_msg(symbolic_prepare(in_dims, sizes)));
  return 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the C program and two artifacts."""
    place = tmp_path_factory.mktemp("c")
    for name in ("weights", "symbolic"):
        (place / f"{name}.hlo").write_text(PROGRAMS[name])
        out = str(place / name)
        assert main(["aot", f"{place / name}.hlo", "-o", out, "--level", "plain"]) == 0
    (place / "main.c").write_text(SOURCE)
    return place


@pytest.mark.parametrize(
    "inputs",
    [
        ["weights.o", "symbolic.o"],
        ["-L.", "-lweights", "-lsymbolic", "-static"],
        ["-L.", "-lweights", "-lsymbolic", "-Wl,-rpath,."],
    ],
    ids=["objects", "archives", "libraries"],
)
def test_a_c_program_links_and_runs(folder, inputs):
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1"]
    command = [GCC, *flags, "main.c", *inputs, "-lm", "-o", "main"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    done = subprocess.run(["./main"], cwd=folder, capture_output=True, text=True, check=False)
    x = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    products, _, _ = ingot.compile(ingot.parse_hlo(PROGRAMS["weights"]))(x)
    first, second, third, fourth, *_ = done.stdout.splitlines()
    assert first.split() == [f"{value:g}" for value in products.ravel()]
    assert (second, third) == ("2400000 200000", "600001 1.2e+06 1")
    assert fourth == "dimension 0 of 'y' must be n (n is dimension 0 of 'x')"
    assert done.returncode == 0
