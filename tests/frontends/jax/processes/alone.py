# SPDX-License-Identifier: Apache-2.0
"""A program of several processes whose first one computes with a result that all have, alone.

Also checks that the program's only part here runs in the call once the host waits for each result.
Called with the number of this process, how many there are and the coordinator's address.
"""

from __future__ import annotations

import gc
import sys

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from ingot.client.pjrt.objects import Device
from ingot.client.pjrt.records import DEVICE

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


def queued() -> int:
    """Return the jobs that the worker of this process's device has got so far."""
    made = gc.get_objects()
    (device,) = (item for item in made if isinstance(item, Device) and item.is_addressable)
    return DEVICE.read(device.address, "queued")


# The only part of this process runs in the call while the host waits for each result.
before, calls = queued(), 200
for _ in range(calls):
    assert float(total(x)) == 3 * COUNT
assert queued() - before < calls // 2, (before, queued())
print("done")
