# SPDX-License-Identifier: Apache-2.0
"""Gradients of loops in loops with the tape outside.

What the inner loop remembers is a list in a list, and each inner list has a length of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import concrete_function
from tests.frontends.tensorflow.programs.beside import check, compilations_of

from ingot.hlo.dim import evaluate, symbols_of

X = tf.constant([1.01, 0.99])


def triangle(count: Any, x: Any) -> Any:
    y = x
    for i in tf.range(count):
        for _ in tf.range(i):
            y = tf.sin(y * x) + x
    return y


def pyramid(count: Any, x: Any) -> Any:
    y = x
    for i in tf.range(count):
        for j in tf.range(i):
            for _ in tf.range(j):
                y = tf.sin(y * x) + x
    return y


def branch(count: Any, x: Any) -> Any:
    y = x
    for i in tf.range(count):
        if i % 2 == 0:
            for _ in tf.range(i):
                y = tf.sin(y * x) + x
        else:
            y = y * x
    return y


def arrays(count: Any, x: Any) -> Any:
    """The inner list is a TensorArray, read from its front."""
    total = tf.zeros_like(x)
    for i in tf.range(count):
        array, y = tf.TensorArray(tf.float32, size=i + 1), x
        for j in tf.range(i + 1):
            y = tf.tanh(y * x)
            array = array.write(j, y)
        total += tf.reduce_sum(array.stack() ** 2, 0)
    return total


def gradient(function: Callable[..., Any], count: Any, x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(tf.convert_to_tensor(count), x)
    return y, tape.gradient(y, x)


@pytest.mark.parametrize(
    ("program", "counts"),
    [(triangle, (4, 1, 0, 3)), (pyramid, (4, 1)), (branch, (4, 0)), (arrays, (3, 1))],
    ids=lambda item: getattr(item, "__name__", None),
)
def test_gradients(program: Callable[..., Any], counts: tuple[int, ...]) -> None:
    def run(jit: Any) -> Any:
        function = tf.function(program, jit_compile=jit)
        return [gradient(function, count, X) for count in counts]

    check(run)


@pytest.mark.parametrize("sparsely", [False, True])
def test_a_variable_that_the_loops_read(sparsely: bool) -> None:
    """The backward function gets the handle as a capture and again from the forward function."""

    def run(jit: Any) -> Any:
        v = tf.Variable([0.3, 0.5])
        if sparsely:  # Such a variable stays locked while it is read.
            v.scatter_nd_add([[1]], [0.25])

        def program(x: Any) -> Any:
            for _ in tf.range(2):
                for _ in tf.range(2):
                    x = tf.sin(x) * v
            return x

        function = tf.function(program, jit_compile=jit)
        found: list[Any] = []
        for _ in range(3):
            with tf.GradientTape() as tape:
                tape.watch(X)
                y = function(X)
            found += tape.gradient(y, [X, v])
            v.assign_add([0.5, 0.5])  # The lock and the buffer were given back.
        return found

    check(run)


def test_one_program_for_all_lengths() -> None:
    """Forward, backward: neither depends on how long the inner lists are."""
    function = tf.function(triangle, jit_compile=True)
    for count in (2, 3, 5, 9):
        gradient(function, count, X)
    assert len(compilations_of("forward")) == 1
    assert len(compilations_of("backward")) == 1


def test_inner_lists_longer_than_the_room() -> None:
    def program(count: Any, x: Any) -> Any:
        y = x
        for i in tf.range(3):
            for _ in tf.range(count * i):
                y = tf.sin(y * x) + x
        return y

    def run(jit: Any) -> Any:
        function = tf.function(program, jit_compile=jit)
        return [gradient(function, count, X) for count in (2, 40, 9000)]

    check(run, rtol=1e-3)


def test_open_sizes() -> None:
    def run(jit: Any) -> Any:
        signature = [tf.TensorSpec([], tf.int32), tf.TensorSpec([None], tf.float32)]
        function = tf.function(triangle, input_signature=signature, jit_compile=jit)
        return [gradient(function, 4, tf.ones([size])) for size in (5, 3, 0)]

    check(run)


def test_in_an_uncompiled_graph() -> None:
    def run(jit: Any) -> Any:
        function = tf.function(triangle, jit_compile=jit)
        outer = tf.function(lambda count, x: gradient(function, count, x))
        return [outer(tf.constant(count), X) for count in (4, 0, 2)]

    check(run)


@pytest.mark.slow
def test_second_derivative() -> None:
    def run(jit: Any) -> Any:
        function = tf.function(triangle, jit_compile=jit)
        found: list[Any] = []
        for count in (3, 0, 4):
            with tf.GradientTape() as tape:
                tape.watch(X)
                _, slope = gradient(function, count, X)
            found += [slope, tape.gradient(slope, X)]
        return found

    check(run, rtol=1e-3)


def loops_of_a_branch(x: Any) -> Any:
    y = x
    for _ in tf.range(2):
        for _ in tf.range(2):
            sine, product = (lambda y: tf.sin(y) * x), (lambda y: y * x + 0.1)
            y = tf.cond(tf.reduce_sum(y) > 1.0, partial(sine, y), partial(product, y))
    return y


@pytest.mark.parametrize("inside", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_second_derivatives_that_keep_lists_of_lists_of_lists(inside: int) -> None:
    """TensorFlow keeps those lists, and what they hold was made by compiled code."""

    def run(jit: Any) -> Any:
        def first(function: Any, x: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(function(x) ** 2)
            return tape.gradient(y, x)

        if inside:
            program = tf.function(lambda x: first(loops_of_a_branch, x), jit_compile=jit)
        else:
            function = tf.function(loops_of_a_branch, jit_compile=jit)
            program = lambda x: first(function, x)  # noqa: E731
        with tf.GradientTape() as tape:
            tape.watch(X)
            slope = program(X)
            total = tf.reduce_sum(slope * [1.0, 2.0])
        return slope, tape.gradient(total, X)

    check(run, rtol=1e-3)


@pytest.mark.slow
def test_second_derivatives_in_an_uncompiled_graph() -> None:
    """Nothing can be tried there: which lists TensorFlow made shows while it traces."""

    def run(jit: Any) -> Any:
        function = tf.function(loops_of_a_branch, jit_compile=jit)

        @tf.function
        def outer(x: Any) -> Any:
            with tf.GradientTape() as second:
                second.watch(x)
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    y = tf.reduce_sum(function(x) ** 2)
                slope = tape.gradient(y, x)
            return slope, second.gradient(slope, x)

        return outer(X)

    check(run, rtol=1e-3)


@pytest.mark.slow
def test_a_gradient_that_is_built_again_keeps_nothing_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow builds one until it keeps nothing new: else it never ends, or late."""
    functions: Any = concrete_function._TapeGradientFunctions
    build, kept = functions._build_functions_for_outputs, list[tuple[int, int]]()

    def twice(self: Any, outputs: Any, *args: Any) -> Any:
        found = build(self, outputs, *args)
        before = list(self._func_graph.outputs)
        build(self, before, *args)
        kept.append((len(before), len(self._func_graph.outputs)))
        return found

    function = tf.function(arrays, jit_compile=True)
    monkeypatch.setattr(functions, "_build_functions_for_outputs", twice)
    with tf.GradientTape() as tape:
        tape.watch(X)
        _, slope = gradient(function, 2, X)
    assert tape.gradient(slope, X) is not None
    assert len(kept) > 1
    assert all(first == second for first, second in kept), kept


def test_lists_made_in_a_loop_have_little_room() -> None:
    """A list of lists of 64 numbers once had half a gigabyte."""
    function = tf.function(triangle, jit_compile=True)
    gradient(function, 3, tf.ones([64]))
    (compiled,) = compilations_of("forward")
    sizes = [item.memory_analysis().temp_size_in_bytes for item in compiled.executable.executables]
    # What data decides are numbers of elements: no list has more than three rows of 64.
    most = dict.fromkeys(symbols_of(sizes), 3 * 64)
    assert sum(evaluate(size, most) for size in sizes) < 32 << 20
