# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.processes.aot`: programs compiled ahead of time beside just-in-time ones.

Every program is one module. It runs as an executable of `ingot.compile` on one thread, as a shared
library from Python, and as an object that a C program links and calls in a loop; the three take
turns. Then the sizes of the files: a library for one CPU level and for three, what other targets
give, and weights in a file of their own. Results are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import ingot
from benchmarks.common.process import Stopwatch, take_cpus
from benchmarks.common.programs import Timing
from benchmarks.common.report import PAGES, as_markdown, as_text, duration, factor, machine
from ingot.aot.build import AotProgram, compile_aot
from ingot.llvm.target import host_levels

PAGE = PAGES / "AOT_RESULTS.md"
LEVELS = "plain,avx2,avx512"
ROUNDS, SECONDS = 7, 0.3
TARGETS = {"AArch64": "aarch64-unknown-linux-gnu", "wasm32": "wasm32-unknown-unknown"}
WAYS = ("JIT", "library", "C")

TEXT = """\
The same module three ways, on one thread: compiled now and called from Python with NumPy arrays
(JIT), compiled ahead of time and called from Python through `ingot.load_executable` (library), and
linked into a C program that calls it in a loop (C). They take turns; a time is the median over the
turns of the fastest batch in each, a ratio the median of each turn's. Times are of the CPU, so that
what else runs on the machine counts less."""

SIZES_TEXT = """\
Bytes. An object has one CPU level; the last columns are libraries. What a C program adds is
the object less what its linker drops; nothing else is linked but libc and libm."""

C_SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "net.h"
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}
int main(int count, char** arguments) {
  static const size_t bytes[] = {ARG_BYTES};
  const void* args[NET_NUM_ARGS];
  void* results[NET_NUM_RESULTS];
  int64_t sizes[NET_NUM_SIZES];
  double seconds = atof(arguments[1]), best = 1e9, end;
  if (count != 2) return 2;
  for (int n = 0; n < NET_NUM_ARGS; ++n) {
    char name[32];
    snprintf(name, sizeof name, "in%d", n);
    FILE* file = fopen(name, "rb");
    void* data = aligned_alloc(64, (bytes[n] + 63) / 64 * 64);
    if (!file || fread(data, 1, bytes[n], file) != bytes[n]) return 3;
    args[n] = data;
  }
  if (net_prepare(NULL, sizes)) return 4;
  for (int n = 0; n < NET_NUM_RESULTS; ++n)
    results[n] = aligned_alloc(64, (sizes[NET_OUTPUT_BYTES + n] + 63) / 64 * 64);
  long batch = 1;
  for (end = now() + seconds; now() < end;) {
    double start = now(), each;
    for (long k = 0; k < batch; ++k) if (net_execute(args, results, sizes)) return 5;
    each = (now() - start) / batch;
    if (each * batch < 1e-4) batch *= 2;
    else if (each < best) best = each;
  }
  FILE* file = fopen("out0", "wb");
  fwrite(results[0], 1, sizes[NET_OUTPUT_BYTES], file);
  fclose(file);
  printf("%.12g\n", best);
  return 0;
}
"""


class CpuWatch(Stopwatch):
    """A stopwatch that counts what this process runs, not what it waits."""

    def batch(self) -> float:
        """Return the CPU's seconds per call of one batch."""
        run, start = self._run, time.process_time()
        for _ in range(self._calls):
            run()
        return (time.process_time() - start) / self._calls


@dataclass
class Program:
    """A module, its arguments, and what was measured of it."""

    name: str
    module: Any
    inputs: list[Any]
    times: dict[str, Timing] = field(default_factory=lambda: {way: Timing() for way in WAYS})
    sizes: list[int] = field(default_factory=list)


