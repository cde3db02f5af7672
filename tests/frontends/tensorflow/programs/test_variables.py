# SPDX-License-Identifier: Apache-2.0
"""Variables in compiled functions: created, read, written, shared, in TensorFlow's order."""

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.programs.beside import check


def test_reads_and_writes_in_order():
    def program(jit):
        v = tf.Variable([1.0, 2.0])

        @tf.function(jit_compile=jit)
        def f(x):
            before = v.read_value()
            v.assign(x)
            middle = v + 0.0
            v.assign_add(x)
            v.assign_sub([1.0, 1.0])
            after = v * 1.0
            v.assign(v * 2.0)
            return before, middle, after

        x = tf.constant([5.0, 7.0])
        return f(x), v.read_value(), f(x), v.read_value()

    check(program)


def test_created_at_the_first_call():
    def program(jit):
        class Counter(tf.Module):
            total = None

            @tf.function(jit_compile=jit)
            def add(self, x):
                if self.total is None:
                    self.total = tf.Variable(tf.zeros_like(x) + 10.0)
                return self.total.assign_add(x)

        counter = Counter()
        x = tf.constant([1.0, 2.0])
        return counter.add(x), counter.add(x), counter.add(x), counter.total

    check(program)


def test_shared_by_functions():
    def program(jit):
        v = tf.Variable(1.0)

        @tf.function(jit_compile=jit)
        def double():
            v.assign(v * 2.0)

        @tf.function(jit_compile=jit)
        def add(x):
            return v.assign_add(x)

        @tf.function
        def both(x):
            double()
            first = add(x)
            double()
            return first, v.read_value()

        double()
        values = [add(3.0), both(1.0), both(1.0)]
        v.assign(100.0)
        return values, add(1.0), both(2.0)

    check(program)


def test_values_read_before_a_write_stay():
    def program(jit):
        v = tf.Variable(np.arange(1000, dtype=np.float32))

        @tf.function(jit_compile=jit)
        def f():
            v.assign_add(tf.ones([1000]))

        old = v.read_value()
        view = v.numpy()
        f()
        return old, view, v.read_value()

    check(program)


def test_indexed_updates():
    def program(jit):
        v = tf.Variable(tf.zeros([5, 2]))

        @tf.function(jit_compile=jit)
        def f(indices, rows):
            v.scatter_nd_add(indices[:, None], rows)
            v[1].assign(rows[0])
            return tf.gather(v, indices), v[2:4]

        @tf.function(jit_compile=jit)
        def sparse(indices, rows):
            v.scatter_add(tf.IndexedSlices(rows, indices))
            v.scatter_update(tf.IndexedSlices(rows[:1], indices[:1]))
            return v.sparse_read(indices)

        rows = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        indices = tf.constant([4, 2, 4])
        return f(indices, rows), sparse(indices, rows), v.read_value()

    check(program)


def test_written_in_branches_and_loops():
    def program(jit):
        v = tf.Variable(1.0)
        steps = tf.Variable(0)

        @tf.function(jit_compile=jit)
        def f(x):
            if x > 0.0:
                v.assign_add(x)
            else:
                steps.assign(100)
            while v < 50.0:
                v.assign(v * 2.0)
                steps.assign_add(1)
            return v + 1.0

        return [(f(tf.constant(x)), v.read_value(), steps.read_value()) for x in (3.0, -1.0, 2.0)]

    check(program)


def test_many_element_types():
    def program(jit):
        variables = [
            tf.Variable(tf.cast([0, 1, 2], dtype))
            for dtype in ("float16", "bfloat16", "float64", "int32", "int64", "uint8", "bool")
        ]

        @tf.function(jit_compile=jit)
        def f():
            for v in variables:
                v.assign(v[::-1] if v.dtype == tf.bool else v + v)

        f()
        f()
        return [v.read_value() for v in variables]

    check(program)


def test_a_variable_that_is_only_written():
    def program(jit):
        v = tf.Variable(tf.zeros([3]))

        @tf.function(jit_compile=jit)
        def f(x):
            v.assign(x * 2.0)

        f(tf.constant([1.0, 2.0, 3.0]))
        return v.read_value()

    check(program)


