# SPDX-License-Identifier: Apache-2.0
"""Training programs as TensorFlow's tutorials write them, with `jit_compile=True` on the step."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from tests.frontends.tensorflow.programs.beside import check, numbers

import digits

pytestmark = pytest.mark.slow


def test_linear_regression_from_scratch():
    def program(jit):
        x = tf.linspace(-2.0, 2.0, 201)
        y = x**2 + 2 * x - 5 + tf.random.stateless_normal(x.shape, seed=[1, 2])

        class Model(tf.Module):
            def __init__(self):
                rand = tf.random.stateless_uniform([3], [3, 4], minval=0.0, maxval=5.0)
                self.w_q = tf.Variable(rand[0])
                self.w_l = tf.Variable(rand[1])
                self.b = tf.Variable(rand[2])

            @tf.function(jit_compile=jit)
            def __call__(self, x):
                return self.w_q * (x**2) + self.w_l * x + self.b

        model = Model()
        dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(201, seed=1).batch(32)
        losses = []
        for _ in range(5):
            for x_batch, y_batch in dataset:
                with tf.GradientTape() as tape:
                    batch_loss = tf.reduce_mean(tf.square(model(x_batch) - y_batch))
                grads = tape.gradient(batch_loss, model.variables)
                for g, v in zip(grads, model.variables, strict=True):
                    v.assign_sub(0.01 * g)
            losses.append(tf.reduce_mean(tf.square(model(x) - y)))
        return losses, model.variables

    check(program)


def test_logistic_regression_core_apis():
    def program(jit):
        data = digits.load()
        x, y = data.train_images, (data.train_labels % 2).astype(np.float32)

        class Normalize(tf.Module):
            def __init__(self, x):
                self.mean = tf.Variable(tf.math.reduce_mean(x, axis=0))
                self.std = tf.Variable(tf.math.reduce_std(x, axis=0) + 1e-3)

            def norm(self, x):
                return (x - self.mean) / self.std

        norm = Normalize(x)

        class LogisticRegression(tf.Module):
            def __init__(self):
                self.built = False

            @tf.function(jit_compile=jit)
            def __call__(self, x, train=True):
                if not self.built:
                    rand_w = tf.random.stateless_uniform([x.shape[-1], 1], [1, 1]) * 0.1
                    self.w = tf.Variable(rand_w)
                    self.b = tf.Variable(tf.zeros([]))
                    self.built = True
                z = tf.squeeze(tf.add(tf.matmul(norm.norm(x), self.w), self.b), axis=1)
                return z if train else tf.sigmoid(z)

        model = LogisticRegression()
        losses = []
        for _ in range(5):
            for start in range(0, 512, 64):
                xs, ys = x[start : start + 64], y[start : start + 64]
                with tf.GradientTape() as tape:
                    ce = tf.nn.sigmoid_cross_entropy_with_logits(labels=ys, logits=model(xs))
                    loss = tf.reduce_mean(ce)
                grads = tape.gradient(loss, model.variables)
                for g, v in zip(grads, model.variables, strict=True):
                    v.assign_sub(0.1 * g)
            losses.append(loss)
        return losses, model(x[:50], train=False)

    check(program)


def test_custom_training_loop_with_metrics():
    """The guide "Writing a training loop from scratch"."""

    def program(jit):
        data = digits.load()
        inputs = keras.Input(shape=(64,), name="digits")
        x1 = layers.Dense(64, activation="relu")(inputs)
        x2 = layers.Dense(64, activation="relu")(x1)
        model = keras.Model(inputs=inputs, outputs=layers.Dense(10, name="predictions")(x2))
        optimizer = keras.optimizers.SGD(learning_rate=1e-1)
        optimizer.build(model.trainable_variables)
        loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        train_acc = keras.metrics.SparseCategoricalAccuracy()
        val_acc = keras.metrics.SparseCategoricalAccuracy()

        @tf.function(jit_compile=jit)
        def train_step(x, y):
            with tf.GradientTape() as tape:
                logits = model(x, training=True)
                loss_value = loss_fn(y, logits)
            grads = tape.gradient(loss_value, model.trainable_weights)
            optimizer.apply_gradients(zip(grads, model.trainable_weights, strict=True))
            train_acc.update_state(y, logits)
            return loss_value

        @tf.function(jit_compile=jit)
        def test_step(x, y):
            val_acc.update_state(y, model(x, training=False))

        train = tf.data.Dataset.from_tensor_slices((data.train_images, data.train_labels))
        train = train.shuffle(1024, seed=3).batch(64).take(10)
        test = tf.data.Dataset.from_tensor_slices((data.test_images, data.test_labels)).batch(64)
        found = []
        for _ in range(2):
            found.extend(train_step(x, y) for x, y in train)
            found.append(train_acc.result())
            train_acc.reset_state()
            for x, y in test:
                test_step(x, y)
            found.append(val_acc.result())
            val_acc.reset_state()
        return found

    check(program)


def test_mnist_beginner():
    """The very first tutorial."""

    def program(jit):
        data = digits.load()
        model = keras.models.Sequential(
            [
                layers.Input((8, 8)),
                layers.Flatten(),
                layers.Dense(32, activation="relu"),
                layers.Dropout(0.2),
                layers.Dense(10),
            ]
        )
        loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss_fn, metrics=["accuracy"], jit_compile=bool(jit))
        images = data.train_images.reshape(-1, 8, 8)[:500]
        history = model.fit(images, data.train_labels[:500], epochs=2, verbose=0).history
        probability_model = keras.Sequential([model, layers.Softmax()])
        tests = data.test_images.reshape(-1, 8, 8)
        return (
            history,
            probability_model(tests[:5]),
            model.evaluate(tests, data.test_labels, verbose=0),
        )

    check(program)


def test_convolutional_network():
    def program(jit):
        data = digits.load()
        model = keras.models.Sequential(
            [
                layers.Input((8, 8, 1)),
                layers.Conv2D(8, (3, 3), activation="relu"),
                layers.MaxPooling2D((2, 2)),
                layers.Conv2D(8, (3, 3), activation="relu", padding="same"),
                layers.Flatten(),
                layers.Dense(10),
            ]
        )
        loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss_fn, metrics=["accuracy"], jit_compile=bool(jit))
        images = data.train_images.reshape(-1, 8, 8, 1)[:200]
        return model.fit(images, data.train_labels[:200], epochs=2, verbose=0).history

    check(program)


def test_matrix_factorisation():
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 20, 200), rng.integers(0, 15, 200)
    ratings = rng.uniform(1, 5, 200).astype(np.float32)

    def program(jit):
        user_table, item_table = (
            tf.Variable(numbers(20, 4) * 0.1),
            tf.Variable(numbers(15, 4) * 0.1),
        )
        optimizer = keras.optimizers.Adagrad(0.1)
        optimizer.build([user_table, item_table])

        @tf.function(jit_compile=jit)
        def step(users, items, ratings):
            with tf.GradientTape() as tape:
                u, v = tf.gather(user_table, users), tf.gather(item_table, items)
                error = tf.reduce_sum(u * v, axis=1) + 3.0 - ratings
                penalty = tf.nn.l2_loss(user_table) + tf.nn.l2_loss(item_table)
                loss = tf.reduce_mean(error**2) + 0.01 * penalty
            grads = tape.gradient(loss, [user_table, item_table])
            optimizer.apply_gradients(zip(grads, [user_table, item_table], strict=True))
            return tf.sqrt(loss)

        return [step(users, items, ratings) for _ in range(10)], user_table

    check(program)