def programs() -> list[Program]:
    """Return what is measured; weights are constants."""
    import jax
    from jax import export

    generator = np.random.default_rng(0)

    def array(*dims: int) -> Any:
        return (generator.standard_normal(dims) / np.sqrt(max(1, dims[0]))).astype(np.float32)

    def dense(x: Any, *dims: int) -> Any:
        return x @ array(*dims) + array(dims[-1])

    def mlp(x: Any) -> Any:
        return dense(jax.nn.relu(dense(x, 16, 32)), 32, 4)

    def convnet(x: Any) -> Any:
        for channels, out in ((1, 16), (16, 32)):
            kernel = array(3, 3, channels, out)
            x = jax.nn.relu(
                jax.lax.conv_general_dilated(
                    x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
                )
            )
            x = jax.lax.reduce_window(x, -np.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = jax.nn.relu(dense(x.reshape(x.shape[0], -1), 800, 64))
        return jax.nn.softmax(dense(x, 64, 10))

    def block(x: Any) -> Any:
        heads, size = 4, 64
        q, k, v = (dense(x, 256, 256).reshape(-1, heads, size) for _ in range(3))
        weights = jax.nn.softmax(jax.numpy.einsum("qhd,khd->hqk", q, k) / 8)
        x = x + dense(jax.numpy.einsum("hqk,khd->qhd", weights, v).reshape(-1, 256), 256, 256)
        return x + dense(jax.nn.gelu(dense(x, 256, 1024)), 1024, 256)

    rows: list[tuple[str, Callable[..., Any], list[Any]]] = [
        ("softmax: 5x11", lambda x: jax.nn.softmax(x), [array(5, 11)]),
        ("MLP: 16-32-4, batch 1", mlp, [array(1, 16)]),
        ("convnet: 28x28, batch 1", convnet, [array(1, 28, 28, 1)]),
        ("transformer block: 128x256", block, [array(128, 256)]),
        ("matmul: 512", lambda x, y: x @ y, [array(512, 512), array(512, 512)]),
    ]
    made: list[Program] = []
    for name, function, inputs in rows:
        shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in inputs]
        data = export.export(jax.jit(function), platforms=["cpu"])(*shapes).serialize()
        made.append(Program(name, ingot.load(bytes(data)), inputs))
    return made


def measure(program: Program, folder: Path) -> None:
    """Time the three ways in turns."""
    level = host_levels()[0]
    made = compile_aot(program.module, "net", level)
    runner = _build(made, program, folder)
    library = folder / "libnet.so"
    library.write_bytes(made.library)
    ahead = ingot.load_executable(library)
    now = ingot.compile(program.module)
    wanted, got = now(*program.inputs), ahead(*program.inputs)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    _run(runner, folder, 0.01)
    from_c = np.fromfile(folder / "out0", np.float32).reshape(wanted.shape)
    np.testing.assert_array_equal(from_c, got)
    watches = {
        "JIT": CpuWatch(lambda: now(*program.inputs), 1e-4),
        "library": CpuWatch(lambda: ahead(*program.inputs), 1e-4),
    }
    for _ in range(ROUNDS):
        for way, watch in watches.items():
            program.times[way].seconds.append(min(watch.sample(SECONDS)))
        program.times["C"].seconds.append(_run(runner, folder, SECONDS))
    beside = compile_aot(program.module, "net", level, weights="beside")
    several = compile_aot(program.module, "net", LEVELS)
    others = [compile_aot(program.module, "net", triple=triple) for triple in TARGETS.values()]
    program.sizes = [
        len(made.object), made.metadata.constant_bytes, len(made.library), len(beside.library),
        len(several.library), *(len(one.library) for one in others),
    ]  # fmt: skip


def _build(made: AotProgram, program: Program, folder: Path) -> Path:
    """Return the C program that calls the object."""
    for number, value in enumerate(program.inputs):
        (folder / f"in{number}").write_bytes(value.tobytes())
    sizes = ", ".join(str(value.nbytes) for value in program.inputs)
    (folder / "net.o").write_bytes(made.object)
    (folder / "net.h").write_text(made.header)
    (folder / "main.c").write_text(C_SOURCE.replace("ARG_BYTES", sizes))
    command = ["gcc", "-O2", "main.c", "net.o", "-lm", "-o", "main"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "main"


def _run(runner: Path, folder: Path, seconds: float) -> float:
    done = subprocess.run(
        [str(runner), str(seconds)], cwd=folder, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def tables(rows: list[Program]) -> tuple[list[list[str]], list[list[str]]]:
    """Return the cells of times and of sizes, heading first."""
    times = [["program", *WAYS, "JIT / library", "JIT / C"]]
    sizes = [["program", "object", "of it weights", "library", "weights beside", LEVELS, *TARGETS]]
    for row in rows:
        timings = [row.times[way] for way in WAYS]
        ratios = [factor(one.ratio(timings[0])) for one in timings[1:]]
        times.append([row.name, *(duration(one.median) for one in timings), *ratios])
        sizes.append([row.name, *(f"{size:,}" for size in row.sizes)])
    return times, sizes


def main() -> None:
    """Measure, print, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    arguments = parser.parse_args()
    take_cpus(1)
    facts = machine()
    rows = programs()
    for row in rows:
        with tempfile.TemporaryDirectory() as folder:
            measure(row, Path(folder))
        print(row.name, *(duration(row.times[way].median) for way in WAYS), flush=True)
    times, sizes = tables(rows)
    print(as_text(times), as_text(sizes), sep="\n\n")
    if arguments.write:
        head = "\n".join(f"- {fact}" for fact in facts)
        parts = ["# Ahead of time\n\nWritten by `make bench-aot`.", head, TEXT, "## Time per call"]
        parts += [as_markdown(times), "## Sizes", SIZES_TEXT, as_markdown(sizes)]
        PAGE.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
