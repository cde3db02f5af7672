# SPDX-License-Identifier: Apache-2.0
"""The programs in TensorFlow, as `tf.function(jit_compile=True)` gets them."""

from __future__ import annotations

import tensorflow as tf

RATE = 0.1


def layernorm(x):
    """Rows to mean 0 and variance 1."""
    mean = tf.reduce_mean(x, axis=-1, keepdims=True)
    centred = x - mean
    variance = tf.reduce_mean(centred * centred, axis=-1, keepdims=True)
    return centred * tf.math.rsqrt(variance + 1e-5)


def train_step(images, labels, *parameters):
    """Loss, and parameters after one step of gradient descent."""
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        hidden_weights, hidden_bias, out_weights, out_bias = parameters
        hidden = tf.nn.relu(images @ hidden_weights + hidden_bias)
        logits = hidden @ out_weights + out_bias
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        loss = tf.reduce_mean(losses)
    gradients = tape.gradient(loss, parameters)
    return loss, *(p - RATE * g for p, g in zip(parameters, gradients, strict=True))


FUNCTIONS = {
    "sum(x+y*z)": lambda x, y, z: tf.reduce_sum(x + y * z),
    "x+y*z": lambda x, y, z: x + y * z,
    "softmax": lambda x: tf.nn.softmax(x, axis=-1),
    "layernorm": layernorm,
    "gelu tanh": lambda x: tf.nn.gelu(x, approximate=True),
    "gelu erf": lambda x: tf.nn.gelu(x, approximate=False),
    "exp": tf.exp,
    "column sums": lambda x: tf.reduce_sum(x, axis=0),
    "transpose": lambda x: tf.transpose(x) + 1.0,
    "matmul": tf.matmul,
    "matmul+bias+gelu": lambda x, w, b: tf.nn.gelu(x @ w + b, approximate=True),
    "batched matmul": tf.matmul,
    "gemv": tf.matmul,
    "matvec": tf.linalg.matvec,
    "complex chain": lambda x, y: ((x * y + x) * y - x) * y,
    "complex exp": tf.exp,
    "complex matmul": tf.matmul,
    "MLP train step": train_step,
    "tiny call": lambda x, y: x + y,
}
