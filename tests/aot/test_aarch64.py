# SPDX-License-Identifier: Apache-2.0
"""Code for AArch64, linked by a cross compiler and run by qemu, agrees with the evaluator."""

import shutil
import subprocess

import numpy as np
import pytest
from tests.aot.cross import NAMES, cases
from tests.aot.programs import MORE, PROGRAMS

import ingot
from ingot.aot.build import compile_aot

QEMU, GCC = shutil.which("qemu-aarch64"), shutil.which("aarch64-linux-gnu-gcc")
TRIPLE = "aarch64-unknown-linux-gnu"
ROOT = "/usr/aarch64-linux-gnu"

needs_machine = pytest.mark.skipif(
    QEMU is None or GCC is None,
    reason="no AArch64 machine here (packages qemu-user and gcc-aarch64-linux-gnu)",
)

RUNNER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef int32_t (*Prepare)(const int64_t* const*, int64_t*);
typedef void (*Parallel)(void*, void (*)(void*, int64_t), void*, int64_t);
typedef int32_t (*Execute)(const void* const*, void* const*, const int64_t*, Parallel, void*);
static int calls;
static void chunks_backwards(void* pool, void (*function)(void*, int64_t), void* env,
                             int64_t chunks) {
  ++*(int*)pool;
  for (int64_t chunk = chunks; chunk-- > 0;) function(env, chunk);
}
static void* contents(const char* name, const char* kind, int number) {
  char path[256];
  snprintf(path, sizeof path, "%s.%s%d", name, kind, number);
  FILE* file = fopen(path, "rb");
  if (!file) abort();
  void* data = calloc(1, 1 << 20);
  if (fread(data, 1, 1 << 20, file) == 1 << 20) abort();
  fclose(file);
  return data;
}
static int run(const char* name, Prepare prepare, Execute execute, int args, int results,
               const int64_t* const* dims, int sizes_count, int output_bytes) {
  int64_t* sizes = calloc(sizes_count, 8);
  const void* given[16];
  void* made[16];
  int32_t status = prepare(dims, sizes);
  for (int n = 0; n < args; ++n) given[n] = contents(name, "in", n);
  for (int n = 0; n < results; ++n) made[n] = calloc(1, sizes[output_bytes + n] + 64);
  if (!status) status = execute(given, made, sizes, chunks_backwards, &calls);
  for (int n = 0; n < results; ++n) {
    char path[256];
    snprintf(path, sizeof path, "%s.out%d", name, n);
    FILE* file = fopen(path, "wb");
    fwrite(made[n], 1, sizes[output_bytes + n], file);
    fclose(file);
  }
  return status;
}
"""


def call_of(case):
    """Return the C statements that run a case."""
    rows = [np.asarray(value).shape for value in case.inputs]
    symbol, upper = case.program.metadata.symbol, case.program.metadata.symbol.upper()
    lines = [f"  {{ const int64_t d[][8] = {{{', '.join(map(braced, rows)) or '{0}'}}};"]
    lines.append(f"    const int64_t* in[] = {{{', '.join(f'd[{n}]' for n in range(len(rows)))}}};")
    counts = f"{upper}_NUM_ARGS, {upper}_NUM_RESULTS, in, {upper}_NUM_SIZES, {upper}_OUTPUT_BYTES"
    call = f'run("{case.name}", {symbol}_prepare, {symbol}_execute_on, {counts})'
    return "\n".join([*lines, f'    printf("{case.name} %d\\n", {call}); }}'])


def braced(dims):
    return "{" + (", ".join(map(str, dims)) or "0") + "}"


def run(folder, made):
    """Run cases in one program; return what it printed."""
    for case in made:
        case.write_inputs(folder)
        (folder / f"{case.name}.o").write_bytes(case.program.object)
        (folder / f"{case.name}.h").write_text(case.program.header)
    includes = "".join(f'#include "{case.name}.h"\n' for case in made)
    calls = "\n".join(map(call_of, made))
    text = f"{includes}{RUNNER}int main(void) {{\n{calls}\n  return 0;\n}}\n"
    (folder / "main.c").write_text(text)
    objects = [f"{case.name}.o" for case in made]
    build = [GCC, "-O1", "-static", "main.c", *objects, "-lm", "-o", "main"]
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    done = subprocess.run(
        [QEMU, "./main"], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Run all cases; return the folder, the cases, and what was printed."""
    folder = tmp_path_factory.mktemp("arm")
    made = cases(TRIPLE)
    return folder, made, run(folder, list(made.values()))


