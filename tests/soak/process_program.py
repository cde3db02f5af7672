# SPDX-License-Identifier: Apache-2.0
"""A program of several processes that says which phase it is in; `tests.soak.processes` runs it.

Called with the number of this process, how many there are, the coordinator's address and the limit
in seconds of everything that has one. It trains a model of two layers with its data on all
processes (the sum of one layer's gradient runs while the other's is computed), and prints a line
for each phase, then the digest of the parameters.
"""

from __future__ import annotations

import hashlib
import sys

INDEX, COUNT, ADDRESS, LIMIT = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
STEPS = 30
WIDTH = 320
"""Features: sums of their gradients are too large to be joined, and products take a while."""


def say(phase: str) -> None:
    print(phase, flush=True)


def main() -> None:
    say("import")
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import AxisType, NamedSharding, PartitionSpec

    say("bootstrap")
    jax.distributed.initialize(
        ADDRESS,
        COUNT,
        INDEX,
        initialization_timeout=LIMIT,
        heartbeat_timeout_seconds=LIMIT,
        shutdown_timeout_seconds=LIMIT,
    )
    mesh = jax.make_mesh((COUNT,), ("x",), axis_types=(AxisType.Auto,))
    rows = NamedSharding(mesh, PartitionSpec("x"))
    whole = NamedSharding(mesh, PartitionSpec())
    rng = np.random.default_rng(0)
    data = rng.standard_normal((64 * COUNT, WIDTH)).astype(np.float32)
    wanted = data[:, ::-1] * 0.5
    first = rng.standard_normal((2, WIDTH, WIDTH)).astype(np.float32) / WIDTH**0.5
    say("compile")
    x, y = (
        jax.make_array_from_callback(each.shape, rows, lambda part, each=each: each[part])
        for each in (data, wanted)
    )

    def loss(w: list[jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.mean((jnp.tanh(x @ w[0]) @ w[1] - y) ** 2)

    def update(w: list[jax.Array], x: jax.Array, y: jax.Array) -> list[jax.Array]:
        return [one - 0.1 * each for one, each in zip(w, jax.grad(loss)(w, x, y), strict=True)]

    step = jax.jit(update, out_shardings=whole)
    w = step([jax.device_put(one, whole) for one in first], x, y)
    say("steps")
    for _ in range(STEPS):
        w = step(w, x, y)
    found = hashlib.sha256(b"".join(np.asarray(one).tobytes() for one in w)).hexdigest()
    say("exit")
    jax.distributed.shutdown()
    say(f"done {found}")


main()
