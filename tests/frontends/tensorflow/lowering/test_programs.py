# SPDX-License-Identifier: Apache-2.0
"""Whole programs: training steps with dropout and Adam give TensorFlow's losses and variables."""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from tests.frontends.tensorflow.lowering.checking import check, numbers

sys.path.insert(0, str(Path(__file__).parents[4] / "examples"))
import control_flow
import keras_mlp
import shapes
import training_step

IMAGES = np.abs(numbers(7, 64))
LABELS = np.arange(7, dtype=np.int64) % 10
OPEN = [tf.TensorSpec([None, 64]), tf.TensorSpec([None], tf.int64)]


def test_the_classic_training_step():
    network = training_step.Network()
    optimizer = tf.keras.optimizers.Adam(0.003)
    optimizer.build(network.variables)
    step = training_step.make_train_step(network, optimizer, jit_compile=False)
    program = check(step.python_function, IMAGES, LABELS, specs=OPEN, tolerance=1e-5)
    images, labels = program.lowered.module.parameter_shapes[:2]
    assert images.dims[0] == labels.dims[0]
    for batch in (3, 7):
        (loss,), _ = program.evaluate([IMAGES[:batch], LABELS[:batch]])
        wanted = program.concrete(tf.constant(IMAGES[:batch]), tf.constant(LABELS[:batch]))
        np.testing.assert_allclose(loss, wanted, rtol=1e-5)


def test_keras_training_with_dropout_gives_the_same_losses():
    model = keras_mlp.make_model(jit_compile=False)
    model.optimizer.build(model.trainable_variables)
    model.train_on_batch(IMAGES, LABELS)  # makes the metrics' variables

    def step(x, y):
        return model.train_step((x, y))

    for _ in range(3):
        check(step, IMAGES, LABELS, specs=OPEN, tolerance=1e-5)


def test_keras_evaluation_and_prediction():
    model = keras_mlp.make_model(jit_compile=False)
    model.evaluate(IMAGES, LABELS, verbose=0)
    check(lambda x, y: model.test_step((x, y)), IMAGES, LABELS, specs=OPEN, tolerance=1e-5)
    check(lambda x: model(x, training=False), IMAGES, specs=OPEN[:1], tolerance=1e-5)


def test_keras_layers_with_normalisation_and_embedding():
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input([5], dtype="int32"),
            keras.layers.Embedding(11, 8),
            keras.layers.LayerNormalization(),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(6, activation="gelu"),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile(optimizer="sgd", loss="sparse_categorical_crossentropy")
    tokens = np.arange(20, dtype=np.int32).reshape(4, 5) % 11
    labels = np.array([0, 1, 2, 0])
    model.train_on_batch(tokens, labels)
    check(lambda x, y: model.train_step((x, y)), tokens, labels, tolerance=1e-4)


def test_a_keras_recurrent_layer():
    keras.utils.set_random_seed(2)
    layer = keras.layers.LSTM(4)
    x = numbers(3, 5, 2)
    layer(x)
    check(lambda x: layer(x), x, tolerance=1e-5)


def test_the_examples_with_loops_and_open_shapes():
    matrix = np.float32([[4, 1, 0], [1, 3, 1], [0, 1, 2]])
    check(
        lambda m, t: control_flow.largest_eigenvalue.python_function(m, t)[0],
        matrix, np.float32(1e-2), tolerance=1e-2, autograph=True,
    )  # fmt: skip
    for limit in (1.0, 10.0):
        check(
            control_flow.clip_by_norm.python_function, np.float32([3, 4]), np.float32(limit),
            autograph=True,
        )  # fmt: skip
    check(shapes.normalise, numbers(5, 16), specs=[tf.TensorSpec([None, 16])], tolerance=1e-5)