def test_a_value_of_another_shape_is_refused_and_changes_nothing():
    """Where the value of an argument, the size of one or the data decides the shape."""
    sized, given, chosen, looped = (tf.Variable([1.0, 2.0]) for _ in range(4))
    free = tf.Variable([1.0, 2.0], shape=tf.TensorShape([None]))

    @tf.function(jit_compile=True)
    def write_sized(n):
        sized.assign(tf.zeros(n))
        free.assign(tf.zeros(n))

    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None])])
    def write_given(x):
        given.assign(x)

    @tf.function(jit_compile=True)
    def write_chosen(x):
        chosen.assign(tf.boolean_mask(x, x > 0))

    @tf.function(jit_compile=True)
    def write_looped(x):
        for step in tf.range(2.0):
            looped.assign(tf.boolean_mask(x, x > step))

    wrong = "wrong shape. Expected .2. got .3.|sizes .* must be equal"
    for write, fits, other, variable in (
        (write_sized, tf.constant(2), tf.constant(3), sized),
        (write_given, tf.ones([2]), tf.ones([3]), given),
        (write_chosen, tf.constant([3.0, -1.0, 4.0]), tf.constant([3.0, 1.0, 4.0]), chosen),
        (write_looped, tf.constant([3.0, -1.0, 4.0]), tf.constant([3.0, 1.0, 4.0]), looped),
    ):
        write(fits)
        before = variable.numpy()
        with pytest.raises(tf.errors.InvalidArgumentError, match=wrong):
            write(other)
        np.testing.assert_array_equal(variable.numpy(), before)
    free.assign(tf.ones([5]))


def test_random_numbers_go_on_from_call_to_call():
    """TensorFlow's own numbers, also of ops that keep their state in the node."""

    def program(jit):
        @tf.function(jit_compile=jit)
        def inner(x):
            return x + tf.random.uniform([2])

        @tf.function(jit_compile=jit)
        def f(x):
            drawn = tf.random.normal([3]), tf.random.uniform([4], seed=5)
            whole = tf.random.uniform([3], 0, 100, tf.int32), tf.random.truncated_normal([5])
            dropped = tf.nn.dropout(x, 0.5)
            for _ in tf.range(3):
                x += tf.random.normal([2])
            if x[0] > 0.0:
                x += tf.random.uniform([2])
            return drawn, whole, dropped, inner(x), tf.random.normal(tf.shape(x))

        return [f(tf.ones([2])) for _ in range(4)], inner(tf.ones([2])), inner(tf.ones([2]))

    check(program)


def test_a_seed_starts_random_numbers_again():
    def program(jit):
        tf.random.set_seed(3)

        @tf.function(jit_compile=jit)
        def whole(x):
            return tf.nn.dropout(x, 0.5) + tf.random.uniform([8], seed=7)

        @tf.function(jit_compile=jit)
        def cut(x):
            return tf.numpy_function(np.sin, [tf.nn.dropout(x, 0.5, seed=2)], tf.float32) + whole(x)

        def draw():
            return [function(tf.ones([8])) for function in (whole, cut, whole)]

        found = [draw(), draw()]
        for seed in (3, 4):
            tf.random.set_seed(seed)
            found.append(draw())
        assert not np.array_equal(found[0][0], found[1][0])
        return tf.nest.flatten(found)

    check(program)


def test_random_numbers_without_a_seed_differ():
    def draw():
        # Seeds of zero are TensorFlow's way to say: any.
        return tf.raw_ops.RandomUniform(shape=[8], dtype=tf.float32, seed=0, seed2=0)

    compiled = tf.function(draw, jit_compile=True)
    first, second = compiled().numpy(), compiled().numpy()
    assert (first != second).any()
    assert ((first >= 0) & (first < 1)).all()
    tf.random.set_seed(3)
    assert (compiled().numpy() != first).any()

    def rows():
        return tf.nn.fractional_max_pool(tf.zeros([1, 150, 3, 1]), [1, 1.5, 1, 1])[1]

    compiled = tf.function(rows, jit_compile=True)
    first, second = compiled().numpy(), compiled().numpy()
    assert (first != second).any()
    assert sorted(np.diff(first)) == [1] * 50 + [2] * 50


def test_shuffles_picks_and_distributions_go_on_from_call_to_call():
    """From a global seed and from op seeds, as TensorFlow's own kernels."""

    def program(jit):
        logits = tf.constant([[0.0, 1.0, -1.0, 2.0]] * 3)

        @tf.function(jit_compile=jit)
        def draw():
            return (
                tf.random.shuffle(tf.range(11), seed=3),
                tf.random.shuffle(logits),
                tf.random.categorical(logits, 6),
                tf.random.categorical(logits, 5, seed=4, dtype=tf.int32),
                tf.random.gamma([4, 3], [0.3, 1.0, 2.5], seed=1),
                tf.random.poisson([5], [0.5, 40.0], seed=2),
                tf.raw_ops.ParameterizedTruncatedNormal(
                    shape=[3, 2], means=[0.0, 1.0, 5.0], stdevs=1.0, minvals=-1.0, maxvals=2.0,
                    seed=5,
                ),
                tf.raw_ops.ParameterizedTruncatedNormal(
                    shape=[111], means=0.0, stdevs=1.0, minvals=-0.5, maxvals=2.0, seed=6
                ),
                tf.random.normal([3]),
            )  # fmt: skip

        return [draw() for _ in range(3)]

    check(program, rtol=1e-6, atol=1e-7)
