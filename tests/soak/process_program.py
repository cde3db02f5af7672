# SPDX-License-Identifier: Apache-2.0
"""A program of several processes that says which phase it is in; `tests.soak.processes` runs it.

Called with the number of this process, how many there are, the coordinator's address and the limit
in seconds of everything that has one. It trains a linear model with its data on all processes, and
prints a line for each phase, then the bits of the parameters.
"""

from __future__ import annotations

import sys

INDEX, COUNT, ADDRESS, LIMIT = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
STEPS = 30


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
    data = rng.standard_normal((16 * COUNT, 8)).astype(np.float32)
    wanted = data @ np.arange(8, dtype=np.float32)
    say("compile")
    x, y = (
        jax.make_array_from_callback(each.shape, rows, lambda part, each=each: each[part])
        for each in (data, wanted)
    )

    def loss(w: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.mean((x @ w - y) ** 2)

    step = jax.jit(lambda w, x, y: w - 0.1 * jax.grad(loss)(w, x, y), out_shardings=whole)
    w = step(jax.device_put(np.zeros(8, np.float32), whole), x, y)
    say("steps")
    for _ in range(STEPS):
        w = step(w, x, y)
    found = np.asarray(w).tobytes().hex()
    say("exit")
    jax.distributed.shutdown()
    say(f"done {found}")


main()
