# SPDX-License-Identifier: Apache-2.0
"""Gradients: tapes inside, outside, persistent, nested; tf.gradients; custom gradients."""

import keras
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.programs.beside import COMPILED, check, numbers


def loss_function(jit):
    w = tf.Variable(numbers(4, 3))

    @tf.function(jit_compile=jit)
    def loss(x):
        return tf.reduce_mean(tf.square(tf.nn.tanh(x @ w) - 0.5))

    return w, loss


def test_tape_outside():
    def program(jit):
        w, loss = loss_function(jit)
        x = tf.constant(numbers(5, 4))
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = loss(x) * 3.0 + tf.reduce_sum(w)
        return value, tape.gradient(value, [x, w])

    check(program)


def test_persistent_tape_inside_and_outside():
    def program(jit):
        w, loss = loss_function(jit)
        x = tf.constant(numbers(5, 4))

        @tf.function(jit_compile=jit)
        def inside(x):
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(x)
                y = tf.square(x @ w)
                z = tf.exp(-y)
            return tape.gradient(y, w), tape.gradient(z, [x, w]), tape.gradient(z, y)

        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            first = loss(x)
            second = loss(x * 2.0)
        return inside(x), tape.gradient(first, w), tape.gradient(second, [x, w])

    check(program)


@pytest.mark.parametrize("inner_jit", [True, False])
def test_second_order(inner_jit):
    def program(jit):
        def value(x):
            return tf.sin(x) * x**3

        f = tf.function(value, jit_compile=jit if inner_jit else None)

        @tf.function(jit_compile=jit)
        def inside(x):
            with tf.GradientTape() as outer:
                outer.watch(x)
                with tf.GradientTape() as inner:
                    inner.watch(x)
                    y = f(x)
                first = inner.gradient(y, x)
            return first, outer.gradient(first, x)

        x = tf.constant(numbers(6))
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = f(x)
            first = inner.gradient(y, x)
        return inside(x), first, outer.gradient(first, x)

    check(program)


def test_second_gradient_of_a_recurrent_layer_is_compiled_whole():
    """Its loops add to lists whose lengths the forward loop has put into other lists."""

    def program(jit):
        layer = keras.layers.SimpleRNN(2)
        x = tf.constant(numbers(2, 3, 2))
        layer(x)
        compiled = tf.function(lambda v: tf.reduce_sum(layer(v) ** 2), jit_compile=jit)
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = compiled(x)
            slope = inner.gradient(y, x)
        return slope, outer.gradient(slope, x)

    check(program)
    # Forward, its gradient, and the gradients of both.
    assert len(COMPILED) == 4


def test_gradients_jacobians_and_hessians():
    def program(jit):
        @tf.function(jit_compile=jit)
        def f(x):
            y = tf.reduce_sum(x**3) + x[0] * x[1]
            (gradient,) = tf.gradients(y, x)
            return gradient, tf.gradients(gradient, x)[0], tf.hessians(y, x)[0]

        @tf.function(jit_compile=jit)
        def g(x, w):
            with tf.GradientTape() as tape:
                tape.watch(w)
                y = tf.nn.sigmoid(tf.linalg.matvec(w, x))
            return tape.jacobian(y, w)

        x = tf.constant(numbers(3))
        return f(x), g(x, tf.constant(numbers(2, 3)))

    check(program)


def test_forward_accumulator():
    def program(jit):
        @tf.function(jit_compile=jit)
        def f(x, direction):
            with tf.autodiff.ForwardAccumulator(x, direction) as forward:
                y = tf.exp(x) * tf.sin(x)
            return y, forward.jvp(y)

        return f(tf.constant(numbers(4)), tf.ones([4]))

    check(program)


def test_custom_gradient():
    def program(jit):
        @tf.custom_gradient
        def log1pexp(x):
            e = tf.exp(x)

            def gradient(upstream):
                return upstream * (1 - 1 / (1 + e))

            return tf.math.log(1 + e), gradient

        @tf.custom_gradient
        def clip_gradient(x):
            return tf.identity(x), lambda dy: tf.clip_by_value(dy, -0.1, 0.1)

        @tf.function(jit_compile=jit)
        def f(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(log1pexp(clip_gradient(x) * 3.0))
            return y, tape.gradient(y, x)

        g = tf.function(lambda x: log1pexp(x), jit_compile=jit)
        x = tf.constant([0.5, -100.0, 80.0, 3.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = g(x)
        return f(x), tape.gradient(y, x)

    check(program)


def test_stop_gradient_unconnected_and_none():
    def program(jit):
        v, unused = tf.Variable(2.0), tf.Variable(3.0)

        @tf.function(jit_compile=jit)
        def f(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.stop_gradient(x * v) * v + x
            found = tape.gradient(y, [x, v, unused])
            assert found[2] is None
            return found[:2]

        @tf.function(jit_compile=jit)
        def g(x):
            with tf.GradientTape() as tape:
                y = x * v
            return tape.gradient(y, unused, unconnected_gradients="zero")

        return f(tf.constant(5.0)), g(tf.constant(5.0))

    check(program)


def test_gather_gives_indexed_slices():
    def program(jit):
        table = tf.Variable(numbers(10, 4))

        @tf.function(jit_compile=jit)
        def f(ids):
            with tf.GradientTape() as tape:
                rows = tf.nn.embedding_lookup(table, ids)
                loss = tf.reduce_sum(rows**2)
            gradient = tape.gradient(loss, table)
            return loss, tf.convert_to_tensor(gradient)

        @tf.function(jit_compile=jit)
        def lookup(ids):
            return tf.reduce_sum(tf.gather(table, ids) ** 3)

        ids = tf.constant([[1, 2], [2, 9]])
        with tf.GradientTape() as tape:
            y = lookup(ids)
        return f(ids), tf.convert_to_tensor(tape.gradient(y, table))

    check(program)


def test_recompute_grad():
    def program(jit):
        w = tf.Variable(numbers(4, 4))

        @tf.function(jit_compile=jit)
        def f(x):
            block = tf.recompute_grad(lambda h: tf.nn.gelu(h @ w))
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(block(block(x)))
            return tape.gradient(y, [x, w])

        return f(tf.constant(numbers(3, 4)))

    check(program)
