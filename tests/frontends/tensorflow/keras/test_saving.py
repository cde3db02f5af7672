# SPDX-License-Identifier: Apache-2.0
"""Keras models that are trained, saved and loaded again: compiled beside plain TensorFlow.

They are saved compiled and loaded plain.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.programs.beside import check

pytestmark = pytest.mark.slow

X = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


def made(jit, **options):
    model = keras.Sequential(
        [
            keras.layers.Input((6,)),
            keras.layers.Dense(5, "relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse", metrics=["mae"], jit_compile=bool(jit), **options)
    return model


def trained(model, **options):
    history = model.fit(X, Y, batch_size=8, epochs=2, verbose=0, **options).history
    scores = model.evaluate(X, Y, batch_size=8, verbose=0)
    return history, scores, model.predict(X, batch_size=8, verbose=0)


def _whole(model, path, jit):
    model.save(path / "model.keras")
    loaded = keras.models.load_model(path / "model.keras")
    loaded.jit_compile = bool(jit)
    return loaded


@pytest.mark.parametrize(("way", "first"), [(_whole, True)])
def test_a_trained_model_is_loaded_and_trained_on(way, first, tmp_path):
    def program(jit):
        model = made(jit and first)
        before = trained(model)
        loaded = way(model, tmp_path, jit and not first)
        return before, loaded.predict(X, verbose=0), trained(loaded)

    check(program)


@pytest.mark.parametrize("first", [True])
def test_an_exported_model_is_a_layer(first, tmp_path):
    def program(jit):
        model = made(jit and first)
        trained(model)
        model.export(str(tmp_path / "model"), verbose=False)
        layer = keras.layers.TFSMLayer(str(tmp_path / "model"), call_endpoint="serve")
        call = tf.function(lambda x: layer(x), jit_compile=jit and not first)
        return model.predict(X, verbose=0), call(tf.constant(X))

    check(program)
