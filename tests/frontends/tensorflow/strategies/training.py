# SPDX-License-Identifier: Apache-2.0
"""A process of a strategy: trains plain and compiled by Ingot, and prints both as JSON.

python -m tests.frontends.tensorflow.strategies.training devices
python -m tests.frontends.tensorflow.strategies.training workers 0 23451 23452
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np


def numbers(*sizes: int) -> np.ndarray:
    return np.random.RandomState(len(sizes)).normal(size=sizes).astype(np.float32)


def dataset(tf: Any) -> Any:
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    data = tf.data.Dataset.from_tensor_slices((numbers(16, 3), numbers(16, 3)[:, :2] * 0.5))
    return data.batch(8).with_options(options)


def losses(tf: Any, strategy: Any, *, compiled: bool) -> list[float]:
    """Train with a loop of one's own: gradients are summed inside of the compiled function."""
    with strategy.scope():
        mean = tf.VariableAggregation.MEAN
        weights = tf.Variable(tf.ones([3, 2]) * 0.1, aggregation=mean)
    data = strategy.experimental_distribute_dataset(dataset(tf))

    @tf.function(jit_compile=compiled)
    def replica(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.matmul(x, weights) - y) ** 2)
        gradient = tape.gradient(loss, weights)
        gradient = tf.distribute.get_replica_context().all_reduce("mean", gradient)
        weights.assign_sub(0.1 * gradient)
        return loss

    @tf.function
    def step(x: Any, y: Any) -> Any:
        return strategy.reduce("mean", strategy.run(replica, args=(x, y)), axis=None)

    return [float(step(*batch)) for _ in range(2) for batch in data]


def epochs(tf: Any, strategy: Any, *, compiled: bool) -> list[float]:
    """Train with the whole epoch compiled: each device has an iterator, and the last batch no half.

    So the loop over batches, and the branches around each step, take handles of all devices.
    """
    with strategy.scope():
        mean = tf.VariableAggregation.MEAN
        weights = tf.Variable(tf.ones([3, 1]), aggregation=mean)
    data = tf.data.Dataset.from_tensor_slices(numbers(9, 3)).batch(4)
    batches = strategy.experimental_distribute_dataset(data)

    def replica(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.matmul(x, weights) ** 2)
        gradient = tape.gradient(loss, weights)
        weights.assign_sub(0.01 * tf.distribute.get_replica_context().all_reduce("sum", gradient))
        return loss

    @tf.function(jit_compile=compiled)
    def epoch() -> Any:
        total = tf.constant(0.0)
        for x in batches:
            total += strategy.reduce("sum", strategy.run(replica, args=(x,)), axis=None)
        return total

    return [float(epoch()) for _ in range(2)]


def fitted(tf: Any, strategy: Any, *, compiled: bool) -> list[float]:
    """Train with Keras."""
    tf.keras.utils.set_random_seed(1)
    with strategy.scope():
        layers = [tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(2)]
        model = tf.keras.Sequential(layers)
        model.compile("adam", "mse", jit_compile=compiled)
    return model.fit(dataset(tf), epochs=2, verbose=0).history["loss"]


def on_devices(tf: Any) -> dict[str, tuple[Any, bool]]:
    """Return strategies over two devices, and whether replicas sum gradients."""
    import keras

    cpu = tf.config.list_physical_devices("CPU")[0]
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, two)
    devices, distribute = ["CPU:0", "CPU:1"], tf.distribute
    central = distribute.experimental.CentralStorageStrategy
    assert keras.__version__ >= "3"
    return {
        "mirrored": (distribute.MirroredStrategy(devices), True),
        "one": (distribute.OneDeviceStrategy("CPU:1"), True),
        "central": (central(devices, parameter_device="CPU:0"), False),
    }


def main(kind: str, index: int = 0, *ports: int) -> None:
    """Print `{strategy: {loop: [plain, compiled]}}` and the number of compiled programs."""
    if kind == "workers":
        workers = {"worker": [f"127.0.0.1:{port}" for port in ports]}
        task = {"cluster": workers, "task": {"type": "worker", "index": index}}
        os.environ["TF_CONFIG"] = json.dumps(task)
    import tensorflow as tf

    import ingot.tensorflow

    # Keras 3 knows MultiWorkerMirroredStrategy as little with TensorFlow alone.
    ways: list[tuple[str, Any, list[Callable[..., list[float]]]]] = (
        [("workers", tf.distribute.MultiWorkerMirroredStrategy(), [losses])]
        if kind == "workers"
        else [
            (name, strategy, [losses, epochs, fitted] if sums else [fitted])
            for name, (strategy, sums) in on_devices(tf).items()
        ]
    )
    found: dict[str, Any] = {}
    for name, strategy, trainings in ways:
        for train in trainings:
            rows = []
            for compiled in (False, True):
                if compiled:
                    ingot.tensorflow.enable()
                rows.append(train(tf, strategy, compiled=compiled))
                ingot.tensorflow.disable()
            found[f"{name} {train.__name__}"] = rows
    programs = len(ingot.tensorflow.executables())
    print(json.dumps({"losses": found, "programs": programs}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
