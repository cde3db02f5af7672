# SPDX-License-Identifier: Apache-2.0
"""Loops that fill lists beside ops of the host: the number of rows is open, as in Keras models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from tests.frontends.tensorflow.programs.beside import COMPILED  # noqa: E402


def recurrent(x: Any, state: Any = None) -> Any:
    """Run over axis 1 as recurrent layers do, with the states of all steps."""
    states = tf.TensorArray(tf.float32, size=tf.shape(x)[1])
    state = tf.zeros_like(x[:, 0]) if state is None else state
    for step in tf.range(tf.shape(x)[1]):
        state = tf.tanh(x[:, step] + 0.5 * state)
        states = states.write(step, state)
    return tf.transpose(states.stack(), [1, 0, 2])


def doubled(x: Any) -> Any:
    return tf.ensure_shape(tf.py_function(lambda a: a * 2.0, [x], tf.float32), x.shape)


def behind_and_before(x: Any) -> Any:
    return recurrent(doubled(recurrent(x)))


def in_a_loop(x: Any) -> Any:
    for _ in tf.range(2):
        x = tf.ensure_shape(recurrent(doubled(x)), x.shape)
    return x


def filled_in_two_loops(x: Any) -> Any:
    states = tf.TensorArray(tf.float32, size=4)
    for step in tf.range(2):
        states = states.write(step, x[:, step])
    y = doubled(x)
    for step in tf.range(2, 4):
        states = states.write(step, y[:, step])
    return states.stack()


def with_gradient(program: Callable[..., Any]) -> Callable[..., Any]:
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = program(x)
            loss = tf.reduce_sum(y * y)
        return y, tape.gradient(loss, x)

    gradient.__name__ = f"gradient_of_{program.__name__}"
    return gradient


PROGRAMS = [
    in_a_loop,
    filled_in_two_loops,
    with_gradient(behind_and_before),
    with_gradient(filled_in_two_loops),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("rows", [3, None], ids=["rows_known", "rows_open"])
def test_lists_beside_the_host(program: Callable[..., Any], rows: int | None) -> None:
    x = np.random.RandomState(7).normal(size=(3, 4, 2)).astype(np.float32)
    found: list[Any] = []
    for jit in (True, None):
        function = tf.function(
            program,
            input_signature=[tf.TensorSpec([rows, 4, 2], tf.float32)],
            jit_compile=jit,
        )
        found.append(function(x))
    assert COMPILED
    for one, other in zip(*map(tf.nest.flatten, found), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-5)


def test_the_lists_of_a_recurrent_layer_are_in_the_programs_that_use_them() -> None:
    """One program before the host, one between it and its gradient, one behind."""

    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None, 4, 2], tf.float32)])
    def function(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(doubled(recurrent(x)) ** 2)
        return tape.gradient(loss, x)

    function(tf.ones([3, 4, 2]))
    assert len(COMPILED) == 3


def grown(x: Any) -> Any:
    """Fill a list with elements of the sizes 1, 2, ...: the loop stays with TensorFlow."""
    pieces = tf.TensorArray(
        tf.float32, 0, dynamic_size=True, infer_shape=False, element_shape=[None]
    )
    for step in tf.range(4):
        pieces = pieces.write(step, x[: step + 1])
    return pieces.concat()


def test_a_loop_is_cut_as_it_was_before_a_gradient_changed_it() -> None:
    function = tf.function(grown, jit_compile=True)
    x = tf.range(6.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    np.testing.assert_array_equal(tape.gradient(y, x, y), [0, 3, 4, 3, 0, 0])
    np.testing.assert_array_equal(function(x), y)
