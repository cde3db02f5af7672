# SPDX-License-Identifier: Apache-2.0
"""Several CPU levels in one artifact: the CPU decides, once, and each computes the same."""

import shutil
import subprocess

import numpy as np
import pytest
from tests.aot.programs import PROGRAMS

import ingot
from ingot.aot import cpu_check
from ingot.aot.build import compile_aot
from ingot.aot.targets import target_of
from ingot.evaluator import evaluate
from ingot.llvm.target import CPU_LEVELS, host_levels
from ingot.tools.programs.inputs import random_inputs

QEMU, GCC = shutil.which("qemu-x86_64"), shutil.which("gcc")

SOURCE = r"""
#include <stdio.h>
#include "softmax.h"
int main(void) {
  static float x[55], y[55];
  for (int i = 0; i < 55; ++i) x[i] = i % 7;
  const void* args[] = {x};
  void* results[] = {y};
  int32_t status = softmax(args, results);
  printf("%d|%s|%.5f|%s\n", softmax_supported(), softmax_level(), y[54],
         softmax_error_msg(status));
  return 0;
}
"""


def loaded(tmp_path, module, symbol, levels):
    path = tmp_path / f"lib{symbol}.so"
    path.write_bytes(compile_aot(module, symbol, levels).library)
    return ingot.load_executable(path)


@pytest.mark.parametrize("name", ["softmax", "weights", "transform", "sort", "symbolic"])
def test_a_library_of_all_levels_runs_the_widest_of_this_machine(tmp_path, name):
    module = ingot.parse_hlo(PROGRAMS[name])
    run = loaded(tmp_path, module, name, ",".join(CPU_LEVELS))
    assert run.metadata.levels == tuple(CPU_LEVELS)
    assert run.level == host_levels()[0]
    inputs = random_inputs(module, 3, {"n": 5})
    expected, results = evaluate(module, inputs), run(*inputs)
    if not isinstance(results, tuple):
        expected, results = (expected,), (results,)
    for got, want in zip(results, expected, strict=True):
        np.testing.assert_allclose(got, np.asarray(want), rtol=1e-5, atol=1e-5)


def test_a_level_that_the_cpu_lacks_is_passed_over(tmp_path, monkeypatch):
    # Bit 16 of leaf 1's ecx is reserved: no CPU sets it.
    need = (cpu_check.Need(1, "ecx", 1 << 16),)
    for level in ("avx512", "avx2"):
        monkeypatch.setitem(cpu_check.NEEDS, level, need)
    module = ingot.parse_hlo(PROGRAMS["softmax"])
    run = loaded(tmp_path, module, "passed_over", "avx2,plain")
    assert run.level == "plain"
    x = np.ones((5, 11), np.float32)
    np.testing.assert_allclose(run(x), np.full((5, 11), 1 / 11), rtol=1e-6)


def test_levels_share_their_constants(tmp_path):
    rows = np.arange(4000, dtype=np.float32)
    text = ", ".join(map(str, rows))
    module = ingot.parse_hlo(f"""
HloModule table
ENTRY main {{
  x = f32[4000] parameter(0)
  w = f32[4000] constant({{{text}}})
  ROOT y = f32[4000] add(x, w)
}}
""")
    one, two = (compile_aot(module, "table", levels) for levels in ("plain", "plain,avx2"))
    assert one.metadata.constant_bytes == two.metadata.constant_bytes == 16000
    assert len(two.object) - len(one.object) < 16000


@pytest.mark.skipif(QEMU is None, reason="no qemu-x86_64 on this machine (package qemu-user)")
@pytest.mark.skipif(GCC is None, reason="no gcc on this machine")
@pytest.mark.parametrize(
    ("levels", "cpu", "wanted"),
    [
        ("plain,avx2,avx512", "Nehalem", "1|plain|0.17096|"),
        ("plain,avx2,avx512", "max", "1|avx2|0.17096|"),
        ("avx2,avx512", "Nehalem", "0||0.00000|this CPU lacks instructions of the code"),
    ],
)
def test_other_cpus_run_what_they_have(tmp_path, levels, cpu, wanted):
    made = compile_aot(ingot.parse_hlo(PROGRAMS["softmax"]), "softmax", levels)
    (tmp_path / "softmax.o").write_bytes(made.object)
    (tmp_path / "softmax.h").write_text(made.header)
    (tmp_path / "main.c").write_text(SOURCE)
    build = [GCC, "-O1", "-static", "main.c", "softmax.o", "-lm", "-o", "main"]
    subprocess.run(build, cwd=tmp_path, check=True)
    done = subprocess.run(
        [QEMU, "-cpu", cpu, "./main"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == wanted


@pytest.mark.parametrize(
    ("options", "levels"),
    [
        ({"levels": "plain, avx512"}, ("avx512", "plain")),
        ({"cpu": "haswell"}, ("avx2",)),
        ({"features": "+avx2,+fma,+bmi2"}, ("avx2",)),
        ({"features": "+sse4.2"}, ("plain",)),
        ({"triple": "x86_64-pc-linux", "levels": "avx2"}, ("avx2",)),
        ({"levels": "avx512", "features": "+avx512bf16"}, ("avx512",)),
        ({"triple": "aarch64-linux-gnu"}, ("armv8-a",)),
        ({"triple": "wasm32-unknown-unknown"}, ("simd128",)),
    ],
)
def test_options_name_a_target(options, levels):
    assert target_of(**options).level_names == levels


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"levels": "avx2,sse9"}, "no CPU level 'sse9'"),
        ({"cpu": "pentium"}, "'pentium' cannot be --target-cpu"),
        ({"cpu": "haswell", "levels": "avx2"}, "beside --level"),
        ({"features": "avx2"}, "'avx2' is not a CPU feature"),
        ({"features": "+amx-tile"}, "cannot use the feature 'amx-tile'"),
        ({"features": "+avx512bf16"}, "needs the level avx512"),
        ({"triple": "x86_64-pc-windows-msvc"}, "no artifacts for 'x86_64-pc-windows-msvc'"),
        ({"triple": "riscv64-unknown-linux-gnu"}, "no artifacts for 'riscv64"),
        ({"triple": "aarch64-apple-darwin"}, "no artifacts for 'aarch64-apple"),
        ({"triple": "aarch64-linux-gnu", "levels": "avx2"}, "has no CPU levels"),
        ({"triple": "wasm32-unknown-unknown", "cpu": "mvp"}, "one set of instructions"),
    ],
)
def test_unknown_targets_are_refused(options, message):
    with pytest.raises(ingot.UnsupportedError, match=message):
        target_of(**options)