@pytest.mark.slow  # 36 programs are compiled
@needs_machine
@pytest.mark.parametrize("name", NAMES)
def test_an_object_computes_what_the_evaluator_does(outcome, name):
    folder, made, printed = outcome
    assert f"{name} 0\n" in printed
    made[name].check(folder)


LIBRARY_MAIN = r"""
#include <stdio.h>
#include "table.h"
int main(void) {
  float x[3] = {1, 2, 3}, y[3];
  const void* args[] = {x};
  void* results[] = {y};
  int32_t status = table_load_weights(NULL);
  if (!status) status = table(args, results);
  printf("%d %s %g %g %g|%s\n", table_supported(), table_level(), y[0], y[1], y[2],
         table_error_msg(status));
  return 0;
}
"""
TABLE = """
HloModule table
ENTRY main {
  x = f32[3] parameter(0)
  w = f32[3] constant({10, 20, 30})
  e = f32[3] exponential(x)
  l = f32[3] log(e)
  ROOT y = f32[3] add(l, w)
}
"""


@needs_machine
def test_a_shared_library_loads_and_maps_its_weights(tmp_path):
    made = compile_aot(ingot.parse_hlo(TABLE), "table", triple=TRIPLE, weights="beside")
    (tmp_path / "libtable.so").write_bytes(made.library)
    (tmp_path / "table.weights").write_bytes(made.weights)
    (tmp_path / "table.h").write_text(made.header)
    (tmp_path / "main.c").write_text(LIBRARY_MAIN)
    build = [GCC, "main.c", "-L.", "-ltable", "-Wl,-rpath,.", "-o", "main"]
    subprocess.run(build, cwd=tmp_path, check=True)
    done = subprocess.run(
        [QEMU, "-L", ROOT, "./main"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "1 armv8-a 11 22 33|\n", done.stderr


POOL_MAIN = r"""
#include <stdio.h>
#include <string.h>
#include "reductions.h"
static float x[300 * 257], rows[2][300], columns[2][257], total[2];
int main(void) {
  for (int i = 0; i < 300 * 257; ++i) x[i] = (i % 31) * 0.125f;
  const void* args[] = {x};
  for (int n = 0; n < 40; ++n) {
    reductions_set_threads(n == 0 ? 1 : 3);
    void* results[] = {rows[n > 0], columns[n > 0], &total[n > 0]};
    if (reductions(args, results)) return 1;
    if (n && (memcmp(rows[0], rows[1], sizeof rows[0]) || total[0] != total[1])) return 2;
  }
  printf("%g\n", total[0]);
  return 0;
}
"""


@needs_machine
def test_a_pool_of_its_own(tmp_path):
    module = ingot.parse_hlo(MORE["reductions"])
    made = compile_aot(module, "reductions", triple=TRIPLE, threads="own")
    (tmp_path / "reductions.o").write_bytes(made.object)
    (tmp_path / "reductions.h").write_text(made.header)
    (tmp_path / "main.c").write_text(POOL_MAIN)
    build = [GCC, "-O1", "-static", "main.c", "reductions.o", "-lm", "-pthread", "-o", "main"]
    subprocess.run(build, cwd=tmp_path, check=True)
    done = subprocess.run(
        [QEMU, "./main"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    x = (np.arange(300 * 257) % 31) * 0.125
    assert done.stdout == f"{x.sum():g}\n"


def test_the_loader_says_what_a_library_is_for(tmp_path):
    path = tmp_path / "libarm.so"
    path.write_bytes(compile_aot(ingot.parse_hlo(PROGRAMS["f32"]), "arm", triple=TRIPLE).library)
    with pytest.raises(ingot.UnsupportedError, match="is for aarch64; this machine is"):
        ingot.load_executable(path)


@pytest.mark.parametrize(
    ("cpu", "features", "said"),
    [
        ("cortex-a1000", "", "not a recognized processor"),
        ("generic", "+warp-drive", "not a recognized feature"),
    ],
)
def test_cpus_and_features_that_llvm_lacks_are_refused(cpu, features, said):
    module = ingot.parse_hlo(PROGRAMS["f32"])
    with pytest.raises(ingot.UnsupportedError, match=said) as info:
        compile_aot(module, "arm", triple=TRIPLE, cpu=cpu, features=features)
    assert info.value.diagnostic.code == "INGOT0344"


def test_a_cpu_that_llvm_has_is_taken():
    module = ingot.parse_hlo(PROGRAMS["product"])
    made = compile_aot(module, "arm", triple=TRIPLE, cpu="neoverse-n1")
    assert made.metadata.cpu == "neoverse-n1"
    assert made.metadata.triple == TRIPLE
