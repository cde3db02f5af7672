# SPDX-License-Identifier: Apache-2.0
"""Ways to differentiate a program; each gives a list of arrays.

Every derivative is of a weighted sum, with other weights for each order, so that no symmetry hides
an error. `jit` is what the function that is to be compiled gets as `jit_compile`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tests.frontends.tensorflow.gradients.table import Program

Function = Callable[[Any], Any]


def weighted(y: Any, order: int) -> Any:
    """Return a sum of `y` with fixed weights."""
    size = int(np.prod(y.shape))
    weights = np.cos(np.arange(size) * (order + 1.3) + order).reshape(y.shape)
    return tf.reduce_sum(y * weights.astype(np.float32))


def derivative(function: Function, x: Any, order: int, persistent: bool = False) -> list[Any]:
    """Return the value and the derivatives up to `order`, by nested tapes."""
    if order == 0:
        return [function(x)]
    with tf.GradientTape(persistent=persistent) as tape:
        tape.watch(x)
        values = derivative(function, x, order - 1, persistent)
        total = weighted(values[-1], order)
    return [*values, tape.gradient(total, x, unconnected_gradients="zero")]


def symbolic(function: Function, x: Any, order: int) -> list[Any]:
    """Return the value and the derivatives up to `order`, by `tf.gradients`."""
    values = [function(x)]
    for number in range(1, order + 1):
        total = weighted(values[-1], number)
        values.extend(tf.gradients(total, x, unconnected_gradients="zero"))
    return values


def tangent(function: Function, x: Any) -> list[Any]:
    """Return the value and a directional derivative."""
    with tf.autodiff.ForwardAccumulator(x, tf.cos(x)) as forward:
        y = function(x)
    return [y, forward.jvp(y, unconnected_gradients="zero")]


def jacobian(function: Function, x: Any) -> list[Any]:
    """Return the value and its whole derivative."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return [y, tape.jacobian(y, x, unconnected_gradients="zero")]


def tangent_of_gradient(function: Function, x: Any) -> list[Any]:
    """Return a product with the matrix of second derivatives: forward over reverse."""
    with tf.autodiff.ForwardAccumulator(x, tf.cos(x)) as forward:
        values = derivative(function, x, 1)
    return [values[-1], forward.jvp(values[-1], unconnected_gradients="zero")]


def hessians(function: Function, x: Any) -> list[Any]:
    """Return `tf.hessians`."""
    flat = tf.reshape(x, [-1])
    return list(tf.hessians(weighted(function(tf.reshape(flat, x.shape)), 1), flat))


def _outside(order: int, persistent: bool = False) -> Callable[[Program, Any], list[Any]]:
    """Compile the function; tapes around it."""

    def run(program: Program, jit: Any) -> list[Any]:
        function = tf.function(program.make(jit), jit_compile=jit)
        return derivative(function, tf.constant(program.x), order, persistent)

    return run


def _inside(of: Callable[[Function, Any], list[Any]]) -> Callable[[Program, Any], list[Any]]:
    """Compile the derivative."""

    def run(program: Program, jit: Any) -> list[Any]:
        function = program.make(jit)
        whole = tf.function(lambda x: of(function, x), jit_compile=jit)
        return list(whole(tf.constant(program.x)))

    return run


def _between(order: int) -> Callable[[Program, Any], list[Any]]:
    """Compile a function with a tape inside; more tapes around it."""

    def run(program: Program, jit: Any) -> list[Any]:
        function = program.make(jit)
        first = tf.function(lambda x: derivative(function, x, 1)[-1], jit_compile=jit)
        return derivative(first, tf.constant(program.x), order - 1)

    return run


def _in_a_graph(
    of: Callable[[Function, Any], list[Any]], outer: bool = False
) -> Callable[[Program, Any], list[Any]]:
    """Compile the function; differentiate it in a tf.function around it."""

    def run(program: Program, jit: Any) -> list[Any]:
        function = tf.function(program.make(jit), jit_compile=jit)
        whole = tf.function(lambda x: of(function, x), jit_compile=jit if outer else None)
        return list(whole(tf.constant(program.x)))

    return run


def _eagerly(of: Callable[[Function, Any], list[Any]]) -> Callable[[Program, Any], list[Any]]:
    """Compile the function; call it eagerly."""

    def run(program: Program, jit: Any) -> list[Any]:
        return of(tf.function(program.make(jit), jit_compile=jit), tf.constant(program.x))

    return run


def _open_sizes(order: int) -> Callable[[Program, Any], list[Any]]:
    """Compile the function for a first dimension of any size; tapes around it."""

    def run(program: Program, jit: Any) -> list[Any]:
        open_first = tf.TensorSpec([None, *program.dims[1:]])
        function = tf.function(program.make(jit), input_signature=[open_first], jit_compile=jit)
        return derivative(function, tf.constant(program.x), order)

    return run


def _order(number: int, by: Any = derivative) -> Callable[[Function, Any], list[Any]]:
    return lambda function, x: by(function, x, number)


WAYS: dict[str, Callable[[Program, Any], list[Any]]] = {
    "outside 1": _outside(1),
    "outside 2": _outside(2),
    "outside 3": _outside(3),
    "open 1": _open_sizes(1),
    "open 2": _open_sizes(2),
    "persistent 2": _outside(2, persistent=True),
    "inside 1": _inside(_order(1)),
    "inside 2": _inside(_order(2)),
    "inside 3": _inside(_order(3)),
    "between 2": _between(2),
    "between 3": _between(3),
    "graph 1": _in_a_graph(_order(1)),
    "graph 2": _in_a_graph(_order(2)),
    "both 2": _in_a_graph(_order(2), outer=True),
    "gradients 1": _in_a_graph(_order(1, symbolic)),
    "gradients 2": _in_a_graph(_order(2, symbolic)),
    "gradients inside 2": _inside(_order(2, symbolic)),
    "tangent": _eagerly(tangent),
    "tangent inside": _inside(tangent),
    "tangent of gradient": _eagerly(tangent_of_gradient),
    "jacobian": _eagerly(jacobian),
    "jacobian inside": _inside(jacobian),
    "hessians inside": _inside(hessians),
}
"""What to do with a program, and where the compiled part begins."""
