# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.kernels.gemm`: matrix-product kernels beside NumPy's BLAS and XLA:CPU.

Each contender runs in turn, many rounds; the least time of each is compared. Ingot's kernel is
called as a host program calls it: through the runtime's thread pool, no Python between chunks.
`--threads` pins the process to as many CPUs before any library starts its pool.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Run = Callable[[], None]


@dataclass(frozen=True)
class Case:
    """One product; `epilogue` adds bias and gelu, `transposed` stores the rhs as [n, k]."""

    m: int
    n: int
    k: int
    batch: int = 0
    transposed: bool = False
    epilogue: bool = False

    @property
    def name(self) -> str:
        """What the table calls it."""
        outer = f"{self.batch}x" if self.batch else ""
        marks = " B^T" * self.transposed + " +bias+gelu" * self.epilogue
        return f"{outer}{self.m}x{self.n}x{self.k}{marks}"

    @property
    def operations(self) -> int:
        """Floating-point operations of the product."""
        return 2 * max(1, self.batch) * self.m * self.n * self.k


CASES = (
    Case(64, 64, 64),
    Case(128, 128, 128),
    Case(512, 512, 512),
    Case(1024, 1024, 1024),
    Case(512, 3072, 768),
    Case(128, 128, 64, batch=96),
    Case(100, 100, 100),
    Case(64, 10, 784),
    Case(8, 3072, 768),
    Case(1, 3072, 768),
    Case(512, 1, 768),
    Case(1, 3072, 768, transposed=True),
    Case(512, 512, 512, transposed=True),
    Case(128, 128, 64, batch=96, transposed=True),
    Case(512, 3072, 768, epilogue=True),
)


def arrays(case: Case) -> list[Any]:
    """Return the operands: lhs, rhs and the bias if there is one."""
    import numpy as np

    random = np.random.default_rng(0)
    outer = (case.batch,) if case.batch else ()
    right = (case.n, case.k) if case.transposed else (case.k, case.n)
    shapes = [(*outer, case.m, case.k), (*outer, *right)]
    if case.epilogue:
        shapes.append((case.n,))
    return [random.standard_normal(shape, dtype=np.float32) for shape in shapes]


def computation(case: Case) -> Any:
    """Return the fused computation."""
    from ingot.hlo.builder import Builder

    b = Builder("gemm")
    texts = [",".join(map(str, array.shape)) for array in arrays(case)]
    x, y, *rest = [b.parameter(n, f"f32[{text}]") for n, text in enumerate(texts)]
    first = int(case.batch > 0)
    places = tuple(range(first))
    dot = b.dot(
        x,
        y,
        lhs_batch_dims=places,
        rhs_batch_dims=places,
        lhs_contracting_dims=(first + 1,),
        rhs_contracting_dims=(first + (1 if case.transposed else 0),),
    )
    if not case.epilogue:
        return b.build(dot)
    z = b.add(dot, b.broadcast_to(rest[0], dot.shape.dims, (1,)))

    def number(value: float) -> Any:
        return b.full(value, z.shape)

    cube = b.multiply(z, b.multiply(z, z))
    inner = b.multiply(number(0.7978845608), b.add(z, b.multiply(number(0.044715), cube)))
    return b.build(b.multiply(b.multiply(number(0.5), z), b.add(number(1.0), b.tanh(inner))))


