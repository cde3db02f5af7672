# SPDX-License-Identifier: Apache-2.0
"""When a function is compiled again, for what, and what the user is told of it."""

import gc
import logging

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.programs.beside import COMPILED

import ingot.tensorflow
from ingot.support import flags
from ingot.support.observing import COMPILED_AGAIN, ON_HOST, observed

X = np.arange(12, dtype=np.float32)


def _lines(part):
    gc.collect()  # Functions of other tests may be garbage.
    found = {
        name: item for name, item in ingot.tensorflow.specialisations().items() if part in name
    }
    assert len(found) == 1
    return next(iter(found.values()))


def test_a_value_is_compiled_for_once_and_explained():
    @tf.function(jit_compile=True)
    def first_of(x, n):
        return x[:n] * 2.0

    for _ in range(4):
        for count in (3, 5):
            np.testing.assert_array_equal(
                first_of(tf.constant(X), tf.constant(count)), X[:count] * 2
            )
    assert len(COMPILED) == 2
    for lines, count in zip(_lines("first_of"), (3, 5), strict=True):
        (line,) = lines
        assert f"argument 'n' = {count}: StridedSlice" in line
        assert "test_recompilation.py" in line
        assert "slice's bound" in line


def test_data_is_no_reason():
    @tf.function(jit_compile=True)
    def scaled(x, n):
        return tf.reverse(x, [0]) * tf.cast(n, tf.float32) + tf.linalg.band_part(x[:, None], n, 1)

    for count in range(3):
        scaled(tf.constant(X), tf.constant(count))
    assert len(COMPILED) == 1
    assert _lines("scaled") == ((),)


def test_a_roll_and_a_slice_in_a_loop_move_without_recompilation():
    def rolled(x, n):
        return tf.roll(tf.reshape(x, [3, 4]), [n, -n], [0, 1])

    compiled = tf.function(rolled, jit_compile=True)
    for shift in (-13, -4, -1, 0, 1, 3, 25):
        want = np.roll(X.reshape(3, 4), [shift, -shift], [0, 1])
        np.testing.assert_array_equal(compiled(tf.constant(X), tf.constant(shift)), want)
    assert len(COMPILED) == 1


@pytest.mark.parametrize("count", [1, 3])
def test_a_window_that_a_loop_moves(count):
    def f(x):
        def body(i, total):
            window = x[i * 2 : i * 2 + 4]
            strided = x[i + 1 : (i + 3) * 2 - i : 2]
            return i + 1, total + tf.reduce_sum(window**2) + tf.reduce_sum(strided**3)

        return tf.while_loop(lambda i, t: i < count, body, (0, 0.0), maximum_iterations=5)[1]

    def with_gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = f(x)
        return value, tape.gradient(value, x)

    want = tf.function(with_gradient)(tf.constant(X))
    got = tf.function(with_gradient, jit_compile=True)(tf.constant(X))
    np.testing.assert_allclose(got[0], want[0], rtol=1e-6)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-6)


def test_a_moving_window_from_the_end():
    def f(x):
        return tf.while_loop(
            lambda i, t: i < -3, lambda i, t: (i + 1, t * 2 + x[i : i + 2]), (-6, tf.zeros([2]))
        )[1]

    want = tf.function(f)(tf.constant(X))
    np.testing.assert_allclose(tf.function(f, jit_compile=True)(tf.constant(X)), want)


def test_a_moving_window_that_is_cut_is_an_error():
    @tf.function(jit_compile=True)
    def f(x):
        return tf.while_loop(
            lambda i, t: i != 13, lambda i, t: (i + 1, t + tf.reduce_sum(x[i : i + 2])), (8, 0.0)
        )[1]

    with pytest.raises(tf.errors.InvalidArgumentError, match="slice of 2 elements reaches over"):
        f(tf.constant(X))


def test_an_assignment_to_a_moving_window():
    def f(variable):
        def body(i):
            variable[i : i + 2].assign(variable[i + 1 : i + 3] + 1.0)
            return (i + 1,)

        tf.while_loop(lambda i: i < 6, body, (tf.constant(2),))
        return variable.read_value()

    results = []
    for jit in (None, True):
        variable = tf.Variable(X)
        results.append(np.asarray(tf.function(f, jit_compile=jit)(variable)))
    np.testing.assert_array_equal(*results)


def test_branches_of_different_shapes():
    @tf.function(jit_compile=True)
    def f(x, flag):
        return tf.cond(flag, lambda: x[:3], lambda: x)

    assert f(tf.constant(X), tf.constant(True)).shape == [3]
    assert f(tf.constant(X), tf.constant(False)).shape == [12]
    assert "condition" in _lines("__inference_f_")[0][0]


