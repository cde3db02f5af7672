"""Variables: read, written, in the order that the user wrote."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops import resource_variable_ops

X = np.array([1.0, 2.0, 3.0], np.float32)


@pytest.fixture
def update():
    v, w = tf.Variable(1.0), tf.Variable([1.0, 1.0, 1.0])

    @tf.function(jit_compile=True)
    def update(x):
        before = v.read_value()
        v.assign_add(tf.reduce_sum(x))
        after = v.read_value()
        w.assign(x * after)
        return before, after

    return update, v, w


def test_reads_and_writes_keep_their_order(compiled, update):
    function, v, w = update
    assert [float(item) for item in function(tf.constant(X))] == [1, 7]
    assert float(v) == 7
    np.testing.assert_allclose(w, 7 * X)
    assert [float(item) for item in function(tf.constant(X))] == [7, 13]
    assert len(compiled) == 1


def test_calls_in_an_outer_function_are_ordered(compiled, update):
    function, v, _ = update

    @tf.function
    def twice(x):
        function(x)
        between = v * 1.0
        function(x)
        return between, v.read_value()

    assert [float(item) for item in twice(tf.constant(X))] == [7, 13]
    assert [float(item) for item in twice(tf.constant(X))] == [19, 25]


def test_a_nested_jit_function_writes_through(compiled, update):
    function, v, _ = update

    @tf.function(jit_compile=True)
    def twice(x):
        function(x)
        between = v * 1.0
        function(x)
        return between, v.read_value()

    assert [float(item) for item in twice(tf.constant(X))] == [7, 13]
    assert float(v) == 13
    assert len(compiled) == 1


def test_a_write_in_a_branch(compiled):
    v = tf.Variable(5.0)

    @tf.function(jit_compile=True)
    def maybe(x):
        if x > 0.0:
            v.assign(x)
        return x + 1.0

    maybe(tf.constant(-1.0))
    assert float(v) == 5
    maybe(tf.constant(2.0))
    assert float(v) == 2


def test_a_write_in_a_loop(compiled):
    v = tf.Variable(0.0)

    @tf.function(jit_compile=True)
    def count(n):
        i = 0
        while i < n:
            v.assign_add(2.0)
            i += 1
        return v.read_value()

    assert float(count(tf.constant(3))) == 6
    assert float(v) == 6


def test_a_variable_as_argument_and_one_of_unknown_shape(compiled):
    v = tf.Variable(tf.ones([2, 3]), shape=tf.TensorShape(None))

    @tf.function(jit_compile=True)
    def double(variable):
        variable.assign(variable + variable)

    double(v)
    np.testing.assert_array_equal(v, np.full((2, 3), 2))
    v.assign(tf.ones([4]))
    double(v)
    np.testing.assert_array_equal(v, np.full(4, 2))
    assert len(compiled) == 2


def test_an_uninitialized_variable_is_named(compiled):
    v = resource_variable_ops.UninitializedVariable(shape=[2], dtype=tf.float32)

    @tf.function(jit_compile=True)
    def read():
        return v + 1.0

    with pytest.raises(tf.errors.InvalidArgumentError, match="not initialized"):
        read()


def test_variables_created_at_the_first_call(compiled):
    created = []

    @tf.function(jit_compile=True)
    def layer(x):
        if not created:
            created.append(tf.Variable(2.0))
        return created[0] * x

    assert float(layer(tf.constant(3.0))) == 6
    assert float(layer(tf.constant(4.0))) == 8
