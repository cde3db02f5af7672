# SPDX-License-Identifier: Apache-2.0
"""Programs of three constructs in one another, for gradients: every combination of six.

Each is a function of a state `a` and the argument `x`, both of three numbers; the innermost one
reads a variable. What a gradient of them remembers are lists in lists, of tensors and of lists.
"""

import itertools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from tests.frontends.tensorflow.gradients.table import Function, Program

Step = Callable[[Any, Any], Any]


def loop(step: Step, jit: Any) -> Step:
    """Repeat the step."""
    del jit

    def repeated(a: Any, x: Any) -> Any:
        return tf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, step(a, x)), [0, a])[1]

    return repeated


def cond(step: Step, jit: Any) -> Step:
    """Do the step, or something else: in one program both happen."""
    del jit

    def chosen(a: Any, x: Any) -> Any:
        return tf.cond(tf.reduce_sum(a) > 0.2, lambda: step(a, x), lambda: a * x + 0.3)

    return chosen


def scan(step: Step, jit: Any) -> Step:
    """Do the step for each number of the argument."""
    del jit

    def scanned(a: Any, x: Any) -> Any:
        return tf.reduce_sum(tf.scan(lambda a, item: step(a, x) * item, x[:2], a), 0)

    return scanned


def call(step: Step, jit: Any) -> Step:
    """Call a function of its own for the step."""
    inner = tf.function(step, jit_compile=jit, autograph=False)
    return lambda a, x: inner(a, x) * 0.5 + a


def rnn(step: Step, jit: Any) -> Step:
    """Let the step be the cell of a recurrent layer."""
    del jit

    def layered(a: Any, x: Any) -> Any:
        class Cell(keras.layers.Layer):
            state_size = output_size = 3

            def call(self, inputs: Any, states: Any) -> Any:
                new = step(states[0][0], x)[None] + inputs
                return new, [new]

        rows = tf.stack([x * 0.5, tf.sin(x)])[None]
        return keras.layers.RNN(Cell())(rows, initial_state=[a[None]])[0]

    return layered


def array(step: Step, jit: Any) -> Step:
    """Write a TensorArray in a loop."""
    del jit

    def written(a: Any, x: Any) -> Any:
        made = tf.TensorArray(tf.float32, 2, element_shape=[3])
        made = tf.while_loop(
            lambda i, made: i < 2,
            lambda i, made: (i + 1, made.write(i, step(a, x) * x[i])),
            [0, made],
        )[1]
        return tf.reduce_sum(made.stack(), 0)

    return written


KINDS = (loop, cond, scan, call, rnn, array)


def _program(kinds: tuple[Callable[[Step, Any], Step], ...]) -> Program:
    def make(jit: Any) -> Function:
        v = tf.Variable([0.9, 1.1, 0.7])

        def innermost(a: Any, x: Any) -> Any:
            return tf.sin(a) * v + x * 0.5

        step: Step = innermost
        for kind in reversed(kinds):
            step = kind(step, jit)
        return lambda x: step(tf.cos(x), x)

    return Program(" in ".join(kind.__name__ for kind in reversed(kinds)), make, (3,))


NESTS = {item.name: item for item in map(_program, itertools.product(KINDS, repeat=3))}
"""By name: `cond in loop in rnn` has the branch inside."""
