# SPDX-License-Identifier: Apache-2.0
"""Optimizers, schedules, clipping, precision policies, callbacks and custom training steps."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from tests.frontends.tensorflow.programs.beside import check, compilations_of, numbers

pytestmark = pytest.mark.slow


X = numbers(40, 8)
Y = np.argmax(X[:, :3], axis=1)


def make(**options):
    return keras.Sequential(
        [layers.Input((8,)), layers.Dense(12, "relu", **options), layers.Dense(3, **options)]
    )


def fitted(jit, optimizer, **options):
    model = make()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, jit_compile=bool(jit), metrics=["accuracy"])
    history = model.fit(X, Y, batch_size=16, epochs=3, verbose=0, **options).history
    return history, model.get_weights(), model.evaluate(X, Y, verbose=0)


OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "nesterov": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "adam": lambda: keras.optimizers.Adam(0.01),
    "amsgrad": lambda: keras.optimizers.Adam(0.01, amsgrad=True),
    "adamw": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.01),
    "adamax": lambda: keras.optimizers.Adamax(0.01),
    "nadam": lambda: keras.optimizers.Nadam(0.01),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.01, momentum=0.5, centered=True),
    "adagrad": lambda: keras.optimizers.Adagrad(0.1),
    "adadelta": lambda: keras.optimizers.Adadelta(1.0),
    "ftrl": lambda: keras.optimizers.Ftrl(0.1, l1_regularization_strength=0.001),
    "lion": lambda: keras.optimizers.Lion(0.01),
    "lamb": lambda: keras.optimizers.Lamb(0.01),
    "muon": lambda: keras.optimizers.Muon(0.01),
    "adafactor": lambda: keras.optimizers.Adafactor(0.01),
    "clipnorm": lambda: keras.optimizers.SGD(1.0, clipnorm=0.1),
    "clipvalue": lambda: keras.optimizers.SGD(1.0, clipvalue=0.01),
    "global_clipnorm": lambda: keras.optimizers.Adam(0.1, global_clipnorm=0.1),
    "averaged": lambda: keras.optimizers.Adam(0.01, use_ema=True, ema_overwrite_frequency=3),
    "accumulated": lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
    # Lion takes the sign of a number that may be rounding alone.
    check(lambda jit: fitted(jit, OPTIMIZERS[name]()), atol=5e-5 if name != "muon" else 1e-3)


schedules = keras.optimizers.schedules
SCHEDULES = {
    "exponential": lambda: schedules.ExponentialDecay(0.1, 3, 0.9, staircase=True),
    "cosine": lambda: schedules.CosineDecay(0.1, 10, warmup_target=0.2, warmup_steps=3),
    "cosine_restarts": lambda: schedules.CosineDecayRestarts(0.1, 3),
    "piecewise": lambda: schedules.PiecewiseConstantDecay([2, 5], [0.1, 0.05, 0.01]),
    "polynomial": lambda: schedules.PolynomialDecay(0.1, 5, 0.01, power=2.0, cycle=True),
    "inverse_time": lambda: schedules.InverseTimeDecay(0.1, 2, 0.5),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name):
    check(lambda jit: fitted(jit, keras.optimizers.SGD(SCHEDULES[name]())))


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "bfloat16", "float64"])
def test_precision_policies(policy):
    def program(jit):
        keras.config.set_dtype_policy(policy)
        try:
            return fitted(jit, "adam")[0]["loss"]
        finally:
            keras.config.set_dtype_policy("float32")

    # Plain TensorFlow rounds every intermediate to 8 or 11 bits.
    check(program, rtol=1e-6 if policy == "float64" else 2e-2)


def test_callbacks(tmp_path):
    def program(jit):
        path = str(tmp_path / f"{jit}.weights.h5")
        callbacks = [
            keras.callbacks.EarlyStopping("val_loss", patience=1, restore_best_weights=True),
            keras.callbacks.ModelCheckpoint(path, save_weights_only=True, save_best_only=True),
            keras.callbacks.ReduceLROnPlateau("val_loss", factor=0.5, patience=1, min_delta=1.0),
            keras.callbacks.TerminateOnNaN(),
        ]
        found = fitted(jit, "adam", callbacks=callbacks, validation_data=(X[:7], Y[:7]))
        model = make()
        model.load_weights(path)
        return found, model.predict(X[:3], verbose=0)

    check(program)


def test_a_learning_rate_that_is_changed_between_steps(compiled):
    def program(jit):
        scheduler = keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1))
        return fitted(jit, "sgd", callbacks=[scheduler])

    check(program)
    assert len(compilations_of("one_step_on_data")) == 2  # the training step, the evaluation step


def test_sample_and_class_weights_and_validation():
    weights = np.abs(numbers(40))

    def program(jit):
        options = {"sample_weight": weights, "validation_split": 0.25}
        return (
            fitted(jit, "adam", **options),
            fitted(jit, "adam", class_weight={0: 1.0, 1: 2.0, 2: 0.5}),
        )

    check(program)


def test_steps_per_execution_and_datasets():
    def program(jit):
        model = make()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss, jit_compile=bool(jit), steps_per_execution=3)
        data = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(40, seed=1).batch(8).repeat(2)
        history = model.fit(data, epochs=2, verbose=0).history
        return history, model.train_on_batch(X[:5], Y[:5]), model.test_on_batch(X[:3], Y[:3])

    check(program)


def test_a_custom_train_step():
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden, self.out = layers.Dense(8, "tanh"), layers.Dense(3)
            self.tracker = keras.metrics.Mean(name="loss")

        def call(self, x, training=False):
            return self.out(self.hidden(x))

        @property
        def metrics(self):
            return [self.tracker]

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, self(x, training=True))
                loss = tf.reduce_mean(losses)
            gradients = tape.gradient(loss, self.trainable_variables)
            gradients, _ = tf.clip_by_global_norm(gradients, 0.5)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            self.tracker.update_state(loss)
            return {"loss": self.tracker.result(), "norm": tf.linalg.global_norm(gradients)}

    def program(jit):
        model = Model()
        model.compile("adam", jit_compile=bool(jit))
        return model.fit(X, Y, batch_size=16, epochs=2, verbose=0).history

    check(program)


def test_a_frozen_layer_and_an_added_loss():
    class Penalty(layers.Layer):
        def call(self, x):
            self.add_loss(0.1 * keras.ops.mean(keras.ops.square(x)))
            return x

    def program(jit):
        model = keras.Sequential(
            [layers.Input((8,)), layers.Dense(6), Penalty(), layers.BatchNormalization(),
             layers.Dense(3)]
        )  # fmt: skip
        model.layers[0].trainable = False
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss, jit_compile=bool(jit))
        history = model.fit(X, Y, batch_size=16, epochs=2, verbose=0).history
        return history, model.get_weights()

    check(program)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["RMSprop", "Adagrad", "Adadelta", "Adafactor", "Nadam", "Ftrl"])
def test_sparse_gradients_of_an_embedding(name):
    """Keras divides a sparse gradient by a dense slot: its union of indices has no fixed size."""
    words = np.random.default_rng(0).integers(0, 50, (32, 5))
    targets = np.random.default_rng(1).random((32, 1)).astype(np.float32)

    def program(jit):
        layers = keras.layers
        model = keras.Sequential([layers.Embedding(50, 8), layers.Flatten(), layers.Dense(1)])
        optimizer = getattr(keras.optimizers, name)(0.01)
        model.compile(optimizer, loss="mse", jit_compile=bool(jit))
        model.fit(words, targets, batch_size=16, epochs=2, verbose=0, shuffle=False)
        return model.get_weights()

    check(program)


@pytest.mark.slow
def test_a_sparse_gradient_is_divided_by_zeros_and_nan():
    """The branch that the data decides to take: more rows come out than the gradient has."""

    def program(jit):
        @tf.function(jit_compile=jit)
        def divide(indices, values, slots):
            given = tf.IndexedSlices(values, indices, tf.shape(slots, tf.int64))
            found = keras.ops.divide(given, slots)
            return tf.convert_to_tensor(found), tf.gradients(tf.convert_to_tensor(found), slots)

        random = np.random.default_rng(0)
        indices = tf.constant([7, 2, 5, 2, 40], tf.int64)
        values = tf.constant(random.normal(size=(5, 3)), tf.float32)
        slots = random.normal(size=(50, 3)).astype(np.float32)
        results = [divide(indices, values, slots)]
        slots[3, 1], slots[7, 2], slots[7, 1] = 0, 0, np.nan
        results.append(divide(indices, values, slots))
        return results

    check(program)
