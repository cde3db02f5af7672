# SPDX-License-Identifier: Apache-2.0
"""Ops whose lowering rule refuses a node: TensorFlow runs that node, and the rest is compiled."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.programs.beside import COMPILED, assert_same

from ingot.frontends.tensorflow import hook
from ingot.frontends.tensorflow.lowering.walk import rules
from ingot.frontends.tensorflow.partitioning import host_report
from ingot.frontends.tensorflow.partitioning.op_families import FAMILY_OF
from ingot.support.diagnostics import UnsupportedError

Program = Callable[[Any], Any]
WHY = "this test refuses it"


@pytest.fixture(autouse=True)
def refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the rules of a few ops refuse some of their attributes and types."""
    conditions: dict[str, Callable[[Any], bool]] = {
        "Conv2D": lambda op: 2 in op.attribute("strides"),
        "Conv2DBackpropFilter": lambda op: 2 in op.attribute("strides"),
        "Cumsum": lambda op: bool(op.attribute("reverse")),
        "Erf": lambda op: op.dtype(0).name == "f64",
        "Sinh": lambda op: True,
        "Atanh": lambda op: op.rank(0) == 2,
    }

    def refusing_rule(rule: Any, condition: Callable[[Any], bool]) -> Any:
        def apply(op: Any) -> Any:
            if condition(op):
                raise op.error(WHY)
            return rule(op)

        return apply

    for name, condition in conditions.items():
        table = rules.family(FAMILY_OF[name])
        monkeypatch.setitem(table, name, refusing_rule(table[name], condition))


def numbers(*sizes: int) -> Any:
    return tf.constant(np.random.RandomState(3).normal(size=sizes).astype(np.float32))


IMAGES = numbers(2, 6, 6, 3)
FILTERS = numbers(3, 3, 3, 4) * 0.3


def convolution(x: Any) -> Any:
    plain = tf.nn.conv2d(x * 2.0, FILTERS, 1, "SAME")
    return tf.nn.relu(tf.nn.conv2d(x, FILTERS, 2, "SAME") + plain[:, ::2, ::2])


def several(x: Any) -> Any:
    y = tf.cumsum(tf.exp(x), axis=1, reverse=True) + tf.cumsum(x, axis=1)
    return tf.tanh(tf.sinh(tf.cos(y))) + tf.cast(tf.math.erf(tf.cast(y, tf.float64)), tf.float32)


def in_a_loop(x: Any) -> Any:
    for step in tf.range(3):
        x = tf.sinh(tf.sin(x)) * tf.cast(step, tf.float32) + x
    return x


def in_nested_bodies(x: Any) -> Any:
    @tf.function
    def called(a: Any) -> Any:
        return tf.sinh(a * 0.5)

    for step in tf.range(3):
        if step % 2 == 0:
            x = called(tf.sin(x))
        else:
            x = tf.cumsum(x, axis=0, reverse=True)
            x = x - called(x)
    return x


def in_a_condition(x: Any) -> Any:
    while tf.reduce_sum(tf.sinh(x)) < 100.0:
        x = tf.abs(x) + 0.5
    return x


def gradient_inside(x: Any) -> Any:
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            loss = tf.reduce_sum(several(x) * in_a_loop(x))
        slope = inner.gradient(loss, x)
    return slope, outer.gradient(slope, x)


def lists(x: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=3, element_shape=x.shape[1:])
    for row in tf.range(3):
        array = array.write(row, tf.sinh(x[row % 2]))
    return tf.exp(-(array.stack() ** 2))


def behind_a_value(x: Any) -> Any:
    """What is compiled needs the values of two integers, before it comes to what is refused."""

    @tf.function(jit_compile=True)
    def inner(y: Any, axis: Any, permutation: Any) -> Any:
        y = tf.transpose(tf.cumsum(y, axis), permutation)
        return tf.exp(-(tf.sinh(tf.tanh(y)) ** 2))

    return inner(x, tf.argmin(x[0, 0, 0, :1]) + 1, tf.argsort(tf.constant([3.0, 1.0, 2.0, 0.0])))


