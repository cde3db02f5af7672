# SPDX-License-Identifier: Apache-2.0
"""Arguments that decide sizes and structure: the function is specialised on their values."""

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.programs.beside import COMPILED
from tests.frontends.tensorflow.programs.structural import CASES, Case


def _as_tensor(case: Case, jit):
    f = tf.function(case.function, jit_compile=jit, reduce_retracing=True)
    return lambda value: f(tf.constant(case.x), tf.constant(value))


def _as_number(case: Case, jit):
    f = tf.function(case.function, jit_compile=jit)
    return lambda value: f(tf.constant(case.x), value)


def _through_a_call(case: Case, jit):
    inner = tf.function(case.function)
    f = tf.function(lambda x, n: inner(x, n + 0), jit_compile=jit)
    return lambda value: f(tf.constant(case.x), tf.constant(value))


def _in_a_branch(case: Case, jit):
    def f(x, n, flag):
        return tf.cond(flag, lambda: case.function(x, n), lambda: case.function(x + 1, n))

    f = tf.function(f, jit_compile=jit)
    return lambda value: f(tf.constant(case.x), tf.constant(value), tf.constant(False))


def _in_a_loop(case: Case, jit):
    def f(x, n):
        def total(x):
            parts = tf.nest.flatten(case.function(x, n))
            return tf.add_n([tf.reduce_sum(tf.cast(part, tf.float64)) for part in parts])

        def body(i, x, s):
            change = x * 2 if x.dtype.is_floating else x
            return i + 1, change, s + total(x)

        start = (0, x, tf.zeros([], tf.float64))
        return tf.while_loop(lambda i, x, s: i < 3, body, start)[2]

    f = tf.function(f, jit_compile=jit)
    return lambda value: f(tf.constant(case.x), tf.constant(value))


def _as_variable(case: Case, jit):
    variable = tf.Variable(case.values[0], dtype=tf.int32)
    f = tf.function(lambda x: case.function(x, tf.identity(variable)), jit_compile=jit)

    def call(value):
        variable.assign(value)
        return f(tf.constant(case.x))

    return call


WAYS = {
    "number": _as_number,
    "call": _through_a_call,
    "branch": _in_a_branch,
    "loop": _in_a_loop,
    "variable": _as_variable,
}


def _check(case: Case, way) -> None:
    plain, compiled = way(case, None), way(case, True)
    # The values again at the end: each variant is found for the call that it was made for.
    for value in (*case.values, *case.values):
        wanted = [np.asarray(part) for part in tf.nest.flatten(plain(value))]
        got = [np.asarray(part) for part in tf.nest.flatten(compiled(value))]
        assert len(got) == len(wanted)
        for have, want in zip(got, wanted, strict=True):
            assert have.dtype == want.dtype
            assert have.shape == want.shape
            np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)
    assert COMPILED


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_argument(case):
    _check(case, _as_tensor)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_where_the_value_comes_from(case, way):
    if way == "number" and not isinstance(case.values[0], int):
        pytest.skip("not a number")
    _check(case, WAYS[way])


def _loop(x):
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2 + tf.reduce_sum(x)), (0, x))


def _branch(x):
    return tf.cond(tf.reduce_sum(x) > 3.5, lambda: tf.nn.softmax(x), lambda: x - 1)


def _cut(x):
    y = tf.numpy_function(np.negative, [x * 3], tf.float32)
    return tf.sin(x) + tf.ensure_shape(y, None)


def _sizes(x):
    return tf.zeros(tf.shape(x)), tf.size(x), x[:1]


@pytest.mark.parametrize("function", [_loop, _branch, _cut, _sizes])
def test_a_concrete_function_of_another_shape(function):
    dims = [(2,), (3,), (2,), (3,)] + [(2, 3)] * (function is _cut)
    for shape in ([2], [None]):
        plain, compiled = (
            tf.function(function, jit_compile=jit).get_concrete_function(tf.TensorSpec(shape))
            for jit in (None, True)
        )
        for x in map(tf.ones, dims):
            wanted, got = plain(x), compiled(x)
            for want, have in zip(tf.nest.flatten(wanted), tf.nest.flatten(got), strict=True):
                np.testing.assert_allclose(have, want, rtol=1e-5)


def test_a_concrete_function_of_a_shape_that_its_ops_do_not_take():
    def function(x):
        return tf.zeros([2, 2]) + x

    concrete = tf.function(function, jit_compile=True).get_concrete_function(tf.TensorSpec([2]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[3\].*traced for \[2\]") as caught:
        concrete(tf.ones([3]))
    assert "broadcast" in str(caught.value)
    for dims in ([2], [1], [2]):
        np.testing.assert_array_equal(concrete(tf.ones(dims)), np.ones([2, 2]))
