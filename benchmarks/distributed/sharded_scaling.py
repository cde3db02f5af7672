# SPDX-License-Identifier: Apache-2.0
"""Compile cost of a training step that many devices share, by layers and by devices.

The step is one of JAX's: residual blocks, their gradients and new weights, unrolled, on a mesh of
data and model axes without any device (`AbstractMesh`). One process writes its StableHLO, another
one, with empty caches, reads it (Shardy's passes are in that), divides it and compiles the program
of a device.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

LAYERS = (10, 100, 1000)
DEVICES = (8, 64, 512, 4096)
_SMALL = """module @m attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>})
      -> tensor<8x8xf32> {
    %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %y : tensor<8x8xf32>
  }
}"""
_WIDTH, _ROWS = 1024, 8192
_MODEL_AXIS = 8


def training_step(layers: int, devices: int) -> str:
    """Return the step as StableHLO text; JAX lowers it without devices."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

    mesh = AbstractMesh((devices // _MODEL_AXIS, _MODEL_AXIS), ("data", "model"))

    def struct(shape: tuple[int, ...], *axes: str | None) -> jax.ShapeDtypeStruct:
        sharding = NamedSharding(mesh, PartitionSpec(*axes))
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)

    def step(weights, x):
        def loss(weights):
            h = x
            for up, down in weights:
                h = h + jax.nn.gelu(h @ up) @ down
            return (h * h).mean()

        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, jax.grad(loss)(weights))

    up = struct((_WIDTH, 4 * _WIDTH), None, "model")
    down = struct((4 * _WIDTH, _WIDTH), "model", None)
    traced = jax.jit(step).trace([(up, down)] * layers, struct((_ROWS, _WIDTH), "data", None))
    return traced.lower(lowering_platforms=("cpu",)).as_text()


def measure(path: str) -> dict[str, object]:
    """Compile the program in a file in this process; return seconds by phase and peak memory."""
    import ingot
    from ingot.client import clear_caches, load_library

    ingot.compile(ingot.partition(ingot.parse_stablehlo(_SMALL)))  # what a process loads once
    clear_caches()
    load_library()
    text = Path(path).read_text(encoding="utf-8")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    marks = [time.process_time()]
    module = ingot.parse_stablehlo(text)
    marks.append(time.process_time())
    ops = module.instruction_count
    part = ingot.partition(module)
    marks.append(time.process_time())
    executable = ingot.compile(part, is_final=True)
    marks.append(time.process_time())
    return {
        "ops": ops,
        "seconds": [end - start for start, end in pairwise(marks)],
        "kilobytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before,
        "kernels": len(executable.kernels),
        "exchanges": len(executable.artifact.calls),
    }


def _apart(*arguments: str) -> str:
    command = [sys.executable, "-m", "benchmarks.distributed.sharded_scaling", *arguments]
    environment = {**os.environ, "INGOT_CACHE": "0", "JAX_PLATFORMS": "cpu"}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout


def rows(most_layers: int) -> list[dict[str, object]]:
    """Measure all sizes with at most `most_layers`; each in processes of its own."""
    found: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        for layers in (count for count in LAYERS if count <= most_layers):
            for devices in DEVICES:
                path = str(Path(folder) / "step.mlir")
                _apart("text", str(layers), str(devices), path)
                row = {"layers": layers, "devices": devices, **json.loads(_apart("one", path))}
                print(json.dumps(row), flush=True)
                found.append(row)
    return found


def section(found: list[dict[str, object]]) -> list[str]:
    """Return the page's lines."""
    lines = [
        "## A step that many devices share",
        "",
        "A training step of residual blocks, unrolled, from JAX's StableHLO with Shardy's"
        " annotations, on a mesh of data and 8-fold model parallelism that does not exist. Seconds"
        " of processor time: read (with Shardy's propagation), divide into the program of one"
        " device, compile that. Memory is what the process grew by at most.",
        "",
        "| layers | devices | ops | kernels | exchanges | read | divide | compile | seconds |"
        " ms per layer | MiB |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in found:
        seconds: list[float] = row["seconds"]  # type: ignore[assignment]
        total, layers = sum(seconds), int(str(row["layers"]))
        phases = " | ".join(f"{one:.2f}" for one in seconds)
        memory = float(str(row["kilobytes"])) / 1024
        lines.append(
            f"| {layers:,} | {row['devices']:,} | {row['ops']:,} | {row['kernels']:,} |"
            f" {row['exchanges']:,} | {phases} | {total:.2f} | {total / layers * 1e3:.0f} |"
            f" {memory:.0f} |"
        )
    return lines


def main() -> int:
    """Write one program, or measure one: `text LAYERS DEVICES FILE`, `one FILE`."""
    what, *rest = sys.argv[1:]
    if what == "text":
        layers, devices, path = rest
        Path(path).write_text(training_step(int(layers), int(devices)), encoding="utf-8")
    else:
        print(json.dumps(measure(rest[0])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