def random_numbers(x: Any) -> Any:
    first = tf.random.stateless_normal(x.shape, [1, 2])
    return tf.sinh(x + first) + tf.random.stateless_normal(x.shape, [3, 4])


PROGRAMS: tuple[Program, ...] = (
    convolution,
    several,
    in_a_loop,
    in_nested_bodies,
    in_a_condition,
    gradient_inside,
    lists,
    behind_a_value,
    random_numbers,
)


def flat(values: Any) -> list[Any]:
    return [item.numpy() for item in tf.nest.flatten(values)]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda item: item.__name__)
def test_the_rest_is_compiled(program: Program) -> None:
    compiled, plain = tf.function(program, jit_compile=True), tf.function(program)
    for sign in (1.0, -1.0):
        assert_same(flat(compiled(IMAGES * sign)), flat(plain(IMAGES * sign)))
    assert COMPILED


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda item: item.__name__)
def test_inside_an_outer_graph(program: Program) -> None:
    """Nothing can be tried and then done otherwise there: effects would come twice."""
    compiled, count = tf.function(program, jit_compile=True), tf.Variable(0)

    @tf.function
    def outer(x: Any) -> Any:
        count.assign_add(1)
        return compiled(x)

    assert_same(flat(outer(IMAGES)), flat(tf.function(program)(IMAGES)))
    assert int(count) == 1


@pytest.mark.parametrize("program", [convolution, several, in_nested_bodies, lists])
def test_gradients_with_the_tape_outside(program: Program) -> None:
    found: list[Any] = []
    for jit in (True, False):
        function = tf.function(program, jit_compile=jit)
        with tf.GradientTape() as tape:
            tape.watch(IMAGES)
            loss = tf.reduce_sum(function(IMAGES) ** 2)
        found.append(flat((loss, tape.gradient(loss, IMAGES))))
    assert_same(*found, rtol=1e-3)
    assert COMPILED


def test_what_only_a_call_shows() -> None:
    """The ranks are not known before the call, so nothing was refused before it."""
    signature = [tf.TensorSpec(None, tf.float32)]
    compiled = tf.function(several, jit_compile=True, input_signature=signature)
    for x in (IMAGES, IMAGES[0]):
        assert_same(flat(compiled(x)), flat(several(x)))
    assert COMPILED


def test_what_only_a_call_shows_beside_a_check() -> None:
    """A call is made once more where what came before the refusal only checked something."""
    v = tf.Variable(2.0)

    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec(None, tf.float32)])
    def program(x: Any) -> Any:
        tf.debugging.assert_less(tf.reduce_sum(x), 9.0)
        y = tf.sinh(tf.debugging.check_numerics(x * v, "x"))
        return tf.atanh(tf.tanh(y) * 0.5)

    for x in (numbers(3), numbers(2, 3)):
        np.testing.assert_allclose(program(x), np.arctanh(np.tanh(np.sinh(x * 2)) / 2), rtol=1e-5)
    with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
        program(tf.fill([3, 3], 2.0))
    assert COMPILED


def test_a_call_that_tensorflow_refuses_changes_nothing() -> None:
    open_size = tf.TensorSpec([None], tf.float32)

    @tf.function(jit_compile=True, input_signature=[open_size, open_size])
    def program(a: Any, b: Any) -> Any:
        return tf.exp(a) + b

    three, four = tf.ones([3]), tf.ones([4])
    replacement = program.get_concrete_function()._inference_function.ingot_replacement
    program(three, three)
    launch = replacement.one_op
    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)Incompatible .* broadcast"):
            program(three, four)
    np.testing.assert_allclose(program(four, four), np.e + 1, rtol=1e-6)
    assert replacement.one_op is launch


