# SPDX-License-Identifier: Apache-2.0
"""A program of several processes of which one ends, stops or runs something else.

Called with the number of this process, how many there are, the coordinator's address and what the
second one does. Each prints the error that it gets.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

import jax
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

LINGER = 5
"""Seconds."""
INDEX, COUNT, FAULT = int(sys.argv[1]), int(sys.argv[2]), sys.argv[4]

jax.distributed.initialize(sys.argv[3], COUNT, INDEX)
MESH = jax.make_mesh((COUNT,), ("x",), axis_types=(AxisType.Auto,))
WHOLE = NamedSharding(MESH, PartitionSpec())
X = jax.make_array_from_callback(
    (COUNT, 3), NamedSharding(MESH, PartitionSpec("x")), lambda part: np.ones((COUNT, 3))[part]
)
total = jax.jit(lambda x: x.sum(), out_shardings=WHOLE)
assert float(total(X)) == 3 * COUNT
if INDEX == 1 and FAULT == "end":
    os._exit(3)
if INDEX == 1 and FAULT == "stop":
    os.kill(os.getpid(), signal.SIGSTOP)


def by_hand(local: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    """Return a program of what each device does."""
    divided = PartitionSpec("x")
    return jax.jit(
        jax.shard_map(local, mesh=MESH, in_specs=divided, out_specs=divided, check_vma=False)
    )


def loop(rounds: int) -> Callable[[jax.Array], jax.Array]:
    """Return a program with a collective in a loop."""
    return by_hand(lambda x: lax.fori_loop(0, rounds, lambda _, v: lax.psum(v, "x") / COUNT, x))


PROGRAMS = {
    "other": (total, jax.jit(lambda x: x.max(0), out_shardings=WHOLE)),
    "scale": tuple(by_hand(lambda x, by=by: lax.psum(x * by, "x")) for by in (2, 3)),
    "after": tuple(by_hand(lambda x, by=by: lax.psum(x, "x") + by) for by in (1, -1)),
    "perm": tuple(by_hand(lambda x, to=to: lax.ppermute(x, "x", [(1 - to, to)])) for to in (1, 0)),
    "loop": tuple(map(loop, (5, 6))),
}
"""What the others run, and what process 1 runs: they differ in no message, or exchange none."""
try:
    if FAULT in PROGRAMS:
        total = PROGRAMS[FAULT][INDEX == 1]
    print(jax.block_until_ready(total(X)))
except jax.errors.JaxRuntimeError as problem:
    print(problem)
sys.stdout.flush()
# The others need JAX's own service, which is in process 0, until they have said what they got.
if INDEX == 0:
    time.sleep(LINGER)
# What that service says of the lost process would end this one too.
os._exit(0)
