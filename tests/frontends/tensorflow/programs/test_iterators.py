# SPDX-License-Identifier: Apache-2.0
"""Iterators of `tf.data` that a compiled function makes: each begins with the first element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

from tensorflow.python.ops import gen_dataset_ops  # noqa: E402

Program = Callable[[Any], Any]

DATA = tf.data.Dataset.range(6).map(lambda item: tf.cast(item, tf.float32))


def digits(x: Any, iterator: Any, count: int) -> Any:
    for _ in range(count):
        x = x * 10.0 + next(iterator)
    return x


def made_again(x: Any) -> Any:
    x = digits(x, iter(DATA), 3)
    return digits(x, iter(DATA), 2)


def two_at_once(x: Any) -> Any:
    first, second = iter(DATA), iter(DATA)
    x = digits(digits(x, first, 2), second, 1)
    first = iter(DATA)
    return digits(digits(x, second, 1), first, 1)


def in_a_loop(x: Any) -> Any:
    for _ in tf.range(3):
        x = digits(x, iter(DATA), 2)
    return x


def read_in_a_loop(x: Any) -> Any:
    for _ in range(2):
        iterator = iter(DATA)
        for _ in tf.range(3):
            x = x * 10.0 + next(iterator)
    return x


def in_a_branch(x: Any) -> Any:
    x = tf.cond(x < 1.0, lambda: digits(x, iter(DATA), 2), lambda: x)
    return tf.cond(x < 5.0, lambda: digits(x, iter(DATA), 2), lambda: x)


def begun_again(x: Any) -> Any:
    iterator = iter(DATA)
    x = digits(x, iterator, 2)
    gen_dataset_ops.make_iterator(DATA._variant_tensor, iterator._iterator_resource)
    return digits(x, iterator, 2)


def whole_datasets(x: Any) -> Any:
    for _ in range(2):
        for item in DATA:
            x = x * 2.0 + item
    return x


def of_an_argument(x: Any) -> Any:
    data = tf.data.Dataset.from_tensor_slices(tf.stack([x + 1.0, x + 2.0, x + 3.0]))
    return digits(digits(x, iter(data), 3), iter(data), 1)


PROGRAMS: dict[str, Program] = {
    program.__name__: program
    for program in (
        *(made_again, two_at_once, in_a_loop, read_in_a_loop, in_a_branch, begun_again),
        *(whole_datasets, of_an_argument),
    )
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_iterator_that_is_made_again_begins_again(name: str, compiled: Any) -> None:
    x = tf.constant(0.5)
    expected = tf.function(PROGRAMS[name])(x)
    function = tf.function(PROGRAMS[name], jit_compile=True)
    for _ in range(3):
        assert float(function(x)) == float(expected)


@pytest.mark.parametrize("outer", [None, True], ids=["plain", "compiled"])
def test_a_graph_calls_a_function_that_reads_a_dataset_from_outside(
    outer: bool | None, compiled: Any
) -> None:
    inner = tf.function(made_again, jit_compile=True)

    def several(x: Any) -> Any:
        y = inner(x) + 2.0 * inner(x)
        for _ in tf.range(2):
            y += inner(x)
        return y

    made = tf.function(several, jit_compile=outer)
    for _ in range(2):
        assert float(made(tf.constant(0.5))) == 5.0 * float(made_again(tf.constant(0.5)))
