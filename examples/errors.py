# SPDX-License-Identifier: Apache-2.0
"""Functions that cannot be compiled, and what the compiler says about each.

Plain TensorFlow. Run it with `python` (TensorFlow's own XLA) or `python -m ingot` (Ingot, with
INGOT_STRICT=1: TensorFlow runs no part of a compiled function itself).
"""

import tensorflow as tf


@tf.function(jit_compile=True)
def string_op(numbers):
    return tf.strings.length(tf.strings.as_string(numbers))


@tf.function(jit_compile=True)
def unknown_op(numbers):
    return tf.linalg.logm(tf.cast(numbers, tf.complex64))


@tf.function(
    jit_compile=True,
    input_signature=[tf.TensorSpec([None, 3]), tf.TensorSpec([None, 3])],
)
def shape_mismatch(left, right):
    return left + right


CASES = {
    "a string op": (string_op, lambda: [tf.constant([1.0, 22.0])]),
    "an op that no compiler here knows": (unknown_op, lambda: [tf.eye(3)]),
    "shapes that do not fit": (shape_mismatch, lambda: [tf.ones([2, 3]), tf.ones([5, 3])]),
}


def error_of(name):
    """Return the error that the case called `name` raises."""
    function, inputs = CASES[name]
    try:
        function(*inputs())
    except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError) as error:
        return error
    raise AssertionError(f"{name} was compiled")


def main():
    for name in CASES:
        error = error_of(name)
        print(f"--- {name}: {type(error).__name__}\n{error.message.strip()}\n")


if __name__ == "__main__":
    main()
