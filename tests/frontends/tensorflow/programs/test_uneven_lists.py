# SPDX-License-Identifier: Apache-2.0
"""Lists that are no single array, which TensorFlow keeps: all loops that share them run there.

Their elements are lists, or have sizes that each iteration computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

from tests.frontends.tensorflow.programs.beside import COMPILED, check  # noqa: E402

from ingot.frontends.tensorflow import hook  # noqa: E402

X = [1.0, 2.0, 3.0, 4.0]
X_SPEC = tf.TensorSpec([None])


def gradient(program: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def of(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = program(x)
        return y, tape.gradient(y, x)

    of.__name__ = f"gradient_of_{program.__name__}"
    return of


@gradient
def masks(x: Any) -> Any:
    def body(step: Any, total: Any) -> Any:
        chosen = tf.boolean_mask(x, x > step)
        return step + 1.0, total + tf.reduce_sum(chosen * chosen)

    return tf.while_loop(lambda step, _: step < 3.0, body, [0.0, 0.0])[1]


@gradient
def arrays_in_a_loop(x: Any) -> Any:
    def body(step: Any, total: Any) -> Any:
        array = tf.TensorArray(tf.float32, 0, dynamic_size=True)
        for number in tf.range(step + 1):
            array = array.write(number, x[number] * total)
        return step + 1, total + tf.reduce_sum(array.stack())

    return tf.while_loop(lambda step, _: step < 3, body, [0, 1.0])[1]


def jacobian_of_a_loop(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.while_loop(lambda step, _: step < 3, lambda step, y: (step + 1, y * x), [0, x])[1]
    return tape.jacobian(y, x)


def jacobian_of_a_map(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.map_fn(lambda item: item * item, x)
    return tape.jacobian(y, x)


PROGRAMS = [
    masks,
    arrays_in_a_loop,
    pytest.param(jacobian_of_a_loop, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(
    "program", PROGRAMS, ids=lambda program: getattr(program, "__name__", None)
)
def test_lists_that_are_no_single_array(program: Callable[[Any], Any]) -> None:
    check(lambda jit: tf.function(program, jit_compile=jit)(tf.constant(X)))


@pytest.mark.slow
def test_a_compiled_function_of_lists_is_called() -> None:
    def run(jit: Any) -> Any:
        inner = tf.function(jacobian_of_a_map, jit_compile=jit)
        return tf.function(lambda x: inner(x) * 2.0, jit_compile=jit)(tf.constant(X))

    check(run)


def test_must_compile_says_why() -> None:
    hook.disable()
    hook.enable(strict=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="a size that each iteration computes"):
        tf.function(masks, jit_compile=True)(tf.constant(X))
    assert not COMPILED


@pytest.mark.slow
def test_vectorized_gradient_of_a_branch() -> None:
    """The nodes that are copied name functions that only TensorFlow's runtime holds."""

    def run(jit: Any) -> Any:
        cubed = tf.function(
            lambda x: tf.cond(x > 0.0, lambda: x**3.0, lambda: x**2.0), jit_compile=jit
        )
        x = tf.constant(2.0)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            slope = tape.gradient(cubed(x), x)

        @tf.function(jit_compile=jit)
        def several(scales: Any) -> Any:
            return tf.vectorized_map(lambda v: tape.gradient(slope, x, output_gradients=v), scales)

        return several(tf.constant([1.0, 2.0]))

    check(run)


def test_branches_give_handles_of_different_things() -> None:
    def program(x: Any) -> Any:
        def optional(kind: Any) -> Any:
            return tf.raw_ops.OptionalFromValue(components=[tf.constant(1, kind)])

        return tf.cond(
            x[0] > 0.0,
            lambda: (x**2.0, optional(tf.int32)),
            lambda: (x**3.0, optional(tf.float32)),
        )[0]

    check(lambda jit: tf.function(program, jit_compile=jit)(tf.constant(X)))


@pytest.mark.parametrize("lengths", [[1, 0, 3], [2, 2]], ids=str)
def test_a_graph_calls_a_function_that_splits(lengths: list[int]) -> None:
    """A graph cannot make the call again when the lengths turn out to differ."""

    def run(jit: Any) -> Any:
        @tf.function(jit_compile=jit)
        def pieces(x: Any, lengths: Any) -> Any:
            array = tf.TensorArray(tf.float32, 0, dynamic_size=True, infer_shape=False)
            array = array.split(tf.sin(x), lengths)
            return array.read(0), array.concat(), array.size()

        spec = tf.TensorSpec([None], tf.int32)
        outer = tf.function(
            lambda x, lengths: pieces(x * 2.0, lengths), input_signature=[X_SPEC, spec]
        )
        return outer(tf.constant(X), tf.constant(lengths))

    check(run)
