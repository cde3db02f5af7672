# SPDX-License-Identifier: Apache-2.0
"""Variables: read, written, in the order that the user wrote."""

import threading

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops import resource_variable_ops

from ingot.client import stored
from ingot.frontends.tensorflow.api import capi
from ingot.frontends.tensorflow.graphs.variable_access import layout_problem
from ingot.frontends.tensorflow.launches import variable_test
from ingot.frontends.tensorflow.launches.variable_test import is_available

X = np.array([1.0, 2.0, 3.0], np.float32)


@pytest.fixture
def update(compiled, access):
    v, w = tf.Variable(1.0), tf.Variable([1.0, 1.0, 1.0])

    @tf.function(jit_compile=True)
    def update(x):
        before = v.read_value()
        v.assign_add(tf.reduce_sum(x))
        after = v.read_value()
        w.assign(x * after)
        return before, after

    return update, v, w


def test_reads_and_writes_keep_their_order(compiled, access, update):
    function, v, w = update
    assert [float(item) for item in function(tf.constant(X))] == [1, 7]
    assert float(v) == 7
    np.testing.assert_allclose(w, 7 * X)
    assert [float(item) for item in function(tf.constant(X))] == [7, 13]
    assert len(compiled) == 1


def test_calls_in_an_outer_function_are_ordered(compiled, access, update):
    function, v, _ = update

    @tf.function
    def twice(x):
        function(x)
        between = v * 1.0
        function(x)
        return between, v.read_value()

    assert [float(item) for item in twice(tf.constant(X))] == [7, 13]
    assert [float(item) for item in twice(tf.constant(X))] == [19, 25]


def test_a_nested_jit_function_writes_through(compiled, access, update):
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


def test_a_write_in_a_branch(compiled, access):
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


def test_a_write_in_a_loop(compiled, access):
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


def test_a_variable_as_argument_and_one_of_unknown_shape(compiled, access):
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


def test_an_uninitialized_variable_is_named(compiled, access):
    v = resource_variable_ops.UninitializedVariable(shape=[2], dtype=tf.float32)

    @tf.function(jit_compile=True)
    def read():
        return v + 1.0

    with pytest.raises(tf.errors.InvalidArgumentError, match="not initialized"):
        read()


def test_variables_created_at_the_first_call(compiled, access):
    created = []

    @tf.function(jit_compile=True)
    def layer(x):
        if not created:
            created.append(tf.Variable(2.0))
        return created[0] * x

    assert float(layer(tf.constant(3.0))) == 6
    assert float(layer(tf.constant(4.0))) == 8


def buffer_of(variable):
    """Return the address of a variable's memory without a copy."""
    return np.asarray(memoryview(variable.read_value())).__array_interface__["data"][0]


def test_the_self_test_passes_on_the_supported_tensorflow():
    assert layout_problem() is None
    assert is_available()


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """A cache on the disk in which nothing is kept yet, and the self-test not done."""
    monkeypatch.setenv("INGOT_PROGRAM_CACHE", "1")
    monkeypatch.setenv("INGOT_CACHE_DIR", str(tmp_path))
    for module in (variable_test, stored):
        # Sources that changed a moment ago have no stamp, and a developer runs tests.
        monkeypatch.setattr(module, "sources_stamp", lambda packages: "now")
    is_available.cache_clear()
    yield
    is_available.cache_clear()


def test_the_self_test_passes_inside_a_graph_too(kept):
    """The first function of a process may be one that a session runs."""
    with tf.Graph().as_default():
        assert is_available()


def test_the_self_test_is_done_once_for_the_files_of_a_tensorflow(kept, monkeypatch):
    done, find = [], variable_test._find_problem
    monkeypatch.setattr(variable_test, "_find_problem", lambda: done.append(1) or find())
    for _ in range(2):
        is_available.cache_clear()
        assert is_available()
    assert done == [1]
    name = variable_test._entry_name()
    monkeypatch.setattr(variable_test, "_LIBRARIES", (capi.FRAMEWORK,))
    assert variable_test._entry_name() != name
    is_available.cache_clear()
    assert is_available()
    assert done == [1, 1]
    monkeypatch.setattr(variable_test, "_LIBRARIES", ("libno_such.so",))
    assert variable_test._entry_name() == ""


def test_a_self_test_that_goes_wrong_is_not_kept(kept, monkeypatch):
    done = []
    monkeypatch.setattr(variable_test, "_find_problem", lambda: done.append(1) or "something")
    for _ in range(2):
        is_available.cache_clear()
        assert not is_available()
    assert done == [1, 1]


