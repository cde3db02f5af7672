# SPDX-License-Identifier: Apache-2.0
"""Loops and branches that depend on data, nested, and gradients through them."""

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.programs.beside import check, numbers


def test_loops_of_unknown_length():
    def program(jit):
        @tf.function(jit_compile=jit)
        def collatz(n):
            steps = 0
            while n != 1:
                n = n // 2 if n % 2 == 0 else 3 * n + 1
                steps += 1
            return steps

        @tf.function(jit_compile=jit)
        def newton(x):
            guess = x
            for _ in tf.range(50):
                better = 0.5 * (guess + x / guess)
                if tf.reduce_max(tf.abs(better - guess)) < 1e-6:
                    break
                guess = better
            return guess

        return [collatz(tf.constant(n)) for n in (1, 7, 27)], newton(tf.constant([2.0, 9.0]))

    check(program)


def test_branches_and_cases():
    def program(jit):
        @tf.function(jit_compile=jit)
        def f(x, which):
            y = tf.switch_case(
                which, [lambda: x, lambda: x * 2.0, lambda: tf.reverse(x, [0])], default=lambda: -x
            )
            z = tf.case([(which > 1, lambda: y + 1.0), (which > 0, lambda: y - 1.0)], lambda: y)
            if tf.reduce_sum(x) > 0.0:
                return y, z
            return z, y

        x = tf.constant([1.0, 2.0, 3.0])
        return [f(x * s, tf.constant(n)) for n in (-1, 0, 1, 2, 7) for s in (1.0, -1.0)]

    check(program)


