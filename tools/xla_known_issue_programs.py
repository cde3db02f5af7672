# SPDX-License-Identifier: Apache-2.0
"""Programs around XLA's known issues: each takes what compiles a function, and returns an answer.

A program's docstring says what the issue is; its body is shown on the page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

Jit = Callable[..., Any]


def growing_array(jit: Jit) -> Any:
    """A `TensorArray` that grows is empty in XLA."""

    def squares(n):
        array = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
        for i in tf.range(n):
            array = array.write(i, tf.cast(i * i, tf.float32))
        return array.stack()

    return jit(squares)(tf.constant(5))


def unbounded_loop_gradient(jit: Jit) -> Any:
    """The gradient of a loop without `maximum_iterations` needs a list whose size is unknown."""

    def halved(x):
        while tf.reduce_sum(x) > 1.0:
            x = x * 0.5
        return tf.reduce_sum(x)

    x = tf.constant([3.0, 2.0])
    function = jit(halved)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x)


def gradient_of_order_two(jit: Jit) -> Any:
    """A second-order gradient around a compiled loop."""

    def power(x):
        return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), [0, x])[1]

    x, function = tf.constant([0.3, 0.7]), jit(power)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = function(x)
        first = inner.gradient(y, x)
    return outer.gradient(first, x)


def seeds(jit: Jit) -> Any:
    """Seeds of the graph and of ops decide TensorFlow's numbers; XLA ignores them."""
    return jit(lambda: tf.random.normal([3], seed=3))()


def stateless_numbers(jit: Jit) -> Any:
    """Stateless random numbers are the same on every run, and in XLA others than in TensorFlow."""
    return jit(lambda: tf.random.stateless_normal([3], [1, 2]))()


def dropout(jit: Jit) -> Any:
    """Dropout with a seed."""
    return jit(lambda x: tf.nn.dropout(x, 0.5, seed=4))(tf.ones([6]))


def assertions(jit: Jit) -> Any:
    """Assertions are left out by XLA."""

    def positive(x):
        tf.debugging.Assert(tf.reduce_all(x > 0), ["not positive"])
        return tf.sqrt(x)

    return jit(positive)(tf.constant([4.0, -1.0]))


def check_numerics(jit: Jit) -> Any:
    """`tf.debugging.check_numerics` lets infinity through in XLA."""
    function = jit(lambda x: tf.debugging.check_numerics(1.0 / x, "the inverse"))
    return function(tf.constant([1.0, 0.0]))


def division_by_zero(jit: Jit) -> Any:
    """An integer divided by 0 is an error in TensorFlow."""
    return jit(lambda x, y: x // y)(tf.constant([7]), tf.constant([0]))


def printing(jit: Jit) -> Any:
    """`tf.print` is an op of the host."""

    def doubled(x):
        tf.print("x is", x, output_stream="file:///dev/null")
        return x * 2.0

    return jit(doubled)(tf.constant([1.0]))


def python_function(jit: Jit) -> Any:
    """So is a function of Python."""

    def reversed_exponentials(x):
        y = tf.numpy_function(lambda a: a[::-1].copy(), [tf.exp(x)], tf.float32)
        return tf.ensure_shape(y, x.shape) * 2.0

    return jit(reversed_exponentials)(tf.constant([0.0, 1.0]))


def strings(jit: Jit) -> Any:
    """Strings are not numbers."""

    def lengths(words, x):
        return tf.cast(tf.strings.length(words), tf.float32) * tf.exp(x)

    return jit(lengths)(tf.constant(["one", "three"]), tf.constant(0.0))


def lookup(jit: Jit) -> Any:
    """Lookup tables live on the host."""
    keys, values = tf.constant(["a", "b"]), tf.constant([1.0, 2.0])
    initializer = tf.lookup.KeyValueTensorInitializer(keys, values)
    table = tf.lookup.StaticHashTable(initializer, -1.0)
    return jit(lambda words: table.lookup(words) * 10.0)(tf.constant(["b", "z"]))


def dataset(jit: Jit) -> Any:
    """A dataset read inside of the function."""

    def total(data):
        found = tf.constant(0.0)
        for batch in data:
            found += tf.reduce_sum(tf.exp(batch))
        return found

    data = tf.data.Dataset.from_tensor_slices(np.zeros(6, np.float32)).batch(4)
    return jit(total)(data)


def branches_of_other_sizes(jit: Jit) -> Any:
    """Branches whose results have other sizes."""

    def positive(x):
        return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.boolean_mask(x, x > 0), lambda: x)

    return jit(positive)(tf.constant([1.0, -0.5, 2.0]))


def growing_tensor(jit: Jit) -> Any:
    """A loop whose tensor grows, as text generation without a cache does."""

    def collatz(n):
        found = tf.zeros([0], tf.int32)
        while n != 1:
            tf.autograph.experimental.set_loop_options(
                shape_invariants=[(found, tf.TensorShape([None]))]
            )
            n = tf.where(n % 2 == 0, n // 2, 3 * n + 1)
            found = tf.concat([found, [n]], 0)
        return found

    return jit(collatz)(tf.constant(6))


def ragged(jit: Jit) -> Any:
    """Ragged tensors made dense: the longest row decides the size."""

    def padded(values, lengths):
        return tf.RaggedTensor.from_row_lengths(values, lengths).to_tensor()

    return jit(padded)(tf.constant([1, 2, 3]), tf.constant([1, 2]))


def unique(jit: Jit) -> Any:
    """Results as large as the data says."""
    return jit(lambda x: tf.unique(x).y)(tf.constant([3, 1, 3, 2]))


def batch_sizes(jit: Jit) -> Any:
    """Each new size is another compilation in XLA: the number of programs for eight batch sizes."""
    signature = [tf.TensorSpec([None, 4])]

    def softened(x):
        return tf.nn.softmax(x @ tf.ones([4, 4]))

    function = jit(softened, input_signature=signature)
    for size in range(1, 9):
        function(tf.ones([size, 4]))
    import ingot.tensorflow

    programs = sum(
        len(made) for name, made in ingot.tensorflow.executables().items() if "softened" in name
    )
    return f"{programs} program" if programs else "no count"


PROGRAMS: dict[str, Callable[[Jit], Any]] = {
    program.__name__.replace("_", " ").capitalize(): program
    for program in (
        growing_array,
        unbounded_loop_gradient,
        gradient_of_order_two,
        growing_tensor,
        branches_of_other_sizes,
        ragged,
        unique,
        batch_sizes,
        seeds,
        stateless_numbers,
        dropout,
        assertions,
        check_numerics,
        division_by_zero,
        printing,
        python_function,
        strings,
        lookup,
        dataset,
    )
}
