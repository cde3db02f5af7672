# SPDX-License-Identifier: Apache-2.0
"""A training step divided over two devices of one process, beside the undivided one on two threads.

The step is that of a transformer of four layers (13 MB of parameters) with plain descent, all of it
one program. Both run in one process, in turn; of each the least processor time and the least wall
time of a step are printed, and the median of each turn's ratio.

Example:
    JAX_PLATFORMS=ingot python -m benchmarks.distributed.divided_step data tensor \
        --sequences 8 16 32
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

LAYERS, WIDTH, HEADS, HIDDEN, WORDS, LENGTH = 4, 256, 8, 1024, 512, 64
WAYS = ("data", "tensor")


def weights() -> dict[str, Any]:
    """Return the parameters, those of a layer in a tuple of layers."""
    import numpy as np

    draw = np.random.default_rng(0)

    def normal(*dims: int) -> Any:
        return (draw.standard_normal(dims) / np.sqrt(dims[0])).astype(np.float32)

    layer = {"heads": (3, WIDTH, WIDTH), "out": (WIDTH, WIDTH)}
    layer |= {"up": (WIDTH, HIDDEN), "down": (HIDDEN, WIDTH)}
    made = [
        {name: normal(*dims[-2:]) if len(dims) == 2 else
         normal(WIDTH, 3 * WIDTH).reshape(WIDTH, 3, WIDTH).swapaxes(0, 1)
         for name, dims in layer.items()}
        for _ in range(LAYERS)
    ]  # fmt: skip
    return {"embedding": normal(WORDS, WIDTH), "layers": made}


def norm(x: Any) -> Any:
    """Return rows of mean square 1."""
    import jax
    import jax.numpy as jnp

    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def loss(given: dict[str, Any], words: Any) -> Any:
    """Return the cross entropy of the next word; words is s32[batch, length + 1]."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    x = given["embedding"][words[:, :-1]]
    mask = np.tril(np.ones((LENGTH, LENGTH), bool))
    for one in given["layers"]:
        parts = jnp.einsum("btd,cde->cbte", norm(x), one["heads"])
        q, k, v = parts.reshape(3, *x.shape[:2], HEADS, WIDTH // HEADS)
        scores = jnp.einsum("bshd,bthd->bhst", q, k) * (WIDTH // HEADS) ** -0.5
        chances = jax.nn.softmax(jnp.where(mask, scores, -1e9))
        x = x + jnp.einsum("bhst,bthd->bshd", chances, v).reshape(x.shape) @ one["out"]
        x = x + jax.nn.gelu(norm(x) @ one["up"]) @ one["down"]
    logits = jax.nn.log_softmax(norm(x) @ given["embedding"].T)
    return -jnp.mean(jnp.take_along_axis(logits, words[:, 1:, None], -1))


def step(given: dict[str, Any], words: Any) -> tuple[dict[str, Any], Any]:
    """Return new parameters and the loss."""
    import jax

    value, slopes = jax.value_and_grad(loss)(given, words)
    return jax.tree.map(lambda w, g: w - 0.01 * g, given, slopes), value


def layout(way: str) -> tuple[Any, dict[str, Any]]:
    """Return how the words and the parameters are divided."""
    from jax.sharding import PartitionSpec as P

    names = ("heads", "out", "up", "down")
    specs = dict.fromkeys(names, P())
    if way == "tensor":
        specs = {"heads": P(None, None, "x"), "out": P("x"), "up": P(None, "x"), "down": P("x")}
    return P("x") if way == "data" else P(), {"embedding": P(), "layers": [specs] * LAYERS}


class Trained:
    """Parameters on some devices, and the step that changes them."""

    def __init__(self, way: str, devices: int, sequences: int) -> None:
        """Compile the step and run it twice.

        Args:
            way: one of `WAYS`.
            devices: how many devices it is divided over.
            sequences: how many there are in a batch.
        """
        import jax
        import numpy as np
        from jax.sharding import AxisType, NamedSharding

        mesh = jax.make_mesh(
            (devices,), ("x",), devices=jax.devices()[:devices], axis_types=(AxisType.Auto,)
        )
        batch, specs = layout(way)

        def place(value: Any, spec: Any) -> Any:
            return jax.device_put(value, NamedSharding(mesh, spec))

        self.weights = jax.tree.map(place, weights(), specs)
        draw = np.random.default_rng(1)
        self.words = place(draw.integers(0, WORDS, (sequences, LENGTH + 1)).astype(np.int32), batch)
        shardings = jax.tree.map(lambda one: one.sharding, self.weights)
        self.compiled = (
            jax.jit(step, donate_argnums=0, out_shardings=(shardings, None))
            .lower(self.weights, self.words)
            .compile()
        )
        self.run(2)

    def run(self, steps: int) -> tuple[float, float]:
        """Run steps; return seconds of processor and of the clock for one."""
        import jax

        busy, clock = time.process_time(), time.perf_counter()
        value = None
        for _ in range(steps):
            self.weights, value = self.compiled(self.weights, self.words)
        jax.block_until_ready((self.weights, value))
        return (time.process_time() - busy) / steps, (time.perf_counter() - clock) / steps


def main() -> int:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ways", nargs="*", default=WAYS)
    parser.add_argument("--sequences", type=int, nargs="*", default=[8, 16, 32])
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--steps", type=int, default=3)
    given = parser.parse_args()
    import jax

    jax.config.update("jax_num_cpu_devices", 2)
    for way in given.ways:
        for sequences in given.sequences:
            alone, divided = Trained(way, 1, sequences), Trained(way, 2, sequences)
            rows = [(alone.run(given.steps), divided.run(given.steps)) for _ in range(given.turns)]
            for number, name in enumerate(("processor", "clock")):
                first = min(row[0][number] for row in rows)
                second = min(row[1][number] for row in rows)
                ratio = statistics.median(row[1][number] / row[0][number] for row in rows)
                print(
                    f"{way:7} {sequences:3} sequences, {name:9}: undivided {first * 1e3:7.2f} ms, "
                    f"divided {second * 1e3:7.2f} ms, {second / first:.3f} of it, "
                    f"median of turns {ratio:.3f}",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