def test_a_variable_is_updated_in_place_unless_somebody_holds_its_value(compiled):
    v = tf.Variable(tf.zeros([100]))

    @tf.function(jit_compile=True)
    def step(x):
        v.assign(v + x)

    before = buffer_of(v)
    for _ in range(3):
        step(tf.constant(1.0))
    assert buffer_of(v) == before
    held = v.read_value()
    step(tf.constant(1.0))
    assert buffer_of(v) != before
    np.testing.assert_array_equal(held, np.full(100, 3))
    np.testing.assert_array_equal(v, np.full(100, 4))


def test_many_variables_in_any_order(compiled, access):
    variables = [tf.Variable(float(i)) for i in range(40)]
    order = np.random.default_rng(0).permutation(40)

    @tf.function(jit_compile=True)
    def shift():
        for i in order:
            variables[i].assign_add(variables[(i + 1) % 40].read_value() * 0.0 + 1.0)

    for _ in range(3):
        shift()
    assert [float(v) for v in variables] == [i + 3 for i in range(40)]


def test_threads_that_write_each_others_inputs(compiled, access):
    a, b = tf.Variable(tf.zeros([64])), tf.Variable(tf.zeros([64]))

    @tf.function(jit_compile=True)
    def left():
        a.assign(a + 1.0 + 0.0 * b)

    @tf.function(jit_compile=True)
    def right():
        b.assign(b + 1.0 + 0.0 * a)

    left()
    right()

    def work(function):
        for _ in range(50):
            function()

    threads = [threading.Thread(target=work, args=[function]) for function in (left, right)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(a, np.full(64, 51))
    np.testing.assert_array_equal(b, np.full(64, 51))


def test_a_write_waits_for_reads_that_come_before_it(compiled, access):
    v = tf.Variable(tf.zeros([1000]))

    @tf.function(jit_compile=True)
    def read():
        return tf.reduce_sum(v)

    @tf.function
    def steps():
        results = []
        for _ in range(20):
            results.append(read())
            v.assign_add(tf.ones([1000]))
        return results

    np.testing.assert_array_equal([float(item) for item in steps()], np.arange(20) * 1000.0)


def test_the_same_variable_twice_is_refused_or_right(compiled, access):
    v = tf.Variable(1.0)

    @tf.function(jit_compile=True)
    def add(x, y):
        x.assign_add(y.read_value())

    add(v, v)
    assert float(v) == 2


@pytest.mark.parametrize("sparsely", [False, True])
def test_a_variable_given_twice_is_written_by_nobody_or_refused(compiled, sparsely):
    """Two reads beside another variable's write; a write of the one that is there twice."""
    v, w = tf.Variable([1.0, 2.0]), tf.Variable([5.0, 5.0])
    if sparsely:  # Such a variable stays locked while it is read.
        v.scatter_nd_add([[1]], [0.0])

    @tf.function(jit_compile=True)
    def step(a, b, c):
        c.assign_add(a * 2.0 + b)
        return a - c

    other = tf.Variable([3.0, 4.0])
    np.testing.assert_array_equal(step(v, other, w), [-9, -11])
    concrete = step.get_concrete_function(v, other, w)
    flat = concrete._inference_function
    np.testing.assert_array_equal(flat.call_flat(v.handle, v.handle, w.handle)[0], [-12, -17])
    np.testing.assert_array_equal(w, [13, 19])
    with pytest.raises(tf.errors.InvalidArgumentError, match="given twice"):
        flat.call_flat(w.handle, v.handle, w.handle)
    np.testing.assert_array_equal(w, [13, 19])
    for variable in (v, w):  # No lock was kept.
        variable.assign_add([1.0, 1.0])
    np.testing.assert_array_equal(w, [14, 20])


def test_a_variable_that_was_written_sparsely(compiled, access):
    v, w = tf.Variable(tf.zeros([4])), tf.Variable(tf.zeros([4]))
    v.scatter_nd_add([[1]], [5.0])

    @tf.function(jit_compile=True)
    def step():
        w.assign_add(v)
        v.assign_add(v)

    step()
    step()
    v.scatter_nd_add([[0]], [1.0])
    np.testing.assert_array_equal(v, [1, 20, 0, 0])
    np.testing.assert_array_equal(w, [0, 15, 0, 0])
