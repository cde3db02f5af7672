# SPDX-License-Identifier: Apache-2.0
"""Functions that nobody holds any more: what they were compiled to goes, what runs them stays."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.programs.beside import COMPILED

from ingot.client.executables.executable import Executable
from ingot.frontends.tensorflow.functions import dropped_launches

X = np.arange(5, dtype=np.float32)
MANY = 40


@pytest.fixture(autouse=True)
def _few_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few dropped functions wait, so that a test need not make many."""
    monkeypatch.setattr(dropped_launches, "_MOST_WAITING", 8)


def make(number: float) -> Any:
    """Return a new compiled function, which was called."""
    function = tf.function(lambda x: tf.reduce_sum(tf.sin(x) * number), jit_compile=True)
    np.testing.assert_allclose(function(X), np.sin(X).sum() * number, rtol=1e-5)
    return function


def drop_many() -> None:
    """Make functions and drop them, more than wait until TensorFlow's cache is emptied."""
    for number in range(dropped_launches._MOST_WAITING + 8):
        make(number)
    gc.collect()
    make(0.5)


def live_executables() -> int:
    COMPILED.clear()  # It holds what the compiler of these tests has made.
    gc.collect()
    return sum(isinstance(item, Executable) for item in gc.get_objects())


@pytest.mark.parametrize("variable", [False, True])
def test_what_many_dropped_functions_were_compiled_to_is_let_go(variable: bool) -> None:
    drop_many()
    held = tf.Variable(0.0)
    before = live_executables()
    for number in range(MANY):
        if variable:
            function = tf.function(lambda x: held.assign_add(x), jit_compile=True)
            function(tf.constant(1.0 + number))
        else:
            make(number)
    # What the collector finds only now waits too.
    assert live_executables() <= before + MANY // 2
    assert len(dropped_launches._held) < 8


def test_a_dataset_runs_a_function_that_was_dropped() -> None:
    dataset = tf.data.Dataset.from_tensors(X).map(make(3.0))
    first = iter(dataset.repeat(2))
    values = [next(first)]
    drop_many()
    values += [next(first), *dataset, *dataset]
    np.testing.assert_allclose(values, [np.sin(X).sum() * 3] * 4, rtol=1e-5)


def test_a_function_calls_one_that_was_dropped() -> None:
    def wrap() -> Any:
        inner = make(3.0)
        return tf.function(lambda x: inner(x) + 1.0)

    outer = wrap()
    concrete = outer.get_concrete_function(tf.TensorSpec([5]))
    del outer
    drop_many()
    np.testing.assert_allclose(concrete(tf.constant(X)), np.sin(X).sum() * 3 + 1, rtol=1e-5)
    drop_many()
    np.testing.assert_allclose(concrete(tf.constant(X)), np.sin(X).sum() * 3 + 1, rtol=1e-5)


def test_a_session_runs_a_function_that_was_dropped() -> None:
    with tf.Graph().as_default() as graph:
        result = tf.function(lambda x: tf.sin(x) * 3.0, jit_compile=True)(tf.constant(X))
    session = tf.compat.v1.Session(graph=graph)
    values = [session.run(result)]
    drop_many()
    values.append(session.run(result))
    session.close()
    drop_many()
    with tf.compat.v1.Session(graph=graph) as session:
        values.append(session.run(result))
    np.testing.assert_allclose(values, [np.sin(X) * 3] * 3, rtol=1e-5)


def test_a_tape_differentiates_a_function_that_was_dropped() -> None:
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = make(3.0)(x)
    drop_many()
    np.testing.assert_allclose(tape.gradient(y, x), np.cos(X) * 3, rtol=1e-5)


def test_a_function_that_is_kept_runs_on() -> None:
    """Its kernel is made anew when TensorFlow's cache was emptied."""
    held = tf.Variable(0.0)
    kept = make(3.0)
    counting = tf.function(lambda x: held.assign_add(x), jit_compile=True)
    for rounds in range(1, 4):
        np.testing.assert_allclose(kept(X), np.sin(X).sum() * 3, rtol=1e-5)
        assert counting(tf.constant(1.0)) == rounds
        drop_many()
