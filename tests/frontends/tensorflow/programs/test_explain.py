# SPDX-License-Identifier: Apache-2.0
"""`ingot.explain` of what belongs to TensorFlow: functions and Keras models."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

import ingot
import ingot.tensorflow


@pytest.fixture(autouse=True)
def enabled():
    was_enabled = ingot.tensorflow.is_enabled()
    ingot.tensorflow.enable()
    yield
    if not was_enabled:
        ingot.tensorflow.disable()


def test_a_function_is_compiled_and_not_run() -> None:
    counter = tf.Variable(0.0)

    @tf.function(jit_compile=True)
    def step(x):
        counter.assign_add(tf.reduce_sum(x))
        return tf.tanh(x @ x)

    (program,) = ingot.explain(step, tf.ones((8, 8))).programs
    assert counter.numpy() == 0
    assert any("dot" in kernel.opcodes for kernel in program.kernels)
    assert any(Path(__file__).name in line.location for line in program.lines)


def test_a_keras_model() -> None:
    model = tf.keras.Sequential([tf.keras.layers.Input((6,)), tf.keras.layers.Dense(3)])
    (program,) = ingot.explain(model, tf.ones((2, 6))).programs
    assert any("dot" in kernel.opcodes for kernel in program.kernels)


def test_a_function_that_ingot_does_not_compile_is_refused() -> None:
    with pytest.raises(ingot.UnsupportedError, match="did not compile the tf") as e:
        ingot.explain(tf.function(lambda x: x + 1), tf.ones(3))
    assert e.value.diagnostic.code == "INGOT0363"
