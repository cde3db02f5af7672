# SPDX-License-Identifier: Apache-2.0
"""A program of several processes of which one ends, stops or runs something else.

Called with the number of this process, how many there are, the coordinator's address and what the
second one does. The others print the error that they get.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import jax
import numpy as np
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
try:
    if INDEX == 1 and FAULT == "other":
        total = jax.jit(lambda x: x.max(0), out_shardings=WHOLE)
    print(total(X))
except jax.errors.JaxRuntimeError as problem:
    print(problem)
sys.stdout.flush()
# The others need JAX's own service, which is in process 0, until they have said what they got.
if INDEX == 0:
    time.sleep(LINGER)
# What that service says of the lost process would end this one too.
os._exit(0)
