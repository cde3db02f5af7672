# SPDX-License-Identifier: Apache-2.0
"""What cannot be compiled: TensorFlow's exception, with the op, the user's line and a way out."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context, execute
from tests.frontends.tensorflow.bridge.interpreter import compile_stub

from ingot.frontends.tensorflow import hook
from ingot.frontends.tensorflow.graphs.capture import capture
from ingot.frontends.tensorflow.launches.launch_op import LAUNCH_OP


def test_an_unsupported_op_names_node_and_line(compiled):
    hook.disable()
    hook.enable(compile_stub, strict=True)

    @tf.function(jit_compile=True)
    def bad(x):
        return tf.linalg.logm(tf.cast(x, tf.complex64), name="the_log")

    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        bad(tf.ones([2, 2]))
    text = str(caught.value)
    line = bad.python_function.__code__.co_firstlineno + 2
    for part in ("'Cast'", f"test_errors.py:{line}", "INGOT0300", "hint:"):
        assert part in text


def test_the_error_comes_again_and_is_not_compiled_again(compiled):
    hook.disable()
    hook.enable(compile_stub, strict=True)

    @tf.function(jit_compile=True)
    def bad(x):
        return tf.strings.as_string(x)

    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError, match="string"):
            bad(tf.ones([2]))


def test_a_launch_of_another_process_is_refused(compiled):
    attributes = ("Tin", [1], "Tout", [1], "process", 1, "launch", 64)
    with pytest.raises(tf.errors.InvalidArgumentError, match="another process"):
        execute.execute(LAUNCH_OP.encode(), 1, [tf.ones([1])], attributes, context.context())


def test_capture_reads_constants_and_attributes(compiled):
    @tf.function
    def f(x):
        y = tf.reshape(x, [2, -1]) @ tf.constant([[1.0], [2.0]])
        return tf.cond(tf.reduce_sum(y) > 0.0, lambda: y, lambda: -y)

    graph = f.get_concrete_function(tf.TensorSpec([None])).graph
    captured = capture("f", graph)
    by_op = {node.op: node for node in captured.nodes}
    assert by_op["MatMul"].attributes["transpose_a"] is False
    assert by_op["Reshape"].outputs[0].shape == (2, None)
    shape = next(node for node in captured.nodes if node.op == "Const")
    np.testing.assert_array_equal(shape.attributes["value"], [2, -1])
    branch = by_op["StatelessIf"].attributes["else_branch"].name
    assert "Neg" in [node.op for node in captured.library[branch].nodes]
    assert by_op["MatMul"].location.file == __file__


def test_nodes_that_were_made_alike_share_a_location(compiled):
    @tf.function(autograph=False)
    def f(x):
        for _ in range(3):
            x = tf.sin(x)
        return tf.cos(x)

    captured = capture("f", f.get_concrete_function(tf.TensorSpec([3])).graph)
    sines = [node.location for node in captured.nodes if node.op == "Sin"]
    (cosine,) = (node.location for node in captured.nodes if node.op == "Cos")
    assert [item is sines[0] for item in sines] == [True] * 3
    assert (cosine.file, cosine.line - sines[0].line) == (__file__, 1)
