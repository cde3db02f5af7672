# SPDX-License-Identifier: Apache-2.0
"""One expression, one kernel: `reduce_sum(x + y * z)`, compiled.

Plain TensorFlow. Run it with `python` (TensorFlow's own XLA) or `python -m ingot` (Ingot).
"""

import tensorflow as tf

SIZE = 1 << 20


@tf.function(jit_compile=True)
def fused_reduce(x, y, z):
    return tf.reduce_sum(x + y * z)


def inputs(size=SIZE):
    return [tf.random.stateless_uniform([size], seed=[1, index]) for index in range(3)]


def main():
    x, y, z = inputs()
    total = fused_reduce(x, y, z)
    eager = tf.reduce_sum(tf.cast(x, tf.float64) + tf.cast(y, tf.float64) * tf.cast(z, tf.float64))
    print(f"reduce_sum(x + y * z) over {SIZE} numbers: {total.numpy():.1f}")
    print(f"relative difference to double precision: {abs(total / float(eager) - 1):.1e}")


if __name__ == "__main__":
    main()