def test_a_size_of_one_is_broadcast():
    spec = tf.TensorSpec([None])

    @tf.function(jit_compile=True, input_signature=[spec, spec])
    def added(x, y):
        return x + y

    for left, right in ((5, 5), (7, 7), (1, 6), (6, 1), (1, 1), (9, 9)):
        result = added(tf.ones([left]), tf.ones([right]))
        np.testing.assert_array_equal(result, np.full([max(left, right)], 2.0))
    assert len(COMPILED) <= 4


def test_a_variable_that_the_function_writes_and_takes_a_size_from():
    variable = tf.Variable(2)

    @tf.function(jit_compile=True)
    def step(x):
        part = x[:variable]
        variable.assign_add(1)
        return part, tf.zeros([variable])

    for count in (2, 3, 4):
        before, after = step(tf.constant(X))
        assert before.shape == [count]
        assert after.shape == [count + 1]
    variable.assign(2)
    assert step(tf.constant(X))[0].shape == [2]
    assert len(COMPILED) == 3


def test_structure_that_a_loop_changes_is_an_error():
    @tf.function(jit_compile=True)
    def f(x):
        return tf.while_loop(
            lambda i, t: i < 3, lambda i, t: (i + 1, t + tf.reduce_sum(tf.cumsum(x, i))), (0, 0.0)
        )[1]

    with pytest.raises(tf.errors.InvalidArgumentError, match="a loop changes it") as caught:
        f(tf.constant(X))
    assert "test_recompilation.py" in str(caught.value)


def test_structure_that_large_data_decides_is_an_error():
    @tf.function(jit_compile=True)
    def f(x):
        return tf.cumsum(x, tf.cast(tf.reduce_sum(x), tf.int32))

    with pytest.raises(tf.errors.InvalidArgumentError, match="the 5000 elements of 'x'"):
        f(tf.ones([5000]))


def test_many_recompilations_are_told_once(caplog):
    @tf.function(jit_compile=True)
    def slow(x, n):
        return tf.cumsum(tf.reshape(x, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1]), n)

    with caplog.at_level(logging.WARNING, logger="ingot.tensorflow"):
        for count in range(11):
            slow(tf.constant(X), tf.constant(count))
    (record,) = caplog.records
    text = record.getMessage()
    assert "the function 'slow'" in text
    assert "was compiled 8 times" in text
    assert "7, 6, 5, 4, 3, ... for argument 'n', because Cumsum" in text
    assert "test_recompilation.py" in text


def test_each_recompilation_is_logged(capfd):
    @tf.function(jit_compile=True)
    def logged(n):
        return tf.range(n)

    with flags.override(flags.DEBUG, 1):
        logged(tf.constant(3))
        logged(tf.constant(4))
    lines = [
        line for line in capfd.readouterr().err.splitlines() if "tensorflow.specialised" in line
    ]
    assert len(lines) == 2
    assert "program=2" in lines[1]
    assert "argument 'n' = 4" in lines[1]


def test_calls_from_graphs_and_maps():
    @tf.function(jit_compile=True)
    def first_of(x, n):
        return x[:n]

    outer = tf.function(lambda x, n: first_of(x, n) + 1.0)
    for count in (2, 4, 2):
        np.testing.assert_array_equal(outer(tf.constant(X), tf.constant(count)), X[:count] + 1)
    data = tf.data.Dataset.from_tensor_slices([3, 1, 3]).map(lambda n: first_of(tf.constant(X), n))
    assert [len(item) for item in data] == [3, 1, 3]


def test_gradients_of_specialised_functions():
    @tf.function(jit_compile=True)
    def f(x, n):
        return tf.reduce_sum(tf.tile(x[:n], [n]) ** 2)

    for count in (2, 3):
        x = tf.constant(X)
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = f(x, tf.constant(count))
        want = np.where(np.arange(12) < count, 2 * count * X, 0)
        np.testing.assert_allclose(tape.gradient(value, x), want)


def test_reports_are_told_of_what_was_compiled_again_and_of_the_host():
    @tf.function(jit_compile=True)
    def taken(x, n):
        return tf.reverse(x[:n], [0]), tf.strings.as_string(x)

    with observed() as found:
        taken(tf.constant(X), tf.constant(3))
        assert {item.kind for item in found} == {ON_HOST}
        taken(tf.constant(X), tf.constant(4))
    host, again = found[0], next(item for item in found if item.kind == COMPILED_AGAIN)
    assert "the function 'taken'" in host.function
    assert "AsString" in host.reasons[0]
    assert "test_recompilation.py" in host.reasons[0]
    assert again.reasons[0].startswith("argument 'n' = 4: StridedSlice")
