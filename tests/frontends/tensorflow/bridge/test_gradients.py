# SPDX-License-Identifier: Apache-2.0
"""Gradients through compiled functions: tapes outside and inside, second order, tf.gradients."""

import numpy as np
import tensorflow as tf

X = np.array([1.0, 2.0, 3.0], np.float32)


def make():
    @tf.function(jit_compile=True)
    def sine(x):
        return tf.sin(x) * 2.0

    return sine


def test_a_tape_outside_compiles_forward_and_backward(compiled):
    sine, x = make(), tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = sine(x)
    np.testing.assert_allclose(tape.gradient(y, x), 2 * np.cos(X), rtol=1e-6)
    assert ["forward" in compiled[0], "backward" in compiled[1]] == [True, True]


def test_second_order(compiled):
    sine, x = make(), tf.constant(X)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = sine(x)
        slope = inner.gradient(y, x)
    np.testing.assert_allclose(outer.gradient(slope, x), -2 * np.sin(X), rtol=1e-6)


def test_a_tape_inside_the_jit_function(compiled):
    @tf.function(jit_compile=True)
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sin(x) * 2.0
        return tape.gradient(y, x)

    np.testing.assert_allclose(slope(tf.constant(X)), 2 * np.cos(X), rtol=1e-6)
    assert len(compiled) == 1


def test_a_tape_and_tf_gradients_in_an_outer_function(compiled):
    sine = make()

    @tf.function
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = sine(x)
        return tape.gradient(y, x), tf.gradients(sine(x), x)[0]

    for result in slope(tf.constant(X)):
        np.testing.assert_allclose(result, 2 * np.cos(X), rtol=1e-6)


def test_gradient_for_a_captured_variable(compiled):
    v = tf.Variable(X)

    @tf.function(jit_compile=True)
    def square():
        return tf.reduce_sum(v * v)

    with tf.GradientTape() as tape:
        y = square()
    np.testing.assert_allclose(tape.gradient(y, v), 2 * X)
    assert len(compiled) == 2
