# SPDX-License-Identifier: Apache-2.0
"""The programs of the demo, as a worker runs them: the examples, with compilation on or off."""

from __future__ import annotations

import time
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import digits
import fused_reduce
import keras_mlp
import training_step
from demo_parts.measured import Outcome


class Program:
    """A function that is traced, called and timed."""

    function: Any
    arguments: Any
    concrete: Any = None

    def first_call(self) -> dict[str, float]:
        """Trace, then call for the first time; return the seconds of both."""
        start = time.perf_counter()
        self.concrete = self.function.get_concrete_function(*self.arguments)
        traced = time.perf_counter()
        self.function(*self.arguments)
        return {"trace": traced - start, "first": time.perf_counter() - traced}

    def step(self) -> None:
        """Call the function once; on CPU it has run when the call returns."""
        self.function(*self.arguments)


class FusedReduce(Program):
    """`reduce_sum(x + y * z)` over a million numbers."""

    def __init__(self, compiled: bool) -> None:
        python_function = fused_reduce.fused_reduce.python_function
        self.function = tf.function(python_function, jit_compile=compiled)
        self.arguments = fused_reduce.inputs()

    def train(self) -> Outcome:
        """Compare with double precision."""
        x, y, z = (value.numpy().astype(np.float64) for value in self.arguments)
        exact = (x + y * z).sum()
        return Outcome(abs(float(self.function(*self.arguments)) / exact - 1))


class TrainingStep(Program):
    """Forward, loss, gradients and Adam in one function."""

    def __init__(self, compiled: bool) -> None:
        self._compiled = compiled
        data = digits.load()
        network = training_step.Network()
        optimizer = keras.optimizers.Adam(learning_rate=0.003)
        optimizer.build(network.variables)
        self.function = training_step.make_train_step(network, optimizer, compiled)
        self.arguments = next(iter(training_step.batches(data, 1)))

    def train(self) -> Outcome:
        """Train as the example does and read the held-out digits."""
        start = time.perf_counter()
        network, losses = training_step.train(jit_compile=self._compiled)
        seconds = time.perf_counter() - start
        data = digits.load()
        quality = training_step.accuracy(network, data.test_images, data.test_labels)
        return Outcome(quality, losses, seconds)


class KerasMlp(Program):
    """One training step of the Keras model, as `fit` runs it."""

    def __init__(self, compiled: bool) -> None:
        self._compiled = compiled
        self._data = data = digits.load()
        model = keras_mlp.make_model(compiled)
        images = tf.constant(data.train_images[: keras_mlp.BATCH])
        labels = tf.constant(data.train_labels[: keras_mlp.BATCH])
        # `fit` does these two before its first step.
        model._symbolic_build(data_batch=(images, labels))
        model.make_train_function()
        self.function = tf.function(lambda *batch: model.train_function([batch]))
        self.arguments = (images, labels)

    def train(self) -> Outcome:
        """Fit and evaluate as the example does."""
        losses: list[float] = []
        keep = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda _, logs: losses.append(float(logs["loss"]))
        )
        start = time.perf_counter()
        model, data = keras_mlp.make_model(self._compiled), self._data
        sizes = {"batch_size": keras_mlp.BATCH, "verbose": 0}
        epochs = keras_mlp.EPOCHS
        model.fit(data.train_images, data.train_labels, epochs=epochs, callbacks=[keep], **sizes)
        _, quality = model.evaluate(data.test_images, data.test_labels, **sizes)
        return Outcome(float(quality), losses, time.perf_counter() - start)


PROGRAMS: dict[str, type[Program]] = {
    "fused_reduce": FusedReduce,
    "training_step": TrainingStep,
    "keras_mlp": KerasMlp,
}
