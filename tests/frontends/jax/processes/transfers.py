# SPDX-License-Identifier: Apache-2.0
"""Arrays that move from the devices of one process to those of another; prints "done" at the end.

Called with the number of this process, how many there are, and the coordinator's address.
"""

from __future__ import annotations

import socket
import sys

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec, SingleDeviceSharding

P = PartitionSpec
INDEX, COUNT = int(sys.argv[1]), int(sys.argv[2])
SHAPES = ((), (7,), (8, 3), (1 << 18, 4))  # jaxlib waits forever for an empty array
DTYPES = ("float32", "bool", "int8", "complex64", "float16")

jax.config.update("jax_num_cpu_devices", 2)
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    PORT = free.getsockname()[1]
jax.config.update("jax_cross_host_transfer_socket_address", f"127.0.0.1:{PORT}")
jax.distributed.initialize(sys.argv[3], COUNT, INDEX)
assert "ingot" in jax.devices()[0].client.platform_version


def devices(process: int) -> list[jax.Device]:
    return [device for device in jax.devices() if device.process_index == process]


def divided(process: int, *spec: str) -> NamedSharding:
    mesh = jax.make_mesh((2,), ("x",), axis_types=(AxisType.Auto,), devices=devices(process))
    return NamedSharding(mesh, P(*spec))


def sent(value: np.ndarray, here: jax.sharding.Sharding, there: jax.sharding.Sharding) -> None:
    """Send an array, compute with it there, and send that back."""
    moved = jax.device_put(jax.device_put(value, here), there)
    for shard in moved.addressable_shards:
        np.testing.assert_array_equal(shard.data, value[shard.index])
    assert len(moved.addressable_shards) == len(there.addressable_devices)
    if there.addressable_devices:
        moved = jax.jit(lambda x: x | ~x if x.dtype == bool else x + x)(moved)
        again = np.logical_or(value, ~value) if value.dtype == bool else value + value
        for shard in moved.addressable_shards:
            np.testing.assert_array_equal(shard.data, again[shard.index])


for shape in SHAPES:
    for dtype in DTYPES:
        array = (np.arange(np.prod(shape), dtype=np.int64).reshape(shape) % 11).astype(dtype)
        sent(array, SingleDeviceSharding(devices(0)[0]), SingleDeviceSharding(devices(1)[0]))
        if shape and shape[0] % 2 == 0:
            sent(array, divided(1, "x"), divided(0, "x"))
        sent(array, divided(0), divided(1))
print("done")
