# SPDX-License-Identifier: Apache-2.0
"""Compiled functions in graphs that a session runs, and the words in which they refuse values."""

import re

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.function.polymorphism import function_type
from tensorflow.python.eager.polymorphic_function import attributes, concrete_function
from tensorflow.python.framework import func_graph

RAW = tf.raw_ops


def test_random_ops_go_on_from_run_to_run_in_each_session(compiled):
    def runs(jit_compile):
        with tf.Graph().as_default():
            tf.compat.v1.set_random_seed(3)
            drawn = tf.function(
                lambda x: x + tf.random.normal([3], seed=5), jit_compile=jit_compile
            )(tf.constant(1.0))
            found = []
            for _ in range(2):
                with tf.compat.v1.Session() as session:
                    found.append([session.run(drawn) for _ in range(3)])
            return np.array(found)

    found = runs(True)
    assert compiled
    np.testing.assert_allclose(found, runs(None), rtol=1e-5)
    np.testing.assert_array_equal(found[0], found[1])
    assert len(np.unique(found[0])) == 9


REFUSED = {
    "weights` must be the same shape": lambda: RAW.Bincount(arr=6, size=9, weights=[52, 351]),
    "sparse_values has incorrect shape \\[3\\], should be \\[\\] or \\[2\\]": (
        lambda: RAW.SparseToDense(
            sparse_indices=[1, 3], output_shape=[5], sparse_values=[1, 2, 3], default_value=-1
        )
    ),
    "default_value should be a scalar": lambda: RAW.SparseToDense(
        sparse_indices=[1, 3], output_shape=[5], sparse_values=[1, 2], default_value=[0]
    ),
    "seq_dim must be >=0": lambda: RAW.ReverseSequence(
        input=[[1, 2], [3, 4]], seq_lengths=[2, 2], seq_dim=-1
    ),
}


REDUCTION_AXES = {
    "Invalid reduction dim.*-33": [-33],
    "Invalid reduction dim.*2 for": [2],
    "Axes contains duplicate dimension": [0, -2],
}


@pytest.mark.parametrize("words", REDUCTION_AXES)
def test_axes_that_no_reduction_has_are_refused_when_they_are_known(words):
    function = tf.function(lambda x, axes: tf.reduce_sum(x, axes), jit_compile=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        function(tf.ones([2, 3]), tf.constant(REDUCTION_AXES[words]))


@pytest.mark.parametrize("words", REFUSED)
def test_a_value_that_does_not_fit_is_refused_in_the_words_of_tensorflows_xla(words):
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=words):
        tf.function(REFUSED[words], jit_compile=True)()


def test_a_shape_that_is_not_the_promised_one_is_refused():
    function = tf.function(
        lambda x: tf.ensure_shape(x, [None, 3, 3]),
        jit_compile=True,
        input_signature=[tf.TensorSpec(None, tf.int32)],
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="not compatible with expected shape"):
        function(tf.ones([3, 3], tf.int32))


def test_host_ops_in_branches_and_loops_of_a_compiled_function():
    """A session's graph has a library of its own: what a body calls must be in it."""

    def sorted_by_numpy(x):
        return tf.ensure_shape(tf.numpy_function(np.sort, [x], tf.float32), x.shape)

    @tf.function(jit_compile=True)
    def function(x):
        y = tf.cond(x[0] > 0, lambda: sorted_by_numpy(x) * 2, lambda: x - 1)
        return tf.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, sorted_by_numpy(-y)), [0, y])

    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [3], "x")
        y = tf.identity(function(x)[1], "y")
        with tf.compat.v1.Session() as session:
            np.testing.assert_array_equal(session.run(y, {x: [3, 1, 2]}), [2, 4, 6])
            np.testing.assert_array_equal(session.run(y, {x: [-3, 1, 2]}), [-4, 0, 1])
    exported = graph.as_graph_def()
    assert not [item for item in exported.library.function if "_ingot_" in item.signature.name]
    with tf.Graph().as_default():
        tf.import_graph_def(exported, name="")
        with tf.compat.v1.Session() as session:
            np.testing.assert_array_equal(session.run("y:0", {"x:0": [3, 1, 2]}), [2, 4, 6])


