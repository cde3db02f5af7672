# SPDX-License-Identifier: Apache-2.0
"""Keras with jit_compile=True, through the real lowering and compiler, beside eager TensorFlow."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ingot.frontends.tensorflow import hook
from ingot.frontends.tensorflow.functions.replacement import live_replacements

X = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


@pytest.fixture
def enabled():
    hook.disable()
    hook.enable()
    yield
    hook.disable()


def train(jit_compile, **options):
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [keras.layers.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(1)]
    )
    model.compile("adam", "mse", metrics=["mae"], jit_compile=jit_compile, **options)
    # 40 rows in batches of 16: the last batch is smaller.
    history = model.fit(X, Y, batch_size=16, epochs=2, verbose=0, shuffle=False).history
    scores = model.evaluate(X, Y, batch_size=16, verbose=0)
    return history["loss"] + history["mae"] + scores, model.predict(X, verbose=0, batch_size=32)


@pytest.mark.parametrize(
    "options", [{}, pytest.param({"steps_per_execution": 2}, marks=pytest.mark.slow)]
)
def test_fit_evaluate_predict(enabled, options):
    scores, predictions = train(True, **options)
    programs = [program for item in live_replacements() for program in item.programs]
    names = [program.function.name for program in programs if program.launch.variants]
    assert any("one_step" in name for name in names)
    wanted_scores, wanted_predictions = train(False, **options)
    np.testing.assert_allclose(scores, wanted_scores, rtol=1e-5)
    np.testing.assert_allclose(predictions, wanted_predictions, rtol=1e-4, atol=1e-5)


def test_a_training_loop_with_tapes_outside(enabled):
    def losses(jit_compile):
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(4, "tanh")])
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9)

        @tf.function(jit_compile=jit_compile)
        def loss_of(x):
            return tf.reduce_mean(tf.square(model(x) - 1.0))

        found = []
        for _ in range(4):
            with tf.GradientTape() as tape:
                loss = loss_of(tf.constant(X))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            found.append(float(loss))
        return found

    np.testing.assert_allclose(losses(True), losses(None), rtol=1e-5)


def test_a_keras_model_is_exported_with_its_own_ops(enabled, tmp_path):
    model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse", jit_compile=True)
    expected = model.predict(X, verbose=0)
    model.export(str(tmp_path / "model"), verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    np.testing.assert_allclose(loaded.serve(X), expected, rtol=1e-5)
