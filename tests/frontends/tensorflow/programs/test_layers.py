# SPDX-License-Identifier: Apache-2.0
"""Keras layers in models that are trained by `fit`, compiled beside plain TensorFlow."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from tests.frontends.tensorflow.programs.beside import check, numbers

pytestmark = pytest.mark.slow

ROWS = 40


def trained(jit, make, x, y, loss="mse", optimizer="sgd", epochs=2, **options):
    """Return losses, metrics, evaluation and predictions; the last batch is smaller."""
    model = make()
    model.compile(optimizer, loss, jit_compile=bool(jit), **options)
    history = model.fit(x, y, batch_size=16, epochs=epochs, verbose=0).history
    scores = model.evaluate(x, y, batch_size=16, verbose=0)
    return history, scores, model.predict(x, batch_size=16, verbose=0), model.get_weights()


def sequence_model(*middle, features=6, steps=5):
    return lambda: keras.Sequential([layers.Input((steps, features)), *(m() for m in middle)])


SEQUENCES = {
    "lstm": [lambda: layers.LSTM(8), lambda: layers.Dense(1)],
    "gru": [lambda: layers.GRU(8), lambda: layers.Dense(1)],
    "simple_rnn": [lambda: layers.SimpleRNN(8, return_sequences=True), layers.Flatten,
                   lambda: layers.Dense(1)],
    "stacked_lstm": [lambda: layers.LSTM(8, return_sequences=True), lambda: layers.LSTM(4),
                     lambda: layers.Dense(1)],
    "bidirectional": [lambda: layers.Bidirectional(layers.LSTM(4)), lambda: layers.Dense(1)],
    "unrolled_lstm": [lambda: layers.LSTM(4, unroll=True), lambda: layers.Dense(1)],
    "lstm_dropout": [lambda: layers.LSTM(8, dropout=0.2, recurrent_dropout=0.2),
                     lambda: layers.Dense(1)],
    "masking": [lambda: layers.Masking(), lambda: layers.LSTM(4), lambda: layers.Dense(1)],
    "time_distributed": [lambda: layers.TimeDistributed(layers.Dense(3, "relu")),
                         layers.Flatten, lambda: layers.Dense(1)],
    "global_pooling": [lambda: layers.Dense(4, "gelu"), layers.GlobalAveragePooling1D,
                       lambda: layers.Dense(1)],
    "global_max_pooling": [lambda: layers.Dense(4, "elu"), layers.GlobalMaxPooling1D,
                           lambda: layers.Dense(1)],
    "conv1d": [lambda: layers.Conv1D(4, 3, activation="relu"), layers.GlobalMaxPooling1D,
               lambda: layers.Dense(1)],
}  # fmt: skip


@pytest.mark.parametrize("kind", SEQUENCES)
def test_sequences(kind):
    x = numbers(ROWS, 5, 6)
    if kind == "masking":
        x[::3, 3:] = 0.0
    y = x.sum(axis=(1, 2))[:, None]
    check(lambda jit: trained(jit, sequence_model(*SEQUENCES[kind]), x, y))


def dense_model(*middle, features=8):
    return lambda: keras.Sequential(
        [layers.Input((features,)), layers.Dense(12), *(m() for m in middle), layers.Dense(3)]
    )


DENSE = {
    "batch_normalization": [layers.BatchNormalization, lambda: layers.Activation("relu")],
    "layer_normalization": [layers.LayerNormalization],
    "rms_normalization": [layers.RMSNormalization],
    "group_normalization": [lambda: layers.GroupNormalization(3)],
    "unit_normalization": [layers.UnitNormalization],
    "spectral_normalization": [lambda: layers.SpectralNormalization(layers.Dense(6))],
    "dropout": [lambda: layers.Dropout(0.4)],
    "alpha_dropout": [lambda: layers.AlphaDropout(0.3)],
    "gaussian_noise": [lambda: layers.GaussianNoise(0.3)],
    "gaussian_dropout": [lambda: layers.GaussianDropout(0.3)],
    "prelu": [layers.PReLU],
    "leaky_relu": [layers.LeakyReLU],
    "softmax": [layers.Softmax],
    "reshape": [lambda: layers.Reshape((3, 4)), lambda: layers.Permute((2, 1)), layers.Flatten],
    "repeat": [lambda: layers.RepeatVector(3), layers.Flatten],
    "lambda": [lambda: layers.Lambda(lambda x: keras.ops.sin(x))],
    "l2": [lambda: layers.Dense(6, kernel_regularizer="l2", activity_regularizer="l1")],
    "constraint": [lambda: layers.Dense(6, kernel_constraint=keras.constraints.MaxNorm(0.5))],
}  # fmt: skip


@pytest.mark.parametrize("kind", DENSE)
def test_dense(kind):
    x = numbers(ROWS, 8)
    y = np.argmax(x[:, :3], axis=1)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    check(
        lambda jit: trained(jit, dense_model(*DENSE[kind]), x, y, loss, metrics=["accuracy"]),
        atol=2e-5,
    )


ACTIVATIONS = (
    "relu", "relu6", "elu", "selu", "celu", "gelu", "silu", "swish", "mish", "softplus",
    "softsign", "tanh", "sigmoid", "hard_sigmoid", "hard_silu", "hard_tanh", "exponential",
    "leaky_relu", "log_sigmoid", "log_softmax", "softmax", "tanh_shrink", "soft_shrink",
    "hard_shrink", "squareplus", "glu", "sparse_plus", "linear", "threshold",
)  # fmt: skip


def test_activations():
    def program(jit):
        @tf.function(jit_compile=jit)
        def all_of_them(x):
            found = []
            for name in ACTIVATIONS:
                function = keras.activations.get(name) if name != "threshold" else None
                function = function or (lambda x: keras.ops.threshold(x, 0.5, 0.0))
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    y = function(x)
                found.append((y, tape.gradient(y, x)))
            return found

        return all_of_them(tf.constant(numbers(5, 8) * 3.0))

    check(program)


LOSSES = {
    "mse": 0, "mae": 0, "mape": 0, "msle": 0, "huber": 0, "log_cosh": 0, "cosine_similarity": 0,
    "kl_divergence": 1, "binary_crossentropy": 1, "categorical_crossentropy": 1, "poisson": 1,
    "hinge": 2, "squared_hinge": 2, "categorical_hinge": 1, "binary_focal_crossentropy": 1,
}  # fmt: skip


@pytest.mark.parametrize("loss", LOSSES)
def test_losses(loss):
    x = numbers(24, 8)
    activation = {0: "softplus", 1: "sigmoid", 2: "tanh"}[LOSSES[loss]]
    y = (numbers(24, 3, seed=1) > 0).astype(np.float32)

    def make():
        return keras.Sequential([layers.Input((8,)), layers.Dense(3, activation)])

    check(lambda jit: trained(jit, make, x, y, loss, epochs=1))


METRICS = (
    "accuracy", "binary_accuracy", "mae", "mse", "AUC", "Precision", "Recall", "F1Score",
    "top_k_categorical_accuracy", "cosine_similarity", "RootMeanSquaredError", "BinaryIoU",
    "R2Score", "TruePositives", "SensitivityAtSpecificity",
)  # fmt: skip


@pytest.mark.parametrize("name", METRICS)
def test_metrics(name):
    x = numbers(24, 8)
    y = np.eye(3, dtype=np.float32)[np.argmax(x[:, :3], axis=1)]
    kinds = {"SensitivityAtSpecificity": lambda: keras.metrics.SensitivityAtSpecificity(0.5)}

    def program(jit):
        metric = kinds[name]() if name in kinds else name
        model = keras.Sequential([layers.Input((8,)), layers.Dense(3, "softmax")])
        model.compile("sgd", "mse", metrics=[metric], jit_compile=bool(jit))
        history = model.fit(x, y, batch_size=16, epochs=2, verbose=0).history
        return history, model.evaluate(x, y, batch_size=16, verbose=0)

    check(program)


def test_embedding_and_attention():
    ids = np.random.default_rng(0).integers(1, 20, (ROWS, 6))
    ids[::4, 4:] = 0
    y = (ids.sum(axis=1) % 2).astype(np.float32)[:, None]

    def make():
        inputs = keras.Input((6,), dtype="int32")
        x = layers.Embedding(20, 8, mask_zero=True)(inputs)
        x = x + layers.MultiHeadAttention(2, 4, dropout=0.1)(x, x, use_causal_mask=True)
        x = layers.LayerNormalization()(x)
        x = layers.GlobalAveragePooling1D()(x)
        return keras.Model(inputs, layers.Dense(1, "sigmoid")(x))

    check(lambda jit: trained(jit, make, ids, y, "binary_crossentropy", "adam"))


@pytest.mark.parametrize("kind", ["Attention", "AdditiveAttention", "GroupQueryAttention", "Dot"])
def test_attentions(kind):
    x = numbers(ROWS, 5, 6)
    y = x.sum(axis=(1, 2))[:, None]

    def make():
        inputs = keras.Input((5, 6))
        if kind == "Dot":
            attended = layers.Dot(axes=(2, 2))([inputs, inputs])
        elif kind == "GroupQueryAttention":
            attended = layers.GroupQueryAttention(3, 4, 2)(inputs, inputs)
        else:
            attended = getattr(layers, kind)()([inputs, inputs])
        return keras.Model(inputs, layers.Dense(1)(layers.Flatten()(attended)))

    check(lambda jit: trained(jit, make, x, y))


def test_merging_layers_and_two_inputs():
    first, second = numbers(ROWS, 4), numbers(ROWS, 4, seed=1)
    y = (first * second).sum(axis=1)

    def make():
        a, b = keras.Input((4,)), keras.Input((4,))
        merged = [
            layers.Add()([a, b]), layers.Subtract()([a, b]), layers.Multiply()([a, b]),
            layers.Average()([a, b]), layers.Maximum()([a, b]), layers.Minimum()([a, b]),
        ]  # fmt: skip
        return keras.Model([a, b], layers.Dense(1)(layers.Concatenate()(merged)))

    check(lambda jit: trained(jit, make, [first, second], y))


def test_image_layers():
    x = numbers(20, 8, 8, 2)
    y = x.sum(axis=(1, 2, 3))[:, None]

    def make():
        return keras.Sequential(
            [
                layers.Input((8, 8, 2)),
                layers.Rescaling(0.5),
                layers.ZeroPadding2D(1),
                layers.Cropping2D(1),
                layers.Conv2D(4, 3, activation="relu", padding="same"),
                layers.BatchNormalization(),
                layers.MaxPooling2D(),
                layers.Conv2D(4, 3, strides=2),
                layers.UpSampling2D(),
                layers.Flatten(),
                layers.Dense(1),
            ]
        )

    check(lambda jit: trained(jit, make, x, y), atol=1e-4)