def test_effects_happen_once() -> None:
    variable = tf.Variable(1.0)

    @tf.function(jit_compile=True)
    def step(x: Any) -> Any:
        variable.assign_add(tf.reduce_sum(x))
        y = tf.sinh(variable * 0.5)
        variable.assign(variable * y)
        return variable + y

    for expected in (2.5, 2.5):
        variable.assign(1.0)
        half = np.sinh(expected / 2)
        np.testing.assert_allclose(step(tf.constant(1.5)), (expected + 1) * half, rtol=1e-6)
        np.testing.assert_allclose(variable, expected * half, rtol=1e-6)


def test_a_model_is_trained() -> None:
    histories: list[Any] = []
    for jit in (True, False):
        keras.utils.set_random_seed(1)
        layers = [
            keras.layers.Conv2D(4, 3, strides=2, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(2),
        ]
        model = keras.Sequential([keras.Input(IMAGES.shape[1:]), *layers])
        model.compile("adam", "mse", jit_compile=jit)
        target = tf.ones([2, 2])
        histories.append(model.fit(IMAGES, target, epochs=3, verbose=0).history["loss"])
    np.testing.assert_allclose(*histories, rtol=1e-5)
    assert COMPILED


def test_strict_is_the_error_of_the_rule() -> None:
    hook.disable()
    hook.enable(strict=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match=WHY) as caught:
        tf.function(convolution, jit_compile=True)(IMAGES)
    for part in ("INGOT0310", "Conv2D", "test_refused_ops.py", "hint: move it out"):
        assert part in caught.value.message


def test_the_warning_says_why_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_report, "_told", set())
    with caplog.at_level(logging.WARNING, "ingot.tensorflow"):
        for _ in range(2):
            tf.function(convolution, jit_compile=True)(IMAGES)
    (record,) = [item for item in caplog.records if item.name == "ingot.tensorflow"]
    for part in (WHY, "Conv2D", "test_refused_ops.py", "one program", "INGOT_STRICT"):
        assert part in record.getMessage()


def test_an_error_without_a_node_stays_an_error() -> None:
    def refuse(*_: Any) -> Any:
        raise UnsupportedError("this function cannot be compiled")

    hook.disable()
    hook.enable(refuse)
    with pytest.raises(tf.errors.InvalidArgumentError, match="this function cannot be compiled"):
        tf.function(lambda x: x * 2.0, jit_compile=True)(IMAGES)


def test_labels_that_are_collapsed() -> None:
    """A rule that refuses an attribute, as it is."""

    def program(x: Any) -> Any:
        found = tf.raw_ops.CTCLoss(
            inputs=x * 2.0,
            labels_indices=[[0, 0], [0, 1], [1, 0]],
            labels_values=[1, 1, 0],
            sequence_length=[4, 3],
            preprocess_collapse_repeated=True,
        )
        return found.loss + 1.0, found.gradient * 3.0

    scores = numbers(4, 2, 3)
    wanted = flat(tf.function(program)(scores))
    assert_same(flat(tf.function(program, jit_compile=True)(scores)), wanted)
    assert COMPILED


def parts(count: int) -> Callable[[Any, Any], Any]:
    def program(x: Any, sizes: Any) -> Any:
        return tf.raw_ops.SplitV(value=x, size_splits=sizes, axis=0, num_split=count)

    return program


def offsets(x: Any, shape: Any) -> Any:
    return tf.raw_ops.ConcatOffset(concat_dim=1, shape=[tf.shape(x), shape])


MISTAKES: dict[str, tuple[Callable[[Any, Any], Any], list[int], str]] = {
    "fewer_parts": (parts(2), [2, 2, 1], "have the same elements as outputs"),
    "more_parts": (parts(3), [2, 3], "have the same elements as outputs"),
    "rank": (offsets, [5, 7, 3], "should contain 2 elem"),
    "size": (offsets, [4, 7], "All dimensions except 1 must match"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_that_tensorflow_finds_when_the_node_runs(name: str) -> None:
    program, values, words = MISTAKES[name]
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        tf.function(program, jit_compile=True)(numbers(5, 3), tf.constant(values))
