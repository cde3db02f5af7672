# SPDX-License-Identifier: Apache-2.0
"""One function, many sizes: with an input signature that leaves the batch open, and without one.

Plain TensorFlow. Run it with `python` (TensorFlow's own XLA compiles again for every size) or
`python -m ingot` (Ingot compiles the open signature once).
"""

import tensorflow as tf

FEATURES = 16


def normalise(rows):
    """Return the rows with mean 0 and variance 1 each, through a softmax."""
    mean = tf.reduce_mean(rows, axis=-1, keepdims=True)
    centred = rows - mean
    variance = tf.reduce_mean(centred * centred, axis=-1, keepdims=True)
    return tf.nn.softmax(centred * tf.math.rsqrt(variance + 1e-6))


any_shape = tf.function(normalise, jit_compile=True)
open_batch = tf.function(
    normalise,
    jit_compile=True,
    input_signature=[tf.TensorSpec([None, FEATURES], tf.float32)],
)


def rows(batch):
    return tf.random.stateless_normal([batch, FEATURES], seed=[batch, 0])


def main():
    for batch in (1, 3, 64, 1000):
        closed, opened = any_shape(rows(batch)), open_batch(rows(batch))
        difference = float(tf.reduce_max(tf.abs(closed - opened)))
        total = float(tf.reduce_sum(opened))
        print(f"batch {batch}: rows sum to {total:.3f}, both ways agree: {difference < 1e-6}")
    print("three dimensions:", any_shape(tf.reshape(rows(6), [2, 3, FEATURES])).shape)
    print("functions traced:", any_shape.experimental_get_tracing_count(), "and ", end="")
    print(open_batch.experimental_get_tracing_count())


if __name__ == "__main__":
    main()
