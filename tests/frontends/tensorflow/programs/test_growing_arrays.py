# SPDX-License-Identifier: Apache-2.0
"""TensorArrays that grow (`dynamic_size=True`), in and out of loops, with their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.slow


def growing(**options: Any) -> Any:
    return tf.TensorArray(tf.float32, size=0, dynamic_size=True, **options)


def squares(x: Any) -> Any:
    array = growing()
    for i in tf.range(tf.cast(x[0], tf.int32)):
        array = array.write(i, tf.cast(i, tf.float32) * x[1])
    return array.stack(), tf.cast(array.size(), tf.float32)


def until(x: Any) -> Any:
    array, i = growing(element_shape=[2]), 0
    while tf.reduce_sum(x) < 100.0:
        array = array.write(i, x)
        x, i = x * 1.5, i + 1
    return tf.reduce_sum(array.stack(), 0) * 2.0


def known_places(x: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=1, dynamic_size=True)
    return array.write(0, x).write(3, x * 2.0).stack()


def with_gaps(x: Any) -> Any:
    array = growing(clear_after_read=False)
    for i in tf.range(4):
        array = array.write(i * 2, x * tf.cast(i, tf.float32))
    return array.concat(), array.read(2), array.gather([0, 4])


def in_branches(x: Any) -> Any:
    array = growing(infer_shape=False)
    for i in tf.range(3):
        if tf.reduce_sum(x) > tf.cast(i, tf.float32):
            array = array.write(array.size(), x * 2.0)
        else:
            array = array.write(array.size(), x)
    return array.stack()


def at_places_of_the_data(x: Any) -> Any:
    array = growing(element_shape=[])
    for i in tf.range(3):
        places = tf.where(x > tf.cast(i, tf.float32))[:, 0]
        array = array.scatter(tf.cast(places, tf.int32), tf.gather(x, places) * 10.0)
    return array.stack()


def reserved_at_places_of_the_data(x: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=4)
    for i in tf.range(3):
        places = tf.where(x > tf.cast(i, tf.float32))[:, 0]
        array = array.scatter(tf.cast(places, tf.int32), tf.gather(x, places) * 10.0)
    return array.stack()


def each_until(x: Any) -> Any:
    def one(item: Any) -> Any:
        n = tf.constant(0)
        while tf.abs(item) < 10.0:
            item, n = item * 2.0, n + 1
        return item, tf.cast(n, tf.float32)

    return tf.vectorized_map(one, x + 0.125)


def joined_in_a_loop(x: Any) -> Any:
    """The gradient remembers arrays of a size that each iteration computes."""
    found = x[:1]
    for i in tf.range(4):
        tf.autograph.experimental.set_loop_options(
            shape_invariants=[(found, tf.TensorShape([None]))]
        )
        found = tf.concat([found, tf.sin(found) * x[i % 2]], 0)
    return found


def differentiated_in_a_program(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        found = joined_in_a_loop(x) * x[1]
    return tape.gradient(found, x)


PROGRAMS: tuple[Callable[[Any], Any], ...] = (
    squares,
    until,
    known_places,
    with_gaps,
    in_branches,
    at_places_of_the_data,
    reserved_at_places_of_the_data,
    each_until,
    joined_in_a_loop,
    differentiated_in_a_program,
)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_arrays_that_grow_and_their_gradients(program: Callable[[Any], Any]) -> None:
    x = tf.constant([3.0, 0.5])
    found: list[list[Any]] = []
    for compiled in (True, False):
        function = tf.function(program, jit_compile=compiled)
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = tf.nest.flatten(function(x))
            loss = tf.add_n([tf.reduce_sum(output**2) for output in outputs])
        found.append([*outputs, tape.gradient(loss, x)])
    for have, want in zip(*found, strict=True):
        assert have.shape == want.shape
        np.testing.assert_allclose(have, want, rtol=1e-5)


def long(n: Any) -> Any:
    array = growing()
    for i in tf.range(n):
        array = array.write(i, tf.cast(i, tf.float32))
    return array.stack()


def test_an_array_that_outgrows_its_room_gets_more() -> None:
    program = tf.function(long, jit_compile=True)
    for n in (1000, 70_000, 600_000, 70_000, 10):
        np.testing.assert_array_equal(program(tf.constant(n)), np.arange(n, dtype=np.float32))


def powers(x: Any, limit: Any) -> Any:
    """As many steps as the data says; the forward pass remembers each."""
    y, count = x, 0
    while count < limit:
        y, count = tf.sin(y) * 1.0001, count + 1
    return y


def test_gradients_of_a_loop_that_outgrows_its_room() -> None:
    x, limit = tf.random.uniform([4096], seed=1), tf.constant(700)

    def inside(x: Any, limit: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = powers(x, limit)
        return y, tape.gradient(y, x)

    wanted = tf.function(inside)(x, limit)
    for have, want in zip(tf.function(inside, jit_compile=True)(x, limit), wanted, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-3)
    across = tf.function(powers, jit_compile=True)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = across(x, limit)
    np.testing.assert_allclose(tape.gradient(y, x), wanted[1], rtol=1e-3)


def test_lists_of_lists_that_outgrow_their_room() -> None:
    def nested(x: Any, rounds: Any, steps: Any) -> Any:
        i = 0
        while i < rounds:
            x, i = powers(x, steps), i + 1
        return x

    def inside(x: Any, rounds: Any, steps: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = nested(x, rounds, steps)
        return tape.gradient(y, x)

    given = tf.constant(0.3), tf.constant(140), tf.constant(5)
    wanted = tf.function(inside)(*given)
    np.testing.assert_allclose(
        tf.function(inside, jit_compile=True)(*given), wanted, rtol=1e-3, atol=1e-6
    )


def test_a_variable_is_written_once_where_a_program_runs_again() -> None:
    v = tf.Variable([1.0, 2.0])

    @tf.function(jit_compile=True)
    def program(n: Any) -> Any:
        array = growing()
        for i in tf.range(n):
            v.assign_add([1.0, 1.0])
            array = array.write(i, v[0])
        v.assign_add([0.5, 0.5])
        return array.stack()

    found = program(tf.constant(70_000))
    np.testing.assert_array_equal(found, np.arange(2, 70_002, dtype=np.float32))
    np.testing.assert_array_equal(v, [70_001.5, 70_002.5])