@pytest.mark.parametrize("inside", [True, False])
def test_gradients_through_branches(inside):
    def program(jit):
        w = tf.Variable([1.0, -2.0])

        def value(x):
            return tf.cond(
                tf.reduce_sum(x) > 0.0,
                lambda: tf.reduce_sum(tf.exp(x * w)),
                lambda: tf.reduce_sum(w**2 * x),
            )

        f = tf.function(value, jit_compile=jit if not inside else None)

        def gradients(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            return y, tape.gradient(y, [x, w])

        if inside:
            gradients = tf.function(gradients, jit_compile=jit)
        return [gradients(tf.constant(x)) for x in ([1.0, 2.0], [-1.0, -2.0])]

    check(program)


@pytest.mark.parametrize("inside", [True, False])
def test_gradients_through_a_loop_of_known_length(inside):
    def program(jit):
        w = tf.Variable(numbers(3, 3) * 0.5)

        def value(x):
            return tf.while_loop(
                lambda n, h: n < 4,
                lambda n, h: (n + 1, tf.nn.tanh(h @ w)),
                [0, x],
                maximum_iterations=4,
            )[1]

        f = tf.function(value, jit_compile=jit if not inside else None)

        def gradients(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(f(x))
            return y, tape.gradient(y, [x, w])

        if inside:
            gradients = tf.function(gradients, jit_compile=jit)
        return gradients(tf.constant(numbers(2, 3)))

    check(program)


@pytest.mark.parametrize("inside", [True, False])
def test_gradients_through_a_loop_of_unknown_length(inside):
    def program(jit):
        def value(x):
            steps = 0
            while tf.reduce_sum(x * x) < 100.0:
                x = x * 1.5 + tf.sin(x)
                steps += 1
            return tf.reduce_sum(x), steps

        f = tf.function(value, jit_compile=jit if not inside else None)

        def gradients(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y, steps = f(x)
            return y, steps, tape.gradient(y, x)

        if inside:
            gradients = tf.function(gradients, jit_compile=jit)
        return [gradients(tf.constant(x)) for x in ([1.0, 2.0], [0.1, 0.2], [20.0, 1.0])]

    check(program)


def test_nested_loops_and_branches_with_gradients():
    def program(jit):
        @tf.function(jit_compile=jit)
        def f(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                total = tf.zeros([])
                for row in tf.range(3):
                    part = x[row]
                    for column in tf.range(row + 1):
                        if column % 2 == 0:  # noqa: SIM108 - AutoGraph's own branch
                            part = part * 1.1
                        else:
                            part = tf.sin(part)
                    total += tf.reduce_sum(part)
            return total, tape.gradient(total, x)

        return f(tf.constant(numbers(3, 2)))

    check(program)


def test_tensor_arrays():
    def program(jit):
        @tf.function(jit_compile=jit)
        def powers(x):
            array = tf.TensorArray(tf.float32, size=5, element_shape=x.shape)
            for n in tf.range(5):
                array = array.write(n, x ** tf.cast(n, tf.float32))
            return array.stack(), array.read(2), array.size()

        @tf.function(jit_compile=jit)
        def running(x):
            source = tf.TensorArray(tf.float32, size=x.shape[0]).unstack(x)
            result = tf.TensorArray(tf.float32, size=x.shape[0], element_shape=[])
            total = tf.zeros([])
            for n in tf.range(x.shape[0]):
                total += tf.reduce_sum(source.read(n))
                result = result.write(n, total)
            return result.stack()

        @tf.function(jit_compile=jit)
        def with_gradient(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                array = tf.TensorArray(tf.float32, size=3, element_shape=[2])
                h = x
                for n in tf.range(3):
                    h = tf.tanh(h) * 1.5
                    array = array.write(n, h)
                y = tf.reduce_sum(array.stack() * tf.constant([[1.0], [2.0], [3.0]]))
            return y, tape.gradient(y, x)

        x = tf.constant(numbers(4, 2))
        return powers(x), running(x), with_gradient(x[0])

    check(program)


def test_scan_map_and_fold():
    def program(jit):
        @tf.function(jit_compile=jit)
        def f(x):
            sums = tf.scan(lambda total, row: total + row, x)
            mapped = tf.map_fn(lambda row: tf.reduce_sum(row) * row, x)
            folded = tf.foldl(lambda total, row: total * 0.5 + row, x)
            vectorized = tf.vectorized_map(lambda row: tf.reduce_max(row) - row, x)
            return sums, mapped, folded, vectorized

        @tf.function(jit_compile=jit)
        def gradient(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(tf.scan(lambda total, row: tf.tanh(total + row), x))
            return tape.gradient(y, x)

        x = tf.constant(numbers(5, 3))
        return f(x), gradient(x)

    check(program)


def test_a_loop_over_an_open_size():
    def program(jit):
        @tf.function(jit_compile=jit, input_signature=[tf.TensorSpec([None, 2], tf.float32)])
        def f(x):
            total = tf.zeros([2])
            for n in tf.range(tf.shape(x)[0]):
                total = total * 0.9 + x[n]
            rows = tf.zeros([2])
            for row in x:
                rows += row
            return total, rows

        return [f(numbers(n, 2)) for n in (1, 2, 5)]

    check(program)


def test_a_loop_carries_many_types():
    def program(jit):
        @tf.function(jit_compile=jit)
        def f(x):
            n, flag, big, half = (
                0,
                tf.constant(True),
                tf.constant(1, tf.int64),
                tf.cast(x, tf.float16),
            )
            while flag:
                big = big * 3
                half = half * tf.constant(0.5, tf.float16)
                n += 1
                flag = n < 5 and tf.reduce_any(half > 0.01)
            return n, flag, big, half

        return f(tf.constant([1.0, 2.0]))

    check(program, rtol=1e-3)


def test_continue_break_and_return():
    def program(jit):
        @tf.function(jit_compile=jit)
        def f(x):
            total = tf.constant(0.0)
            for n in tf.range(10):
                if x[n] < 0.0:
                    continue
                if total > 3.0:
                    break
                total += x[n]
            if total > 100.0:
                return -1.0
            return total

        return [f(tf.constant(numbers(10, seed=s))) for s in range(4)]

    check(program)


def test_short_circuits():
    def program(jit):
        @tf.function(jit_compile=jit)
        def f(x, n):
            tf.debugging.assert_greater(n, 0)
            if (n > 0 and x[0] / tf.cast(n, tf.float32) > 0.1) or x[1] > 5.0:
                return x * 2.0
            return x

        return [f(tf.constant([1.0, x]), tf.constant(n)) for x, n in ((2.0, 2), (9.0, 99))]

    check(program)


def test_assertions_assert():
    count = tf.Variable(0)

    @tf.function(jit_compile=True)
    def f(x, n):
        tf.debugging.assert_greater(n, 0, message="n must be positive")
        x = tf.debugging.check_numerics(x, "x is broken")
        for _ in tf.range(n):
            tf.debugging.Assert(tf.reduce_max(x) < 100.0, ["too large:", x])
            x = x * 2.0
        count.assign_add(1)
        return x

    x = tf.constant([1.0, 2.0])
    np.testing.assert_array_equal(f(x, tf.constant(3)), [8.0, 16.0])
    cases = [(x, 0, "n must be positive"), (x, 9, "too large:"), (x / 0.0, 1, "x is broken")]
    for given, n, text in cases:
        with pytest.raises(tf.errors.InvalidArgumentError, match=text) as error:
            f(given, tf.constant(n))
        assert "test_control_flow.py" in error.value.message
    assert int(count) == 1


def test_an_assertion_in_a_graph_fails_the_graph():
    @tf.function(jit_compile=True)
    def inner(x):
        tf.debugging.assert_less(x, 3.0, message="not less")
        return x + 1.0

    @tf.function
    def outer(x):
        return inner(x) * 2.0

    assert float(outer(tf.constant(1.0))) == 4.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="not less"):
        outer(tf.constant(5.0))


def test_a_loop_that_outgrows_its_room_gets_more(compiled):
    @tf.function(jit_compile=True)
    def f(x, limit):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            while y[0, 0] < limit:
                y = tf.maximum(y + 1.0, 0.5 * y)
        return tape.gradient(y, x)

    x = tf.zeros([64, 64])
    np.testing.assert_array_equal(f(x, tf.constant(100.0)), np.ones([64, 64]))
    for _ in range(2):
        np.testing.assert_array_equal(f(x, tf.constant(300.0)), np.ones([64, 64]))
    assert len(compiled) > 1


@pytest.mark.parametrize("size", [2, 5, 6, 7])
def test_branch_never_taken_need_not_fit(size):
    """A scan by halves: one branch is for rows that come out even, one for those that do not."""

    def interleaved(a, b):
        count, other = tf.shape(a)[0], tf.shape(b)[0]

        def with_b(a):
            pairs = tf.concat([tf.expand_dims(a, 1), tf.expand_dims(b, 1)], 1)
            return tf.reshape(pairs, tf.concat([[2 * other], tf.shape(a)[1:]], 0))

        def first(start, stop):
            return tf.gather(a, tf.range(start, stop))

        return tf.cond(
            tf.equal(count, other + 1),
            lambda: tf.concat([with_b(first(0, count - 1)), first(count - 1, count)], 0),
            lambda: with_b(first(0, count)),
        )

    def program(jit):
        @tf.function(jit_compile=jit)
        def f(x):
            # TensorFlow's own gradient of this fails for odd sizes.
            return interleaved(tf.sin(x[::2]), x[1::2] ** 2)

        return f(tf.constant(numbers(size, 3)))

    check(program)
