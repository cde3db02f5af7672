# SPDX-License-Identifier: Apache-2.0
"""Trains one small transformer divided in five ways, on the devices of one or several processes.

    JAX_PLATFORMS=ingot python examples/jax_sharded_training.py --devices 4
    JAX_PLATFORMS=ingot python examples/jax_sharded_training.py --processes 2

The ways: `data` divides the batch, `fsdp` the parameters too, `tensor` heads and hidden units,
`expert` the experts of a mixture, `pipeline` the layers. Losses are those of one device.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np

WAYS = ("data", "fsdp", "tensor", "expert", "pipeline")
BATCH, LENGTH, WIDTH, HEADS, HIDDEN, EXPERTS, LAYERS, WORDS = 8, 12, 32, 8, 64, 8, 8, 40
Parameters = dict[str, Any]


def parameters() -> Parameters:
    """Return the parameters; those of the layers have the layer as first dimension."""
    draw = np.random.default_rng(0)

    def normal(*dims: int) -> np.ndarray[Any, Any]:
        return (draw.standard_normal(dims) / np.sqrt(dims[-2])).astype(np.float32)

    return {
        "embedding": normal(WORDS, WIDTH),
        "layers": {
            "heads": normal(LAYERS, 3, HEADS, WIDTH, WIDTH // HEADS),
            "out": normal(LAYERS, HEADS, WIDTH // HEADS, WIDTH),
            "router": normal(LAYERS, WIDTH, EXPERTS),
            "up": normal(LAYERS, EXPERTS, WIDTH, HIDDEN),
            "down": normal(LAYERS, EXPERTS, HIDDEN, WIDTH),
        },
    }


def norm(x: Any) -> Any:
    """Return rows of mean square 1."""
    import jax
    import jax.numpy as jnp

    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def layer(x: Any, weights: Parameters) -> Any:
    """Attention, then a mixture of all experts; x is f32[batch, length, WIDTH]."""
    import jax
    import jax.numpy as jnp

    query, key, value = jnp.einsum("btd,chdk->cbhtk", norm(x), weights["heads"])
    scores = jnp.einsum("bhsk,bhtk->bhst", query, key) / np.sqrt(WIDTH // HEADS)
    mask = np.tril(np.ones(scores.shape[-2:], bool))
    chances = jax.nn.softmax(jnp.where(mask, scores, -1e9))
    x = x + jnp.einsum("bhst,bhtk,hkd->bsd", chances, value, weights["out"])
    gates = jax.nn.softmax(norm(x) @ weights["router"])
    hidden = jax.nn.gelu(jnp.einsum("btd,edh->ebth", norm(x), weights["up"]))
    return x + jnp.einsum("bte,ebth,ehd->btd", gates, hidden, weights["down"])


def stacked(x: Any, layers: Parameters) -> Any:
    """Run all layers, one after the other."""
    import jax

    return jax.lax.scan(lambda x, one: (layer(x, one), None), x, layers)[0]


def piped(x: Any, layers: Parameters, mesh: Any) -> Any:
    """Run all layers, each device its own: micro-batches go from device to device."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P

    stages = mesh.shape["x"]

    def stage(x: Any, own: Parameters) -> Any:
        index = jax.lax.axis_index("x")
        batches = x.reshape(stages, -1, *x.shape[1:])
        state, done = jnp.zeros_like(batches[0]), jnp.zeros_like(batches)
        around = [(n, (n + 1) % stages) for n in range(stages)]
        for turn in range(2 * stages - 1):
            state = jnp.where(index == 0, batches[min(turn, stages - 1)], state)
            state = stacked(state, own)
            if turn >= stages - 1:
                done = done.at[turn - stages + 1].set(state)
            state = jax.lax.ppermute(state, "x", around)
        # What the last device has is the result.
        last = jnp.where(index == stages - 1, done, 0)
        return jax.lax.psum(last, "x").reshape(x.shape)

    return jax.shard_map(stage, mesh=mesh, in_specs=(P(), P("x")), out_specs=P(), check_vma=False)(
        x, layers
    )


