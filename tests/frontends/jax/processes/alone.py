# SPDX-License-Identifier: Apache-2.0
"""A program of several processes whose first one computes with a result that all have, alone.

Called with the number of this process, how many there are and the coordinator's address.
"""

from __future__ import annotations

import sys

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

INDEX, COUNT = int(sys.argv[1]), int(sys.argv[2])
jax.distributed.initialize(sys.argv[3], COUNT, INDEX)
mesh = jax.make_mesh((COUNT,), ("x",), axis_types=(AxisType.Auto,))
x = jax.make_array_from_callback(
    (COUNT, 3), NamedSharding(mesh, PartitionSpec("x")), lambda part: np.ones((COUNT, 3))[part]
)
total = jax.jit(lambda x: x.sum(), out_shardings=NamedSharding(mesh, PartitionSpec()))
loss = total(x)
if INDEX == 0:
    assert float(loss * 100) == 300 * COUNT
assert float(total(x + x)) == 6 * COUNT
print("done")
