# SPDX-License-Identifier: Apache-2.0
"""Convolutional Keras models compiled by Ingot train as TensorFlow's own graphs do."""

import keras
import numpy as np
import pytest

from ingot.frontends.tensorflow import hook

IMAGES = np.random.default_rng(0).random((40, 8, 8, 3), np.float32)
LABELS = np.arange(40) % 5


@pytest.fixture
def enabled():
    hook.disable()
    hook.enable()
    yield
    hook.disable()


def plain():
    return [
        keras.layers.Conv2D(8, 3, padding="same", activation="relu"),
        keras.layers.MaxPooling2D(2),
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dropout(0.3),
        keras.layers.Dense(5),
    ]


def mobile():
    """Strides, depthwise and transposed convolutions, overlapping pools, batch normalization."""
    return [
        keras.layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False),
        keras.layers.BatchNormalization(),
        keras.layers.ReLU(),
        keras.layers.DepthwiseConv2D(3, padding="same"),
        keras.layers.MaxPooling2D(3, strides=1, padding="same"),
        keras.layers.Conv2DTranspose(6, 3, strides=2, padding="same", dilation_rate=1),
        keras.layers.AveragePooling2D(2),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(5),
    ]


def train(layers, jit_compile):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((8, 8, 3)), *layers()])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1, 0.9), loss, jit_compile=jit_compile)
    # 40 images in batches of 16: the last batch is smaller.
    history = model.fit(IMAGES, LABELS, batch_size=16, epochs=3, verbose=0, shuffle=False).history
    return [*history["loss"], model.evaluate(IMAGES, LABELS, batch_size=16, verbose=0)]


@pytest.mark.parametrize("layers", [plain, pytest.param(mobile, marks=pytest.mark.slow)])
def test_training(enabled, layers):
    np.testing.assert_allclose(train(layers, True), train(layers, False), rtol=1e-4)