def ingot_run(case: Case, inputs: list[Any]) -> tuple[Run, Any, float]:
    """Return a call of Ingot's kernel, its result array, and the milliseconds to compile it."""
    import numpy as np

    from ingot.cpu.emit.contraction.kernel import emit_contraction_kernel
    from ingot.cpu.library.parts import library_part, shared_addresses
    from ingot.hlo.dim import evaluate
    from ingot.kernel.contraction.build import build_contraction_kernel
    from ingot.kernel.contraction.plan import plan_contraction
    from ingot.kernel.contraction.schedule import schedule_contraction
    from ingot.llvm.builder import ModuleBuilder
    from ingot.llvm.jit import compile_object
    from ingot.llvm.linking import link_object
    from ingot.llvm.machine_model import Vectors
    from ingot.llvm.target import TargetSpec
    from ingot.runtime.native import native_runtime
    from ingot.runtime.records import RUNTIME

    target = TargetSpec.host()
    fused = computation(case)
    start = time.perf_counter()
    kernel = build_contraction_kernel(fused)
    vectors = Vectors.of(target)
    schedule = schedule_contraction(kernel, vectors)
    plan = plan_contraction(kernel, schedule, vectors)
    module = ModuleBuilder("gemm")
    emitted = emit_contraction_kernel(module, "k", kernel, plan, target)
    needed = [library_part(target, item) for item in emitted.templates]
    library = link_object(
        [compile_object(module.text(), target, cache=None)],
        shared_addresses(needed),
    )
    milliseconds = (time.perf_counter() - start) * 1e3
    outer = (case.batch,) if case.batch else ()
    result = np.empty((*outer, case.m, case.n), np.float32)
    addresses = [array.ctypes.data for array in (*inputs, result)]
    env = (ctypes.c_int64 * emitted.slots)(*addresses)
    runtime = native_runtime()
    pool = RUNTIME.read(runtime.record, "pool")
    parallel = runtime.function(
        "ingot_parallel", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
    )
    chunks = int(evaluate(emitted.phases[0].chunks, {}))
    entry, address = library.address("k"), ctypes.addressof(env)

    def run(keep: Any = (env, library, inputs)) -> None:
        del keep
        parallel(pool, entry, address, chunks)

    return run, result, milliseconds


def numpy_run(case: Case, inputs: list[Any]) -> Run:
    """Return a call of NumPy's product into a preallocated result (no epilogue there)."""
    import numpy as np

    x, y = inputs[:2]
    right = np.swapaxes(y, -1, -2) if case.transposed else y
    result = np.matmul(x, right)

    def run() -> None:
        np.matmul(x, right, out=result)

    return run


def jax_run(case: Case, inputs: list[Any]) -> tuple[Run, Any]:
    """Return a call of the same function jitted by jax, and its result."""
    import jax
    import jax.numpy as jnp

    def function(x: Any, y: Any, *bias: Any) -> Any:
        z = jnp.matmul(x, jnp.swapaxes(y, -1, -2) if case.transposed else y)
        return jax.nn.gelu(z + bias[0], approximate=True) if bias else z

    compiled = jax.jit(function)
    given = [jax.device_put(array) for array in inputs]
    return lambda: compiled(*given).block_until_ready(), compiled(*given)


def least_times(runs: list[Run], rounds: int, budget: float) -> list[float]:
    """Return the least seconds of each run, taken in turn."""
    best = [float("inf")] * len(runs)
    for run in runs:
        run()
    for _ in range(rounds):
        for number, run in enumerate(runs):
            end = time.perf_counter() + budget
            now = 0.0
            while now < end:
                start = time.perf_counter()
                run()
                now = time.perf_counter()
                best[number] = min(best[number], now - start)
    return best


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels.gemm", description=__doc__)
    parser.add_argument("names", nargs="*", help="only cases whose names have one of these")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--budget", type=float, default=0.03, help="seconds per turn")
    options = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))[: options.threads]
    os.sched_setaffinity(0, cpus)
    os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)
    import numpy as np

    print(f"{'case':32} {'Ingot us':>10} {'GFLOP/s':>8} {'NumPy':>6} {'XLA':>6} {'compile ms':>10}")
    for case in CASES:
        if options.names and not any(name in case.name for name in options.names):
            continue
        inputs = arrays(case)
        ours, result, milliseconds = ingot_run(case, inputs)
        theirs, expected = jax_run(case, inputs)
        runs = [ours, numpy_run(case, inputs), theirs]
        first, numpy_time, jax_time = least_times(runs, options.rounds, options.budget)
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-3)
        rate = case.operations / first / 1e9
        print(
            f"{case.name:32} {first * 1e6:10.1f} {rate:8.1f} {numpy_time / first:6.2f}"
            f" {jax_time / first:6.2f} {milliseconds:10.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
