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


PROGRAMS: tuple[Callable[[Any], Any], ...] = (
    squares,
    until,
    known_places,
    with_gaps,
    in_branches,
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


def test_an_array_that_outgrows_its_room_is_an_error() -> None:
    @tf.function(jit_compile=True)
    def program(n: Any) -> Any:
        array = growing()
        for i in tf.range(n):
            array = array.write(i, tf.cast(i, tf.float32))
        return array.stack()

    assert program(tf.constant(1000)).shape == (1000,)
    with pytest.raises(tf.errors.InvalidArgumentError, match="more than 65536 elements"):
        program(tf.constant(70_000))