def test_what_constants_decide_on_the_host_is_computed_in_a_graph_too():
    with tf.Graph().as_default():
        points = tf.function(lambda: tf.math.sobol_sample(3, 5) * 2, jit_compile=True)()
        refused = tf.function(REFUSED["weights` must be the same shape"], jit_compile=True)()
        with tf.compat.v1.Session() as session:
            np.testing.assert_array_equal(session.run(points)[0], [1, 1, 1])
            with pytest.raises(tf.errors.InvalidArgumentError, match="weights"):
                session.run(refused)


def powers(x, count=3):
    return tf.while_loop(lambda i, _: i < count, lambda i, a: (i + 1, a * x + tf.sin(a)), [0, x])[1]


def loop_in_a_branch(x):
    return tf.cond(tf.reduce_sum(x) > 2, lambda: powers(x), lambda: powers(x, 2) * 2)


def loop_in_one_branch(x):
    return tf.switch_case(
        tf.cast(tf.reduce_sum(x), tf.int32), [lambda: x * x, lambda: tf.exp(x), lambda: powers(x)]
    )


def branch(x):
    return tf.cond(tf.reduce_sum(x) > 2, lambda: x * x * 3, lambda: tf.exp(x))


def branch_in_a_loop(x):
    def body(i, a):
        halved = tf.cond(tf.reduce_sum(a) > 9, lambda: a * 0.5 * x, lambda: a * a)
        return i + 1, halved

    return tf.while_loop(lambda i, _: i < 4, body, [0, x])[1]


BRANCHES = [loop_in_a_branch, loop_in_one_branch, branch, branch_in_a_loop]
POINTS = [np.array(point, np.float32) for point in ([0.5, 1.1, 0.9], [0.2, 0.5, 0.4])]


@pytest.mark.parametrize("size", [3, None])
@pytest.mark.parametrize("program", BRANCHES)
def test_a_session_differentiates_branches_and_loops(compiled, program, size):
    """What a branch remembers for its gradient leaves the function, and the others give none."""

    def gradients(jit_compile):
        with tf.Graph().as_default():
            x = tf.compat.v1.placeholder(tf.float32, [size])
            y = tf.function(program, jit_compile=jit_compile)(x)
            first = tf.gradients(y, x)[0]
            wanted = [y, first, *filter(lambda item: item is not None, tf.gradients(first, x))]
            with tf.compat.v1.Session() as session:
                return [value for point in POINTS for value in session.run(wanted, {x: point})]

    found = gradients(True)
    assert len(compiled) >= 2
    for got, want in zip(found, gradients(None), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4)


@pytest.mark.parametrize("size", [3, None])
@pytest.mark.parametrize("program", BRANCHES)
def test_a_tape_outside_differentiates_branches_and_loops(compiled, program, size):
    def gradients(jit_compile):
        signature = [tf.TensorSpec([size])]
        function = tf.function(program, jit_compile=jit_compile, input_signature=signature)
        for point in map(tf.constant, POINTS):
            with tf.GradientTape() as tape:
                tape.watch(point)
                y = function(point)
            yield tape.gradient(y, point).numpy()

    found = list(gradients(True))
    assert len(compiled) >= 2
    for got, want in zip(found, gradients(None), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4)


def test_a_cut_function_writes_what_no_control_output_names():
    """A function of an imported graph has no control outputs: its writes hang on its outputs."""

    def runs(jit_compile):
        with tf.Graph().as_default():
            v = tf.compat.v1.get_variable("v", initializer=[0.0, 0.0], use_resource=True)

            def body(x):
                lengths = tf.strings.length(tf.strings.as_string(x))
                return v.assign_add(tf.cast(lengths, tf.float32)) * 2.0

            spec = tf.TensorSpec([2])
            graph = func_graph.func_graph_from_py_func(
                "body", body, (spec,), {}, add_control_dependencies=False
            )
            kinds = function_type.from_structured_signature(
                ((spec,), {}), graph.structured_outputs, graph.function_captures.capture_types
            )
            function = concrete_function.ConcreteFunction.from_func_graph(
                graph, kinds, {attributes.XLA_COMPILE: jit_compile}
            )
            made = function(tf.constant([1.0, 10.0]))
            with tf.compat.v1.Session() as session:
                session.run(tf.compat.v1.global_variables_initializer())
                return np.array([session.run(made), session.run(made), session.run(v)])

    np.testing.assert_array_equal(runs(True), runs(False))


