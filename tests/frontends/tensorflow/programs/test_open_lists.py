# SPDX-License-Identifier: Apache-2.0
"""Lists whose elements have no known shape, in and out of compiled functions: as in TensorFlow.

An empty list, or one without a written element, is no array; nor is one of elements of several
shapes, or of lists. What is done with them stays with TensorFlow, and the rest is compiled.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.ops import list_ops
from tests.frontends.tensorflow.programs.beside import COMPILED, assert_same
from tests.frontends.tensorflow.programs.beside import run as run_program

from ingot.frontends.tensorflow import hook
from ingot.frontends.tensorflow.partitioning import host_report

X = tf.constant([1.0, 2.0])


def empty(kind: Any = tf.float32, shape: Any = None) -> Any:
    return list_ops.empty_tensor_list(element_shape=shape, element_dtype=kind)


def pushed(found: Any, *items: Any) -> Any:
    for item in items:
        found = list_ops.tensor_list_push_back(found, item)
    return found


def items(found: Any, kind: Any = tf.float32) -> list[Any]:
    """Return the length of a list, and its elements: lists have no values to compare."""
    count = int(list_ops.tensor_list_length(found))
    return [count, *(list_ops.tensor_list_get_item(found, n, kind) for n in range(count))]


def returned(jit: Any) -> Any:
    @tf.function(jit_compile=jit)
    def run(x: Any) -> Any:
        return empty(), list_ops.tensor_list_reserve(None, 2, tf.float32), tf.sin(x)

    found, reserved, y = run(X)
    written = list_ops.tensor_list_set_item(reserved, 1, X)
    return items(pushed(found, X)), items(written)[2], y


def pushed_by_calls(jit: Any) -> Any:
    total = tf.Variable(0.0)

    @tf.function(jit_compile=jit)
    def run(found: Any, x: Any) -> Any:
        total.assign_add(tf.reduce_sum(x))
        return pushed(found, x * total)

    found = empty()
    for _ in range(3):
        found = run(found, X)
    return items(found), total.read_value()


def written_by_a_call(jit: Any) -> Any:
    @tf.function(jit_compile=jit)
    def run(found: Any, x: Any) -> Any:
        found = list_ops.tensor_list_set_item(found, 1, tf.exp(x))
        return list_ops.tensor_list_stack(found, tf.float32) * 2.0

    return run(list_ops.tensor_list_reserve(None, 3, tf.float32), X)


def of_partial_shape(jit: Any) -> Any:
    @tf.function(jit_compile=jit)
    def run(found: Any, x: Any) -> Any:
        return pushed(found, tf.exp(x))

    return items(run(empty(shape=[None, 2]), tf.stack([X, X, X])))


def captured(jit: Any) -> Any:
    found = empty()

    @tf.function(jit_compile=jit)
    def run(x: Any) -> Any:
        return list_ops.tensor_list_stack(pushed(found, x, x), tf.float32)

    return run(X)


def asked_for_its_length(jit: Any) -> Any:
    @tf.function(jit_compile=jit)
    def run(found: Any, x: Any) -> Any:
        shape = list_ops.tensor_list_element_shape(found, tf.int32)
        return tf.cast(list_ops.tensor_list_length(found), tf.float32) * x, shape

    return run(empty(), X)


def in_a_branch(jit: Any) -> Any:
    @tf.function(jit_compile=jit)
    def run(condition: Any, found: Any, x: Any) -> Any:
        return tf.cond(condition, lambda: pushed(found, x), lambda: found)

    found = run(tf.constant(False), empty(), X)
    return items(found), items(run(tf.constant(True), found, X))


def popped_in_a_loop(jit: Any) -> Any:
    """Elements of several shapes."""

    @tf.function(jit_compile=jit)
    def run(found: Any) -> Any:
        def body(found: Any, total: Any) -> Any:
            found, item = list_ops.tensor_list_pop_back(found, tf.float32)
            return found, total + tf.reduce_sum(item * item)

        return tf.while_loop(
            lambda found, _: list_ops.tensor_list_length(found) > 0, body, [found, 0.0]
        )

    found, total = run(pushed(empty(), X, X[:1], tf.ones([2, 3])))
    return items(found), total


def nested(jit: Any) -> Any:
    @tf.function(jit_compile=jit)
    def make(x: Any) -> Any:
        return pushed(empty(tf.variant), empty(), pushed(empty(), x)), tf.sin(x)

    @tf.function(jit_compile=jit)
    def take(found: Any) -> Any:
        found, last = list_ops.tensor_list_pop_back(found, tf.variant)
        return found, list_ops.tensor_list_stack(last, tf.float32) * 2.0

    made, y = make(X)
    rest, last = take(made)
    return list_ops.tensor_list_length(rest), last, y


def differentiated(jit: Any) -> Any:
    @tf.function(jit_compile=jit)
    def run(found: Any, x: Any) -> Any:
        _, y = list_ops.tensor_list_pop_back(pushed(found, x * x), tf.float32)
        return tf.reduce_sum(y * x)

    with tf.GradientTape() as tape:
        tape.watch(X)
        y = run(empty(), X)
    return y, tape.gradient(y, X)


def array_of_a_graph(jit: Any, size: int) -> Any:
    """A TensorArray of an uncompiled graph that a compiled function writes, with its gradient."""

    @tf.function(jit_compile=jit)
    def write(array: Any, index: Any, x: Any) -> Any:
        return array.write(index, x * x)

    @tf.function
    def run(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            array = tf.TensorArray(tf.float32, size=size, dynamic_size=not size)
            for index in tf.range(3):
                array = write(array, index, x * tf.cast(index + 1, tf.float32))
            y = tf.reduce_sum(array.stack() ** 2)
        return y, tape.gradient(y, x)

    return run(X)


def array_of_a_graph_written_once(jit: Any) -> Any:
    @tf.function(jit_compile=jit)
    def run_inner(array: Any, x: Any) -> Any:
        return tf.reduce_sum(array.write(1, x * x).read(1) * x)

    @tf.function
    def run(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = run_inner(tf.TensorArray(tf.float32, size=3), x)
        return y, tape.gradient(y, x)

    return run(X)


def made_and_taken_in_a_graph(jit: Any) -> Any:
    @tf.function(jit_compile=jit)
    def make(x: Any) -> Any:
        return empty(), tf.sin(x)

    @tf.function(jit_compile=jit)
    def take(found: Any, x: Any) -> Any:
        return list_ops.tensor_list_stack(pushed(found, tf.exp(x)), tf.float32)

    @tf.function
    def run(x: Any) -> Any:
        found, y = make(x)
        return take(found, y)

    return run(X)


def shapes_of_elements(jit: Any) -> Any:
    """TensorFlow keeps the shape that a list was made with; elements of other shapes fit later."""
    x, two = tf.ones([3, 2]), tf.constant(2)

    @tf.function(jit_compile=jit)
    def made(x: Any) -> Any:
        reserved = list_ops.tensor_list_reserve([-1, -1], 2, tf.float32)
        pieces = list_ops.tensor_list_split(x, [-1, 2], tf.constant([1, 1, 1], tf.int64))
        return (
            pushed(empty(), x), pushed(empty(shape=[None, 2]), x), pushed(empty(shape=[3, 2]), x),
            list_ops.tensor_list_set_item(reserved, 0, x), pieces,
            list_ops.tensor_list_from_tensor(x, [None]),
            list_ops.tensor_list_scatter(x, [0, 2, 1], [None]),
        )  # fmt: skip

    @tf.function(jit_compile=jit)
    def handled(found: Any, x: Any, n: Any) -> Any:
        def push(i: Any, found: Any, made: Any) -> Any:
            return i + 1, pushed(found, x), pushed(made, x)

        _, looped, made = tf.while_loop(
            lambda i, *_: i < n, push, [0, found, empty(shape=[None, 2])]
        )
        chosen = tf.cond(n > 1, lambda: pushed(found, x), lambda: found)
        popped, _ = list_ops.tensor_list_pop_back(pushed(found, x, x), tf.float32)
        return looped, made, chosen, tf.zeros_like(popped)

    given = (pushed(empty(), x), pushed(empty(shape=[None, None]), x))
    lists = [*made(x), *(item for found in given for item in handled(found, x, two))]
    shapes = [list_ops.tensor_list_element_shape(item, tf.int32) for item in lists]
    return shapes, items(pushed(lists[1], x[:1])), items(pushed(lists[7], x[0, 0]))


PROGRAMS = [
    shapes_of_elements,
    made_and_taken_in_a_graph,
    returned, pushed_by_calls, written_by_a_call, of_partial_shape, captured, asked_for_its_length,
    in_a_branch, popped_in_a_loop, nested, differentiated, array_of_a_graph_written_once,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_lists_of_unknown_shape(program: Callable[[Any], Any]) -> None:
    check_beside(program)


@pytest.mark.parametrize("size", [3, 0], ids=["unwritten", "empty"])
def test_an_array_of_a_graph(size: int) -> None:
    check_beside(lambda jit: array_of_a_graph(jit, size))


def check_beside(program: Callable[[Any], Any]) -> None:
    """Hold the program against plain TensorFlow; of some there is nothing left to compile."""
    assert_same(run_program(program, True), run_program(program, None))


def test_must_compile_says_why() -> None:
    hook.disable()
    hook.enable(strict=True)

    @tf.function(jit_compile=True)
    def run(found: Any, x: Any) -> Any:
        return list_ops.tensor_list_stack(pushed(found, x), tf.float32)

    words = "(?s)^Tried to stack elements of an empty list.*Ingot takes a TensorList as one array"
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        run(empty(), X)
    assert not COMPILED


def test_only_the_list_stays_with_tensorflow() -> None:
    """Once such a list was seen, later calls run in the same body: one program."""

    @tf.function(jit_compile=True)
    def run(found: Any, x: Any) -> Any:
        return pushed(found, tf.exp(tf.sin(x)))

    found = empty()
    for _ in range(3):
        found = run(found, X)
    assert len(COMPILED) == 1
    (compiled,) = COMPILED
    assert "exponential" in compiled.executable.kernels[0].opcodes


def test_the_warning_says_why(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_report, "_told", set())
    with caplog.at_level(logging.WARNING, "ingot.tensorflow"):
        pushed_by_calls(True)
    (record,) = [item for item in caplog.records if item.name == "ingot.tensorflow"]
    assert re.search(r"TensorListPushBack \(node .*\): Tried to stack", record.getMessage())
    assert "INGOT0311" not in record.getMessage()
