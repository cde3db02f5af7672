# SPDX-License-Identifier: Apache-2.0
"""Variables after a call that failed: as they were, or as TensorFlow leaves them.

TensorFlow runs what stands before the failing op, so a variable is assigned wholly or not at all.
"""

import re
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import error_interpolation
from tests.frontends.tensorflow.programs.beside import check

from ingot.frontends.tensorflow.lowering.image_ops import resizing

SIZE = 3000
Body = Callable[[tf.Variable, tf.Variable, tf.Tensor, tf.Tensor], object]


def sorted_before(v, w, x, most):
    t = tf.sort(v * 3.0 + x)
    tf.debugging.assert_less(tf.reduce_sum(t), most)
    v.assign(tf.sort(t + 1.0))
    w.assign_add(x)


def updated_before(v, w, x, most):
    t = tf.tensor_scatter_nd_update(v, [[3]], x[:1])
    tf.debugging.assert_less(tf.reduce_sum(t), most)
    v.assign(tf.tensor_scatter_nd_update(t, [[4]], x[:1]))


def assigned_before(v, w, x, most):
    v.assign(v * 2.0 + x)
    w.assign_sub(tf.cumsum(v))
    tf.debugging.assert_less(tf.reduce_sum(w), most)
    v.assign(w)


def exchanged(v, w, x, most):
    old = v + 0.0
    v.assign(w + x)
    tf.debugging.assert_less(tf.reduce_sum(v), most)
    w.assign(old)


def in_a_loop(v, w, x, most):
    for n in tf.range(4):
        v.scatter_nd_add([[n]], [x[n]])
        tf.debugging.assert_less(tf.reduce_sum(v), most)
        v.assign(tf.sort(v) + 1.0)


def behind_a_loop(v, w, x, most):
    for n in tf.range(4):
        v.scatter_nd_add([[n]], [x[n]])
        w.assign(tf.sort(w) + x)
    tf.debugging.assert_less(tf.reduce_sum(v), most)


def in_a_branch(v, w, x, most):
    if x[0] > 0.0:
        v.assign(tf.sort(v) + x)
        tf.debugging.assert_less(tf.reduce_sum(v), most)
        v.assign(tf.cumsum(v))
    else:
        v.assign(w)


def in_a_call(v, w, x, most):
    @tf.function
    def inner(y):
        tf.debugging.assert_less(tf.reduce_sum(y), most)
        return tf.cumsum(y)

    v.assign(inner(tf.cumsum(inner(x - most) + v)))


def scattered_out_of_range(v, w, x, most):
    w.assign(tf.sort(w) + x)
    v.scatter_nd_add([[tf.cast(SIZE - most, tf.int32)]], x[:1])
    w.assign(tf.cumsum(w))


def out_of_range(v, w, x, most):
    v.assign(tf.cumsum(v) + x)
    row = tf.gather(v, tf.cast(SIZE - most, tf.int32))
    w.assign(tf.sort(w) + row)