def test_a_session_has_what_loops_call_after_a_gradient_changed_the_calls(compiled, tmp_path):
    """The second gradient rewrites the calls in the loop's body, whose graph no session knows."""

    def run(jit_compile):
        @tf.function(jit_compile=jit_compile)
        def step(a, x):
            tf.print("step", output_stream=f"file://{tmp_path}/steps")
            return a * x + tf.sin(a)

        @tf.function(jit_compile=jit_compile)
        def steps(x):
            return tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, step(a, x)), [0, x])[1]

        with tf.Graph().as_default():
            x = tf.compat.v1.placeholder(tf.float32, [2])
            found = [tf.function(lambda x: steps(x) * 2.0, jit_compile=jit_compile)(x)]
            for _ in range(2):
                found += tf.gradients(found[-1], x)
            with tf.compat.v1.Session() as session:
                return session.run(found, {x: [0.5, 2.0]})

    found = run(True)
    assert compiled
    for have, want in zip(found, run(None), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-5)


def positions(x):
    return tf.cast(x * 3, tf.int32)


def asserted(x):
    tf.debugging.assert_less(x, 2.0, message="too large")
    return x * 2


def gathered(x):
    return tf.gather(x, positions(x))


def variable(*, use_resource=True):
    start = np.array([1, 2], np.float32)
    return tf.compat.v1.get_variable("v", initializer=start, use_resource=use_resource)


def of_a_variable(x, *, use_resource=True):
    return tf.gather(variable(use_resource=use_resource) * 2, positions(x))


def compiled_of_a_variable(x):
    v = variable()
    return tf.function(lambda x: tf.gather(v * 2, positions(x)), jit_compile=True)(x)


def written_by_the_run(x):
    v = variable()
    return v.assign(v + tf.reduce_sum(tf.gather(v * 2, positions(x))))


def drawn(x):
    return tf.gather(tf.random.normal([3]) + x, positions(x))


OF_THREE, OF_TWO = r"indices\[1\] = 15 is not in \[0, 3\)", r"indices\[1\] = 15 is not in \[0, 2\)"
FAILED_RUNS = {
    "function": (
        tf.function(asserted, jit_compile=True),
        r"assertion failed: \[too large\].* \[0 5 0\] .*",
    ),
    "refused": (
        tf.function(lambda x: tf.reshape(x, [positions(x)[1], 2]), jit_compile=True),
        "Input to reshape is a tensor with 3 values, but the requested shape has 30",
    ),
    "call": (tf.function(lambda x: tf.function(gathered, jit_compile=True)(x) + 1), OF_THREE),
    "cluster": (gathered, OF_THREE),
    "cond": (lambda x: tf.cond(x[1] > 2, lambda: gathered(x), lambda: x), OF_THREE),
    "variable": (of_a_variable, OF_TWO),
    "reference": (lambda x: of_a_variable(x, use_resource=False), OF_TWO),
    "capture": (compiled_of_a_variable, OF_TWO),
    "written": (written_by_the_run, None),
    "drawn": (drawn, None),
}


@pytest.mark.parametrize("name", FAILED_RUNS)
def test_a_failed_run_has_tensorflows_words_first_where_they_are_sure(name):
    program, words = FAILED_RUNS[name]
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None])
        with tf.xla.experimental.jit_scope():
            y = program(x)
        start = tf.compat.v1.global_variables_initializer()
        graph.finalize()
        with tf.compat.v1.Session() as session:
            session.run(start)
            with pytest.raises(tf.errors.InvalidArgumentError) as raised:
                session.run(y, {x: [0, 5, 0]})
    first = "Graph execution error:\n\n" + (f"{words}\n" if words else "")
    assert re.match(f"{first}Ingot cannot (run|compile) ", raised.value.message), (
        raised.value.message
    )
