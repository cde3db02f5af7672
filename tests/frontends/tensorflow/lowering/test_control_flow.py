# SPDX-License-Identifier: Apache-2.0
"""Calls, branches, loops, variables, TensorLists and optimizer steps against TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.lowering.checking import check, numbers, trace

from ingot.support.diagnostics import UnsupportedError

X = numbers(4, 6)
RAW = tf.raw_ops


def branch(x):
    if tf.reduce_sum(x) > 0:
        return x * 2, tf.reduce_max(x)
    return x - 1, tf.reduce_min(x)


def loop(x):
    count = tf.constant(0)
    while tf.reduce_sum(x * x) > 1.0:
        x = x * 0.5
        count += 1
    return x, count


def nested(x):
    for i in tf.range(3):
        if i > 1:
            x = x + tf.cast(i, tf.float32)
            x = x - 0.5
        else:
            x = x * 2
    return x


def loop_over_rows(x):
    total = tf.zeros([6])
    for i in tf.range(tf.shape(x)[0]):
        total = total + x[i]
    return total


@pytest.mark.parametrize("function", [branch, loop, nested, loop_over_rows])
def test_branches_and_loops(function):
    check(function, X, autograph=True)
    check(function, X, autograph=True, specs=[tf.TensorSpec([None, 6])])
    check(function, -X, autograph=True)


def test_switch_case():
    def choose(x, i):
        return tf.switch_case(i, [lambda: x + 1, lambda: x * 2, lambda: x - 3])

    for index in (0, 1, 2, 7, -1):
        check(choose, X, np.int32(index))


def test_nested_calls_and_gradients_through_them():
    @tf.function
    def inner(a):
        return tf.tanh(a) * 2

    def outer(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = inner(inner(x))
        return tape.gradient(y, x)

    check(outer, X, tolerance=1e-5)


def test_gradient_of_branch_and_bounded_loop():
    def cond_gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.cond(x[0, 0] > 0, lambda: x * x, lambda: tf.sin(x))
        return tape.gradient(y, x)

    def loop_gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            _, y = tf.while_loop(
                lambda i, y: i < 4, lambda i, y: (i + 1, tf.sin(y) * x), [0, x],
                maximum_iterations=6,
            )  # fmt: skip
        return tape.gradient(y, x)

    check(cond_gradient, X, tolerance=1e-5)
    check(cond_gradient, -X, tolerance=1e-5)
    check(loop_gradient, X, tolerance=1e-4)


def test_tensor_arrays():
    def squares(x):
        array = tf.TensorArray(tf.float32, size=5)
        for i in tf.range(5):
            array = array.write(i, x[0] * tf.cast(i, tf.float32))
        return array.stack()

    def unstacked(x):
        array = tf.TensorArray(tf.float32, size=4).unstack(x)
        return array.read(2) + array.gather([0, 3])[1], array.size()

    check(squares, X, autograph=True)
    check(unstacked, X)


def test_map_and_scan():
    check(lambda x: tf.map_fn(lambda row: tf.reduce_sum(row) * row, x), X, tolerance=1e-5)
    check(lambda x: tf.scan(lambda a, row: a + row, x), X, tolerance=1e-5)
    check(lambda x: tf.foldl(lambda a, row: a * 0.5 + row, x), X, tolerance=1e-5)


def test_variables_are_read_and_written_in_order():
    variable = tf.Variable([1.0, 2.0, 3.0])
    counter = tf.Variable(5, dtype=tf.int64)

    def step(x):
        before = variable * 1.0
        variable.assign(variable * 2 + x)
        variable.assign_add(x)
        counter.assign_sub(2)
        middle = variable + 0.0
        variable.scatter_nd_add([[1]], [10.0])
        variable.scatter_update(tf.IndexedSlices([7.0], [0]))
        return before, middle, variable.read_value(), counter + 1

    check(step, numbers(3))


def test_variables_in_branches_and_loops():
    variable = tf.Variable(1.0)
    other = tf.Variable([1.0, 2.0])

    def step(x):
        if x > 0:
            variable.assign(x * 3)
        for _ in tf.range(3):
            variable.assign_add(1.0)
            other.assign(other * variable)
        return variable + x, tf.gather(other, 1)

    check(step, np.float32(2), autograph=True)
    check(step, np.float32(-2), autograph=True)


def apply(name, slots, **operands):
    """Return a step that applies one optimizer op, and the variables that it works on."""
    variables = [tf.Variable(np.abs(numbers(5, seed=n)) + 0.1) for n in range(slots + 1)]

    def step(gradient):
        names = [key for key, value in operands.items() if value is None]
        handles = dict(zip(names, (v.handle for v in variables), strict=True))
        given = {key: value for key, value in operands.items() if value is not None}
        gradient_name = given.pop("gradient_name", "grad")
        getattr(RAW, name)(**handles, **given, **{gradient_name: gradient})
        return [variable.read_value() for variable in variables]

    return step


def test_optimizer_ops():
    rate = {"lr": 0.1}
    steps = [
        apply("ResourceApplyGradientDescent", 0, var=None, alpha=0.1, gradient_name="delta"),
        apply("ResourceApplyMomentum", 1, var=None, accum=None, momentum=0.9, **rate),
        apply("ResourceApplyMomentum", 1, var=None, accum=None, momentum=0.9, use_nesterov=True,
              **rate),
        apply("ResourceApplyKerasMomentum", 1, var=None, accum=None, momentum=0.9, **rate),
        apply("ResourceApplyAdam", 2, var=None, m=None, v=None, beta1_power=0.5, beta2_power=0.6,
              beta1=0.9, beta2=0.99, epsilon=1e-7, **rate),
        apply("ResourceApplyAdamWithAmsgrad", 3, var=None, m=None, v=None, vhat=None,
              beta1_power=0.5, beta2_power=0.6, beta1=0.9, beta2=0.99, epsilon=1e-7, **rate),
        apply("ResourceApplyAdaMax", 2, var=None, m=None, v=None, beta1_power=0.5, beta1=0.9,
              beta2=0.99, epsilon=1e-7, **rate),
        apply("ResourceApplyAdagrad", 1, var=None, accum=None, **rate),
        apply("ResourceApplyAdagradV2", 1, var=None, accum=None, epsilon=1e-7, **rate),
        apply("ResourceApplyAdadelta", 2, var=None, accum=None, accum_update=None, rho=0.9,
              epsilon=1e-7, **rate),
        apply("ResourceApplyRMSProp", 2, var=None, ms=None, mom=None, rho=0.9, momentum=0.8,
              epsilon=1e-7, **rate),
        apply("ResourceApplyFtrl", 2, var=None, accum=None, linear=None, l1=0.1, l2=0.2,
              lr_power=-0.5, **rate),
        apply("ResourceApplyFtrlV2", 2, var=None, accum=None, linear=None, l1=0.1, l2=0.2,
              l2_shrinkage=0.3, lr_power=-0.5, **rate),
        apply("ResourceApplyAddSign", 1, var=None, m=None, alpha=1.0, sign_decay=0.9, beta=0.9,
              **rate),
        apply("ResourceApplyPowerSign", 1, var=None, m=None, logbase=1.0, sign_decay=0.9, beta=0.9,
              **rate),
    ]  # fmt: skip
    for step in steps:
        check(step, numbers(5), tolerance=1e-5)


SPECS = [tf.TensorSpec([None, 3]), tf.TensorSpec([None, 3])]


def test_open_sizes_that_must_be_equal_become_one():
    program = trace(lambda a, b: a + b, SPECS)
    first, second = program.lowered.module.parameter_shapes
    assert first.dims == second.dims
    assert not first.is_static


def test_open_sizes_that_need_not_be_equal_stay_apart():
    program = trace(lambda a, b: tf.matmul(a, b, transpose_b=True), SPECS)
    first, second = program.lowered.module.parameter_shapes
    assert first.dims != second.dims


@pytest.mark.parametrize(
    ("function", "message", "hint"),
    [
        (lambda x: tf.strings.length(tf.strings.as_string(x)), "AsString", "jit_compile"),
        (
            lambda x: tf.reduce_sum(x, tf.cast(tf.reduce_sum(x), tf.int32)),
            "computed from data",
            "shapes",
        ),
        (
            lambda x: tf.linalg.logm(tf.complex(x[:, :4], x[:, :4])),
            "MatrixLogarithm cannot be compiled",
            "other ops",
        ),
    ],
)
def test_what_cannot_be_compiled_is_named_with_the_users_line(function, message, hint):
    with pytest.raises(UnsupportedError, match=message) as caught:
        trace(function, [tf.TensorSpec([4, 6])])
    found = caught.value.diagnostic
    assert found.location is not None
    assert found.location.file == __file__
    assert found.op_type
    assert found.op_name
    assert hint in found.hint


def test_shapes_that_do_not_fit_are_both_named():
    with pytest.raises(UnsupportedError, match=r"f32\[.*,3\] and f32\[5,3\]"):
        trace(lambda a, b: a[:2] + b, [tf.TensorSpec([None, 3]), tf.TensorSpec([5, 3])])


def test_instructions_know_the_users_line():
    program = trace(lambda a: tf.tanh(a), [tf.TensorSpec([3])])
    (tanh,) = [i for i in program.lowered.module.entry.instructions if i.opcode == "tanh"]
    assert tanh.metadata.op_type == "Tanh"
    assert tanh.metadata.source_file == __file__
    assert tanh.metadata.source_line > 0


def test_functions_of_the_old_kind_are_called():
    def loss(logits):
        labels = tf.constant([[1, 2], [3, 3]])
        return tf.nn.ctc_loss(labels, logits, [2, 2], [8, 8], logits_time_major=False)

    check(loss, np.random.default_rng(0).standard_normal((2, 8, 16)).astype(np.float32))
