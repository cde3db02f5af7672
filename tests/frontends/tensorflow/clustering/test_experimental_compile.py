# SPDX-License-Identifier: Apache-2.0
"""`tf.xla.experimental.compile` in sessions, functions and eagerly: results, effects, errors."""

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.programs import beside

v1 = tf.compat.v1
compile_ = tf.xla.experimental.compile


compiled = beside.compiled


def in_session(build, runs=1):
    """Return what `build` returns in a graph, and what a session makes of it."""
    with tf.Graph().as_default(), v1.Session() as session:
        made = build()
        session.run(v1.global_variables_initializer())
        for _ in range(runs):
            found = session.run(made)
        return made, found


def variable(**options):
    return v1.get_variable("v", initializer=1.0, use_resource=True, **options)


def test_results_are_lists(compiled):
    one, found = in_session(lambda: compile_(lambda a: a * 2.0, [tf.constant([1.0, 2.0])]))
    assert isinstance(one, list)
    np.testing.assert_array_equal(found, [[2.0, 4.0]])
    _, found = in_session(
        lambda: compile_(lambda a, b: (a * b, a + b), [tf.constant(2.0), tf.constant(3.0)])
    )
    assert found == [6.0, 5.0]
    assert in_session(lambda: compile_(lambda: tf.constant(3.0) * 2.0))[1] == [6.0]
    assert len(compiled) == 3


def test_nested_structures_and_outer_tensors():
    def build():
        outer = tf.constant(2.0) * 3.0
        return compile_(
            lambda d: {"x": d[0] * outer, "y": [d[1]]}, [[tf.constant(1.0), tf.constant(2.0)]]
        )

    assert in_session(build)[1] == {"x": 6.0, "y": [2.0]}


def test_variables_and_control_dependencies():
    def build():
        v = variable()

        def step(a):
            with tf.control_dependencies([v.assign_add(a)]):
                return v.read_value() * 2.0

        return compile_(step, [tf.constant(3.0)])

    assert in_session(build, runs=3)[1] == [20.0]

    def inside():
        return compile_(lambda a: variable() * a, [tf.constant(3.0)])

    assert in_session(inside)[1] == [3.0]


def test_operations_run_with_the_results(compiled):
    def build(results):
        v = variable()
        made = compile_(lambda a: (*results(a), v.assign_add(a).op), [tf.constant(3.0)])
        session = v1.get_default_session()
        session.run(v1.global_variables_initializer())
        session.run(made)
        session.run(made)
        return made, session.run(v)

    with tf.Graph().as_default(), v1.Session():
        made, value = build(lambda a: (a * 2.0,))
        assert len(made) == 1
        assert value == 7.0
    with tf.Graph().as_default(), v1.Session():
        made, value = build(lambda a: ())
        assert isinstance(made, tf.Operation)
        assert value == 7.0
    nothing, found = in_session(lambda: compile_(lambda: None))
    assert isinstance(nothing, tf.Operation)
    assert found is None
    assert len(compiled) == 2


def test_gradients():
    def build():
        x = tf.constant([1.0, 2.0])
        inner = compile_(lambda a: tf.gradients(a**3, a)[0], [x])[0]
        outer = tf.gradients(compile_(lambda a: tf.reduce_sum(a**3), [x])[0], x)[0]
        return inner, outer

    for found in in_session(build)[1]:
        np.testing.assert_allclose(found, [3.0, 12.0], rtol=1e-6)


def test_eagerly_and_in_functions(compiled):
    w = tf.Variable(1.0)

    def step(a):
        w.assign_add(a)
        return w * 1.0

    assert float(compile_(step, [tf.constant(2.0)])[0]) == 3.0
    assert float(w) == 3.0

    @tf.function
    def f(x):
        return compile_(lambda a: (tf.sin(a), a + 1.0), [x])

    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = f(x)[0]
    np.testing.assert_allclose(tape.gradient(y, x), np.cos(2.0), rtol=1e-6)
    assert len(compiled) >= 2


@pytest.mark.parametrize(
    ("computation", "inputs", "kind", "message"),
    [
        (lambda a: (tf.no_op(), a), [1.0], ValueError, "followed by zero or more Operations"),
        (lambda a: object(), [1.0], ValueError, "convertible to Tensors"),
        (lambda a: {"o": tf.no_op()}, [1.0], ValueError, "non-flat output structure"),
        (lambda a: a, 1.0, TypeError, "inputs must be a list"),
        (lambda a: compile_(lambda b: b, [a]), [1.0], ValueError, "cannot be nested"),
        (
            lambda a: v1.assign_add(v1.get_variable("v", use_resource=False), a),
            [1.0],
            NotImplementedError,
            "Non-resource Variables are not supported inside XLA computations",
        ),
    ],
)
def test_errors_are_tensorflows(computation, inputs, kind, message):
    with tf.Graph().as_default(), v1.variable_scope("", reuse=v1.AUTO_REUSE):
        v1.get_variable("v", initializer=1.0, use_resource=False)
        with pytest.raises(kind, match=message):
            compile_(computation, inputs)