def divided(v, w, x, most):
    v.assign(tf.sort(v) + x)
    w.assign(tf.cast(tf.cast(v, tf.int32) // tf.cast(most, tf.int32), tf.float32))


def written_unread(v, w, x, most):
    v.assign(tf.sort(x))
    w.assign(tf.cumsum(v))
    tf.debugging.assert_less(tf.reduce_sum(x), most)
    v.assign(tf.sort(w))


def of_computed_size(v, w, x, most):
    v.assign(tf.sort(v) + x)
    chosen = tf.boolean_mask(v, v > 2.0)
    w.assign(tf.cumsum(w) + tf.reduce_max(chosen))
    tf.debugging.assert_less(tf.reduce_sum(w), most)
    v.assign(w)


BODIES: list[Body] = [
    sorted_before, updated_before, assigned_before, exchanged, in_a_loop, behind_a_loop,
    in_a_branch, in_a_call, scattered_out_of_range, out_of_range, divided, written_unread,
    of_computed_size,
]  # fmt: skip


def fail(body: Body, jit: bool | None) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return what each variable holds before and after a call that fails."""
    v, w = tf.Variable(tf.range(SIZE, dtype=tf.float32)), tf.Variable(tf.ones([SIZE]))
    most = tf.Variable(1e30)

    @tf.function(jit_compile=jit)
    def step(x):
        body(v, w, x, most)

    x = tf.random.stateless_uniform([SIZE], (1, 2), 1.0, 2.0)
    if body not in (scattered_out_of_range, out_of_range, divided):
        step(x)
    most.assign(0.0)
    before = v.numpy(), w.numpy()
    with pytest.raises(tf.errors.InvalidArgumentError):
        step(x)
    return list(zip(before, (v.numpy(), w.numpy()), strict=True))


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_what_fails_leaves_no_variable_half_written(body: Body, compiled) -> None:
    wanted = fail(body, None)
    assert not compiled
    got = fail(body, True)
    assert compiled
    for (before, after), (_, plain) in zip(got, wanted, strict=True):
        if not np.array_equal(after, before):
            np.testing.assert_allclose(after, plain, rtol=1e-4)


def test_indices_that_count_are_not_checked(compiled) -> None:
    """Loop counters keep them in range: no iteration asks."""

    def program(jit):
        @tf.function(jit_compile=jit)
        def distance(a, b):
            table = tf.zeros([9, 9])
            for i in tf.range(1, 9):
                for j in tf.range(1, 9):
                    above, left = tf.gather_nd(table, [i - 1, j]), tf.gather_nd(table, [i, j - 1])
                    cost = tf.where(tf.gather(a, i) == b[j], 0.0, 1.0)
                    table = tf.tensor_scatter_nd_update(
                        table, [[i, j]], [tf.minimum(above, left) + cost]
                    )
            return table

        return distance(tf.range(9) % 3, tf.range(9) % 4)

    check(program)
    assert "ingot.assert" not in compiled[0].executable.as_text("hlo")


def test_too_little_memory_to_compile_is_no_bug_of_ours(monkeypatch):
    def fails(*_):
        raise MemoryError

    monkeypatch.setattr(resizing, "_gradient_of", fails)

    @tf.function(jit_compile=True)
    def enlarged(x):
        return tf.raw_ops.ResizeNearestNeighborGrad(grads=x, size=[16, 16])

    with pytest.raises(tf.errors.ResourceExhaustedError, match="INGOT0400"):
        enlarged(tf.ones([1, 8, 8, 1]))


def test_results_and_temporaries_that_memory_has_no_room_for():
    """400 TB, which no process can address: the first call, and the short way of later ones."""
    options = {"jit_compile": True, "input_signature": [tf.TensorSpec([None, 1])]}
    result = tf.function(lambda x: tf.matmul(x, x, transpose_b=True), **options)
    temporary = tf.function(
        lambda x: tf.reduce_sum(tf.sort(tf.matmul(x, x, transpose_b=True))), **options
    )
    x = tf.ones([10_000_000, 1])
    for _ in range(2):
        with pytest.raises(tf.errors.ResourceExhaustedError, match=r"shape\[10000000,10000000\]"):
            result(x)
        with pytest.raises(tf.errors.ResourceExhaustedError) as caught:
            temporary(x)
        assert caught.value.message.startswith("Ingot cannot run the function")
        assert "error[INGOT0401]" in caught.value.message
        assert re.search(r"its largest buffer is .* bytes", caught.value.message)


def test_a_result_larger_than_memory_is_refused_before_it_is_made():
    @tf.function(jit_compile=True)
    def enlarged(x):
        return tf.raw_ops.ResizeNearestNeighborGrad(grads=x, size=[1 << 30, 1 << 30])

    with pytest.raises(tf.errors.ResourceExhaustedError, match="INGOT0402"):
        enlarged(tf.ones([1, 1 << 16, 16, 1]))


def test_a_change_of_another_shape_is_told_in_tensorflows_words():
    """Such a function writes a variable, so that TensorFlow does not run it once more."""
    v = tf.Variable([1.0, 2.0], shape=tf.TensorShape(None))
    for jit in (None, True):
        add = tf.function(lambda x: v.assign_add(x), jit_compile=jit)
        words = r"Cannot update variable with shape \[2\] using a Tensor with shape \[3\]"
        with pytest.raises(tf.errors.InvalidArgumentError, match=words):
            add(tf.ones([3]))


def test_a_variable_that_is_not_there_is_tensorflows_error():
    for jit in (None, True):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            v = tf.compat.v1.get_variable("v", [2], use_resource=True)
            doubled = tf.function(lambda v=v: v * 2.0, jit_compile=jit)()
            with pytest.raises(tf.errors.FailedPreconditionError, match="Could not find variable"):
                session.run(doubled)


def test_a_failed_assertion_is_not_searched_for_tags_that_it_does_not_have(monkeypatch):
    @tf.function(jit_compile=True)
    def checked(x):
        tf.debugging.assert_less(x, 1.0, message="too large")
        return x * 2

    checked(tf.zeros([2]))
    searched = []
    monkeypatch.setattr(error_interpolation, "parse_message", searched.append)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"assertion failed: \[too large\]"):
        checked(tf.constant([0.5, 2.0]))
    assert not searched


def test_an_assertion_says_what_it_knows_as_tensorflow_does():
    def checked(x):
        tf.debugging.assert_greater(x, -5.5, message="low")
        tf.Assert(x[0] < 9, ["at most", 9, [1.5, 2.0, 3.0, 4.0], [True, False]], summarize=3)
        return x * 2

    for given, said in (
        ([-7.0, 1.0], "[low] [Condition x > y did not hold element-wise:] [x (x:0) = ]"),
        ([-7.0, 1.0], "[y (assert_greater/y:0) = ] [-5.5]"),
        ([11.0, 1.0], "assertion failed: [at most] [9] [1.5 2 3...] [1 0]"),
    ):
        for jit in (None, True):
            with pytest.raises(tf.errors.InvalidArgumentError) as found:
                tf.function(checked, jit_compile=jit)(tf.constant(given))
            assert said in str(found.value)


def _said(function, *arguments):
    """Return what an assertion says, from its first word to the end of its line."""
    with pytest.raises(tf.errors.InvalidArgumentError) as found:
        function(*arguments)
    return str(found.value).partition("assertion failed: ")[2].splitlines()[0]


def test_an_assertion_says_the_values_that_were_computed():
    bound = tf.Variable(3.0)

    def checked(x):
        tf.debugging.assert_less(x, 100.0)
        tf.debugging.assert_less(tf.reduce_sum(x * x), bound, message="sum", summarize=1)
        for step in tf.range(3):
            tf.Assert(x[0] > 0, ["round", step, x, tf.shape(x), x > 1])
            x -= 1.0
        return x

    signature = [tf.TensorSpec([None])]
    for given in ([1.5, 1.0, 0.5, 0.25], [-0.5, 0.1], [0.5, 1.0], [101.0]):
        x = tf.constant(given)
        texts = [
            _said(tf.function(checked, jit_compile=jit, input_signature=signature), x)
            for jit in (None, True)
        ]
        assert texts[0] == texts[1]
        assert "(computed)" not in texts[1]


def test_nothing_that_has_effects_runs_again_for_an_assertion():
    drawn, count = tf.Variable(0.0), tf.Variable(0.0)

    @tf.function(jit_compile=True)
    def checked(x):
        count.assign_add(1.0)
        tf.debugging.assert_less(x + count, 0.5)
        return x

    @tf.function(jit_compile=True)
    def random(x):
        x += tf.random.uniform([])
        drawn.assign(x)
        tf.debugging.assert_less(x, -1.0)
        return x

    for function in (checked, random):
        assert "(computed)" in _said(function, tf.constant(0.0))
    assert [float(count), float(drawn)] == [0.0, 0.0]
