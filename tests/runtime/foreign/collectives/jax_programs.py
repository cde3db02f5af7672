# SPDX-License-Identifier: Apache-2.0
"""Runs sharded JAX programs with real XLA on virtual devices; writes texts, inputs and outputs.

Started as a process of its own (`python jax_programs.py FOLDER DEVICES`), because the number of
virtual devices is fixed when JAX starts.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main(folder: str, count: int) -> None:
    """Write `<name>.hlo` and `<name>.npz` for every program."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={count}"
    import jax
    import numpy as np
    from jax import lax
    from jax.sharding import Mesh, PartitionSpec

    mesh = Mesh(np.array(jax.devices()), ("d",))
    split, whole = PartitionSpec("d"), PartitionSpec()
    ring = [(n, (n + 1) % count) for n in range(count)]

    def softmax(x):
        shifted = jax.numpy.exp(x - lax.pmax(x.max(), "d"))
        return shifted / lax.psum(shifted.sum(), "d")

    def matmul(x):
        return lax.psum(x.T @ x, "d")

    def step(x):
        gradient = jax.grad(lambda w: ((x @ w) ** 2).mean())(jax.numpy.ones((x.shape[1],)))
        return lax.pmean(gradient, "d")

    programs = {
        "psum": (lambda x: lax.psum(x, "d"), whole),
        "pmax_pmin": (lambda x: lax.pmax(x, "d") - lax.pmin(x, "d"), whole),
        "gather": (lambda x: lax.all_gather(x, "d", tiled=True) * 2, split),
        "scatter": (lambda x: lax.psum_scatter(x.reshape(-1), "d", tiled=True), split),
        "exchange": (lambda x: lax.all_to_all(x.T, "d", 0, 0, tiled=True), split),
        "ring": (lambda x: lax.ppermute(x, "d", ring) + x, split),
        "index": (lambda x: x * lax.axis_index("d").astype(x.dtype), split),
        "softmax": (softmax, split),
        "matmul": (matmul, whole),
        "step": (step, whole),
    }
    for element in ("float32", "bfloat16", "int8"):
        for name, (function, result) in programs.items():
            if element != "float32" and name in ("softmax", "matmul", "step"):
                continue
            mapped = jax.jit(
                jax.shard_map(
                    function, mesh=mesh, in_specs=split, out_specs=result, check_vma=False
                )
            )
            numbers = np.random.default_rng(len(name)).integers(-4, 5, (count * 3, count * 2))
            x = jax.numpy.asarray(
                numbers.astype(np.float32) / 4 if element == "float32" else numbers
            )
            x = x.astype(element)
            compiled = mapped.lower(x).compile()
            output = compiled(x)
            stem = Path(folder) / f"{name}_{element}"
            stem.with_suffix(".hlo").write_text(compiled.as_text())
            shards = sorted(output.addressable_shards, key=lambda shard: shard.device.id)
            data = {f"out{n}": np.asarray(s.data, np.float32) for n, s in enumerate(shards)}
            data |= {f"in{n}": np.asarray(v, np.float32) for n, v in enumerate(np.split(x, count))}
            np.savez(stem.with_suffix(".npz"), **data)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
