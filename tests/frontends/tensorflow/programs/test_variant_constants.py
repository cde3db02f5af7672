# SPDX-License-Identifier: Apache-2.0
"""Constants of type variant that are no lists: they stay with TensorFlow, and what takes them."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow.python.framework import constant_op


def number(value):
    """Return a variant that holds an int, in a graph."""
    data = np.array(value, np.int32).tobytes()
    item = tensor_pb2.VariantTensorDataProto(type_name=b"int", metadata=data)
    shape = tf.TensorShape([]).as_proto()
    return constant_op.constant(
        tensor_pb2.TensorProto(dtype=types_pb2.DT_VARIANT, tensor_shape=shape, variant_val=[item])
    )


def in_a_branch(x):
    return tf.cond(x[0] > 0.0, lambda: tf.add_n([number(4), number(5)]), lambda: number(1))


PROGRAMS = {
    "added": (lambda x: tf.add_n([number(1), number(2), number(3)]), 6),
    "returned": (lambda x: number(8), 8),
    "zeros like one": (lambda x: tf.zeros_like(number(3)), 0),
    "in a branch": (in_a_branch, 9),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_variant_constant(name, compiled):
    function, wanted = PROGRAMS[name]

    @tf.function(jit_compile=True, autograph=False)
    def program(x):
        return function(x), tf.cumsum(x)

    made, beside = program(tf.ones([3]))
    assert f"<{wanted}>" in str(made)
    np.testing.assert_array_equal(beside, [1.0, 2.0, 3.0])
    assert compiled, "what stands beside it is compiled"