def loss(weights: Parameters, words: Any, run: Any) -> Any:
    """Return the cross entropy of the next word; words is s32[batch, length]."""
    import jax
    import jax.numpy as jnp

    x = run(weights["embedding"][words[:, :-1]], weights["layers"])
    chances = jax.nn.log_softmax(norm(x) @ weights["embedding"].T)
    return -jnp.mean(jnp.take_along_axis(chances, words[:, 1:, None], -1))


def layout(way: str) -> tuple[Any, Parameters]:
    """Return how the batch and the parameters are divided."""
    from jax.sharding import PartitionSpec as P

    whole = {name: P() for name in parameters()["layers"]}
    layers = {
        "data": whole,
        "fsdp": {name: P(None, None, "x") if name == "router" else P("x") for name in whole},
        "tensor": {
            "heads": P(None, None, "x"),
            "out": P(None, "x"),
            "router": P(),
            "up": P(None, None, None, "x"),
            "down": P(None, None, "x"),
        },
        "expert": {**whole, "router": P(None, None, "x"), "up": P(None, "x"), "down": P(None, "x")},
        "pipeline": {name: P("x") for name in whole},
    }[way]
    batch = P("x") if way in ("data", "fsdp") else P()
    return batch, {"embedding": P(None, "x") if way == "fsdp" else P(), "layers": layers}


def train(way: str, steps: int) -> list[float]:
    """Return the loss of each step."""
    import jax
    from jax.sharding import AxisType, NamedSharding

    mesh = jax.make_mesh((jax.device_count(),), ("x",), axis_types=(AxisType.Auto,))
    batch, specs = layout(way)

    def spread(value: Any, spec: Any) -> Any:
        sharding = NamedSharding(mesh, spec)
        return jax.make_array_from_callback(value.shape, sharding, lambda part: value[part])

    weights = jax.tree.map(spread, parameters(), specs)
    run = partial(piped, mesh=mesh) if way == "pipeline" else stacked

    @partial(jax.jit, donate_argnums=0)
    def step(weights: Parameters, words: Any) -> tuple[Parameters, Any]:
        value, slopes = jax.value_and_grad(loss)(weights, words, run)
        return jax.tree.map(lambda w, slope: w - 0.1 * slope, weights, slopes), value

    words = np.random.default_rng(1).integers(0, WORDS, (steps, BATCH, 1))
    # A word decides the next one.
    words = (words * 3 ** np.arange(LENGTH + 1) % WORDS).astype(np.int32)
    losses = []
    for number in range(steps):
        weights, value = step(weights, spread(words[number], batch))
        losses.append(float(value))
    return losses


def main() -> None:
    """Train in each way; start the other processes if there are several."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--devices", type=int, default=2, help="devices of each process")
    options.add_argument("--processes", type=int, default=1)
    options.add_argument("--index", type=int, default=0, help="number of this process")
    options.add_argument("--coordinator", default="", help="address of process 0")
    options.add_argument("--steps", type=int, default=10)
    options.add_argument("--ways", default=",".join(WAYS))
    given = options.parse_args()
    if given.processes > 1 and not given.coordinator:
        sys.exit(start_all(given))

    import jax

    jax.config.update("jax_num_cpu_devices", given.devices)
    if given.processes > 1:
        jax.distributed.initialize(given.coordinator, given.processes, given.index)
    for way in given.ways.split(","):
        losses = train(way, given.steps)
        if given.index == 0:
            print(way, *(f"{value:.9g}" for value in losses), flush=True)


def start_all(given: argparse.Namespace) -> int:
    """Start all processes on this machine; return the first that is not 0 of what they return."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        coordinator = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [sys.executable, os.path.abspath(__file__), *sys.argv[1:]]
    running = [
        subprocess.Popen([*command, "--coordinator", coordinator, "--index", str(index)])
        for index in range(given.processes)
    ]
    return next((code for code in [each.wait() for each in running] if code), 0)


if __name__ == "__main__":
    main()
