# SPDX-License-Identifier: Apache-2.0
"""Control flow that depends on data: a loop of unknown length, and a branch, inside one function.

Plain TensorFlow. Run it with `python` (TensorFlow's own XLA) or `python -m ingot` (Ingot).
"""

import tensorflow as tf


@tf.function(jit_compile=True)
def largest_eigenvalue(matrix, tolerance):
    """Return the dominant eigenvalue by power iteration, and how many steps it took."""

    def unfinished(step, _, estimate, previous):
        return (step < 1000) & (tf.abs(estimate - previous) > tolerance * tf.abs(estimate))

    def multiply(step, vector, estimate, _):
        product = tf.linalg.matvec(matrix, vector)
        length = tf.sqrt(tf.reduce_sum(product * product))
        return step + 1, product / length, length, estimate

    start = tf.ones([matrix.shape[0]]) / tf.sqrt(float(matrix.shape[0]))
    state = (tf.constant(0), start, tf.constant(1.0), tf.constant(0.0))
    steps, _, estimate, _ = tf.while_loop(unfinished, multiply, state)
    return estimate, steps


@tf.function(jit_compile=True)
def clip_by_norm(vector, limit):
    """Return `vector`, scaled down only if it is longer than `limit`."""
    length = tf.sqrt(tf.reduce_sum(vector * vector))
    return tf.cond(length > limit, lambda: vector * (limit / length), lambda: vector)


def main():
    matrix = tf.constant([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]])
    for tolerance in (1e-1, 1e-6):
        eigenvalue, steps = largest_eigenvalue(matrix, tf.constant(tolerance))
        print(f"tolerance {tolerance:g}: eigenvalue {eigenvalue:.5f} after {int(steps)} steps")
    vector = tf.constant([3.0, 4.0])
    for limit in (1.0, 10.0):
        clipped = clip_by_norm(vector, tf.constant(limit))
        print(f"clipped to {limit:g}: ({clipped[0]:.4f}, {clipped[1]:.4f})")


if __name__ == "__main__":
    main()
