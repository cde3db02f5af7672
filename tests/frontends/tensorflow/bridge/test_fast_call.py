# SPDX-License-Identifier: Apache-2.0
"""Remembered eager calls give what ordinary ones give, and step aside where they must."""

import numpy as np
import pytest
import tensorflow as tf

from ingot.frontends.tensorflow.eager import eager_call, native_calls

X = np.array([1.0, 2.0, 3.0], np.float32)


@pytest.fixture
def native(monkeypatch):
    """Count the native calls that are made."""
    made = []
    original = eager_call.make_native_call

    def make(*args):
        made.append(args)
        return original(*args)

    monkeypatch.setattr(native_calls, "make_native_call", make)
    return made


def test_a_tensor_function_becomes_native(compiled, native):
    captured = tf.constant([10.0, 20.0, 30.0])

    @tf.function(jit_compile=True)
    def f(x, y):
        return x * 2.0 - y, {"both": captured + x}

    for value in (1.0, 2.0, 3.0, 4.0):
        first, second = f(tf.constant(X * value), tf.constant(X))
        np.testing.assert_allclose(first, 2 * X * value - X)
        np.testing.assert_allclose(second["both"], [10, 20, 30] + X * value)
    # The ordinary way hands the captured tensor in; the remembered call knows it.
    assert len(native) == 2
    assert len(compiled) == 1


def test_other_sizes_and_types_are_other_signatures(compiled, native):
    @tf.function(jit_compile=True)
    def double(x):
        return x + x

    for _ in range(3):
        for shape in ((2,), (3,), (0,), (2, 2), ()):
            assert double(tf.ones(shape)).shape == shape
        assert double(tf.ones([2], tf.int32)).dtype == tf.int32
    assert len(native) == 6


def test_plain_values_are_part_of_the_signature(compiled, native):
    @tf.function(jit_compile=True)
    def scale(x, twice, count):
        return (x + x if twice else x) * float(count)

    for _ in range(3):
        np.testing.assert_allclose(scale(tf.constant(X), True, 2), 4 * X)
        np.testing.assert_allclose(scale(tf.constant(X), False, 3), 3 * X)
    assert len(native) == 2


def test_the_same_tensor_twice_is_not_taken_for_one_argument(compiled, native):
    @tf.function(jit_compile=True)
    def sub(x, y):
        return x - y

    x = tf.constant(X)
    for _ in range(3):
        np.testing.assert_allclose(sub(x, x), 0 * X)
    np.testing.assert_allclose(sub(x, tf.constant(2 * X)), -X)
    np.testing.assert_allclose(sub(x, tf.constant(3 * X)), -2 * X)
    assert len(native) == 1


def test_calls_with_the_same_tensor_twice_become_native(compiled, native):
    @tf.function(jit_compile=True)
    def attention(query, key, scale, value):
        return (query - 2.0 * key) * scale + 3.0 * value

    x, y = tf.constant(X), tf.constant(5 * X)
    for _ in range(3):
        np.testing.assert_allclose(attention(x, x, 2, x), X)
    assert len(native) == 1
    np.testing.assert_allclose(attention(x, y, 2, x), -15 * X)
    np.testing.assert_allclose(attention(x, x, 2, y), 13 * X)
    np.testing.assert_allclose(attention(y, x, 2, y), 21 * X)
    assert len(native) == 1


def test_a_tape_still_sees_the_call(compiled, native):
    @tf.function(jit_compile=True)
    def square(x):
        return x * x

    x = tf.constant(X)
    for _ in range(3):
        square(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = square(x)
    np.testing.assert_allclose(tape.gradient(y, x), 2 * X)
    assert len(native) == 2


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
@pytest.mark.parametrize(
    "result", [lambda y: y, lambda y: (y,), lambda y: {"y": y}], ids=["tensor", "tuple", "dict"]
)
def test_calls_after_a_gradient_give_what_they_gave_before(compiled, native, shape, result):
    # The gradient needs exp(x), which TensorFlow appends to the outputs of the function's graph.
    @tf.function(jit_compile=True, autograph=False)
    def f(x):
        return result(tf.sin(tf.exp(x)))

    x = tf.fill(shape, 0.5)
    with tf.GradientTape() as tape:
        tape.watch(x)
        before = f(x)
    tape.gradient(before, x)
    for _ in range(3):
        for got, want in zip(tf.nest.flatten(f(x)), tf.nest.flatten(before), strict=True):
            np.testing.assert_array_equal(got.numpy(), want.numpy(), strict=True)
    assert native


def test_effects_happen_once_per_call(compiled, native):
    v = tf.Variable(0.0)

    @tf.function(jit_compile=True)
    def count(x):
        v.assign_add(x)

    @tf.function(jit_compile=True)
    def read(x):
        return v + x

    for step in range(1, 6):
        assert count(tf.constant(1.0)) is None
        assert float(v) == step
        assert float(read(tf.constant(0.5))) == step + 0.5
    assert native == []


def test_eager_mode_goes_the_ordinary_way(compiled, native):
    calls = []

    @tf.function(jit_compile=True)
    def f(x):
        calls.append(1)
        return x + 1.0

    for _ in range(3):
        np.testing.assert_allclose(f(tf.constant(X)), X + 1)
    assert len(native) == 1
    traced = len(calls)
    tf.config.run_functions_eagerly(True)
    try:
        f(tf.constant(X))
    finally:
        tf.config.run_functions_eagerly(False)
    assert len(calls) == traced + 1


def test_methods_have_signatures_per_object(compiled, native):
    class Scale(tf.Module):
        def __init__(self, factor):
            self.factor = factor

        @tf.function(jit_compile=True)
        def __call__(self, x):
            return x * self.factor

    two, three = Scale(2.0), Scale(3.0)
    for _ in range(3):
        np.testing.assert_allclose(two(tf.constant(X)), 2 * X)
        np.testing.assert_allclose(three(tf.constant(X)), 3 * X)


def test_a_concrete_function_runs_natively_and_in_a_device_scope_as_an_op(compiled, native):
    @tf.function(jit_compile=True)
    def f(x):
        return x * 3.0, x + 1.0

    concrete = f.get_concrete_function(tf.TensorSpec([None]))
    for size in (3, 3, 4):
        third, more = concrete(tf.ones([size]))
        np.testing.assert_allclose(third, [3.0] * size)
        np.testing.assert_allclose(more, [2.0] * size)
    assert len(native) == 2
    with tf.device("CPU:0"):
        np.testing.assert_allclose(concrete(tf.ones([5]))[0], [3.0] * 5)
    assert len(native) == 2
    assert len(compiled) == 1


def test_captures_of_a_concrete_function_may_be_replaced(compiled):
    captured, late = tf.constant(1.0), [tf.constant(3.0)]

    @tf.function(jit_compile=True)
    def f(x):
        return x + captured

    concrete, x = f.get_concrete_function(tf.TensorSpec([])), tf.constant(10.0)
    assert [float(concrete(x)) for _ in range(3)] == [11.0] * 3
    concrete.set_external_captures([tf.constant(2.0)])
    assert [float(concrete(x)) for _ in range(3)] == [12.0] * 3
    assert [float(f(x)) for _ in range(3)] == [12.0] * 3
    (held,) = concrete.captured_inputs
    concrete.replace_capture_with_deferred_capture(
        held, lambda: late[0], spec=tf.TensorSpec([]), placeholder=concrete.inputs[1]
    )
    assert [float(concrete(x)) for _ in range(3)] == [13.0] * 3
    late[0] = tf.constant(4.0)
    assert [float(concrete(x)) for _ in range(3)] == [14.0] * 3
