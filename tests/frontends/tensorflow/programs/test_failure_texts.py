# SPDX-License-Identifier: Apache-2.0
"""Errors of compiled functions that run: TensorFlow's words with the values, and then Ingot's."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.programs.beside import COMPILED

X = tf.constant([0.5, -0.25, 2.0])
V = tf.Variable([1.0, 2.0, 3.0])


def in_a_loop(x: Any, k: Any) -> Any:
    for i in tf.range(3):
        x = x + tf.gather(x, i + k)
    return x


def of_positive(x: Any, y: Any) -> Any:
    return tf.concat([tf.boolean_mask(x, x > 0.0)[None], y], 0)


def asserted(x: Any) -> Any:
    tf.debugging.assert_positive(x * 2.0, message="of x")
    return x


def in_a_branch(x: Any, k: Any) -> Any:
    return tf.cond(x[0] > 0.0, lambda: x[k:], lambda: tf.reshape(tf.gather(x, [k]), [-1]))


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "gather": (lambda x: tf.gather(x, [1, 7]), (X,), "indices[1] = 7 is not in [0, 3)"),
    "concat": (of_positive, (X, tf.ones([1, 9])), "ConcatOp : Dimension 1 in both shapes must be"),
    "inverse": (tf.linalg.inv, (tf.zeros([2, 2]),), "Input is not invertible."),
    "slice": (lambda x, n: tf.slice(x, [n], [2]), (X, 2), "Expected size[0] in [0, 1], but got 2"),
    "remainder": (lambda a, b: a % b, ([3], [0]), "Integer division by zero"),
    "segments": (tf.math.segment_sum, (X, [2, 1, 0]), "segment ids are not increasing"),
    "scatter": (
        lambda x, i: tf.tensor_scatter_nd_update(x, i, [1.0]),
        (X, [[5]]),
        "indices[0] = [5] does not index into shape [3]",
    ),
    "sizes": (
        lambda x, y: tf.boolean_mask(x, x > 0.0) + y,
        (X, tf.ones([3])),
        "Incompatible shapes: [2]",
    ),
    "loop": (in_a_loop, (X, 1), "indices = 3 is not in [0, 3)"),
    "branch": (in_a_branch, (-X, 4), "indices[0] = 4 is not in [0, 3)"),
    "variable": (lambda k: tf.gather(V * 2.0, k), (9,), "indices = 9 is not in [0, 3)"),
    "assertion": (asserted, (X,), "assertion failed: [of x.  ] [Condition x > 0 did not hold"),
}


@pytest.mark.parametrize("name", CASES)
def test_tensorflows_words_come_first(name: str) -> None:
    function, arguments, words = CASES[name]
    given = [tf.convert_to_tensor(item) for item in arguments]
    with pytest.raises(tf.errors.InvalidArgumentError) as plain:
        tf.function(function)(*given)
    compiled = tf.function(function, jit_compile=True)
    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            compiled(*given)
    assert COMPILED
    first, own = caught.value.message.split("\n", 1)
    assert first.startswith(words)
    assert first in plain.value.message
    assert own.startswith("Ingot cannot run the function")
    assert re.search(r"  op: \w+ \(node '.*'\)\n  at: .*test_failure_texts.py:\d+", own)


@pytest.mark.parametrize("name", CASES)
def test_tensorflows_words_come_first_where_a_graph_calls_the_function(name: str) -> None:
    function, arguments, words = CASES[name]
    given = [tf.convert_to_tensor(item) for item in arguments]
    compiled = tf.function(function, jit_compile=True)
    v = tf.Variable(0.0)

    @tf.function
    def called(*inputs: Any) -> Any:
        return compiled(*inputs)

    @tf.function
    def written(*inputs: Any) -> Any:
        v.assign_add(1.0)
        return compiled(*inputs)

    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        called(*given)
    first, own = caught.value.message.split("\n", 1)
    assert first.startswith(words)
    assert "Ingot cannot run the function" in own
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Ingot cannot run the function"):
        written(*given)
    assert v == 1.0


def test_nothing_with_effects_runs_again() -> None:
    """A function that writes a variable, or draws: Ingot's words are all that there is."""
    v = tf.Variable([1.0, 2.0, 3.0])

    @tf.function(jit_compile=True)
    def written(k: Any) -> Any:
        v.assign_add(X)
        return tf.gather(v * 2.0, k)

    @tf.function(jit_compile=True)
    def drawn(k: Any) -> Any:
        return tf.gather(tf.random.uniform([3]), k)

    for function in (written, drawn):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"^Ingot cannot run"):
            function(tf.constant(9))
    np.testing.assert_array_equal(v, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(written(tf.constant(0)), 3.0)


OPEN = tf.TensorSpec([None, None])
REFUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "concat": (
        lambda x, y: tf.concat([x * 2.0, y], 1),
        (tf.ones([4, 6]), tf.ones([3, 6])),
        "ConcatOp : Dimension 0 in both shapes must be equal",
    ),
    "reshape": (
        lambda x, y: tf.reshape(x, [-1, 3]) + y,
        (tf.ones([1, 7]), tf.ones([1, 3])),
        "Input to reshape is a tensor with 7 values, but the requested shape requires a multiple",
    ),
    "matmul": (
        lambda x, y: x @ y,
        (tf.ones([4, 6]), tf.ones([5, 3])),
        "Matrix size-incompatible: In[0]: [4,6], In[1]: [5,3]",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_sizes_that_fit_no_op_are_told_in_both_words(name: str) -> None:
    """It would be no help to move the op out of the function."""
    function, arguments, words = REFUSED[name]
    compiled = tf.function(function, jit_compile=True, input_signature=[OPEN, OPEN])
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        compiled(*arguments)
    first, own = caught.value.message.split("\n", 1)
    assert first.startswith(words)
    assert own.startswith("Ingot cannot compile the function")
    assert "error[INGOT0312]" in own
    assert "move it out" not in own
    assert re.search(r"  op: \w+ \(node '.*'\)\n  at: .*test_failure_texts.py:\d+", own)


def test_an_op_on_the_host_that_fails_names_the_users_line() -> None:
    def fail(x: Any) -> Any:
        raise ValueError(f"no row {x}")

    @tf.function(jit_compile=True)
    def looked_up(x: Any) -> Any:
        for i in tf.range(2):
            found = tf.numpy_function(fail, [x * 2.0], tf.float32)  # looked up
            x += tf.ensure_shape(found, [])
            x += tf.cast(i, x.dtype)
        return x

    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = 1 + next(at for at, text in enumerate(lines) if text.endswith("# looked up"))
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        looked_up(tf.constant(3.0))
    assert "ValueError: no row 6.0" in caught.value.message
    assert f'test_failure_texts.py", line {line}\n' in caught.value.message
    assert "stack traces unavailable" not in caught.value.message
