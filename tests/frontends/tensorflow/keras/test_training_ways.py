# SPDX-License-Identifier: Apache-2.0
"""Ways to train a Keras model other than a plain `fit`: compiled beside plain TensorFlow.

One model for all of them, small, for each is a compilation of its own.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.programs.beside import check

pytestmark = pytest.mark.slow

X = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


class OwnStep(keras.Model):
    """A model with a training step of its own."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(x, training=True) - y) ** 2)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


def made(jit, optimizer="adam", **options):
    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)]
    )
    model.compile(optimizer, "mse", jit_compile=bool(jit), **options)
    return model


def fitted(model, **options):
    history = model.fit(X, Y, batch_size=10, epochs=2, verbose=0, **options).history
    return history, model.get_weights()


def test_callbacks_that_change_the_optimizer_and_the_weights(tmp_path):
    def program(jit):
        callbacks = keras.callbacks
        best = callbacks.ModelCheckpoint(tmp_path / "best.keras", "loss", save_best_only=True)
        halved = callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5)
        optimizer = keras.optimizers.Adam(0.01, use_ema=True)
        model = made(jit, optimizer)
        found = fitted(model, callbacks=[best, halved, callbacks.SwapEMAWeights()])
        return found, keras.models.load_model(tmp_path / "best.keras").get_weights()

    check(program)


def test_several_steps_in_one_execution():
    check(lambda jit: fitted(made(jit, steps_per_execution=2)))


def test_a_training_step_of_its_own():
    def program(jit):
        model = OwnStep()
        model.compile("sgd", jit_compile=bool(jit))
        return fitted(model)

    check(program)


def test_mixed_precision_batch_by_batch():
    def program(jit):
        keras.config.set_dtype_policy("mixed_bfloat16")
        model = made(jit)
        steps = [model.train_on_batch(X[:8], Y[:8]) for _ in range(3)]
        return steps, model.test_on_batch(X, Y), model.get_weights()

    kept = keras.config.dtype_policy()
    try:
        check(program, 0.05, 0.05)
    finally:
        keras.config.set_dtype_policy(kept)


def test_weights_trained_plain_are_loaded_and_trained_on_compiled(tmp_path):
    def program(jit):
        model = made(False)
        before = fitted(model)
        saved = tf.train.Checkpoint(model=model).save(str(tmp_path / "checkpoint"))
        loaded = made(jit)
        tf.train.Checkpoint(model=loaded).restore(saved).expect_partial()
        return before, fitted(loaded)

    check(program)
