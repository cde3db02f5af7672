"""SavedModels hold the user's functions, not launches, and are compiled again when loaded."""

import numpy as np
import tensorflow as tf

from ingot.frontends.tensorflow.launch_op import LAUNCH_OP, STATEFUL_LAUNCH_OP

X = np.array([1.0, 2.0, 3.0], np.float32)


class Model(tf.Module):
    def __init__(self):
        self.factor = tf.Variable(2.0)

    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([3], tf.float32)])
    def scale(self, x):
        self.factor.assign_add(1.0)
        return x * self.factor

    @tf.function(input_signature=[tf.TensorSpec([3], tf.float32)])
    def serve(self, x):
        return {"result": self.scale(x) + 1.0}


def ops_of(path):
    model = tf.compat.v1.saved_model.load(tf.compat.v1.Session(graph=tf.Graph()), ["serve"], path)
    functions = model.graph_def.library.function
    return {node.op for function in functions for node in function.node_def}, functions


def test_export_and_load(compiled, tmp_path):
    model = Model()
    np.testing.assert_allclose(model.serve(tf.constant(X))["result"], 3 * X + 1)
    path = str(tmp_path / "model")
    tf.saved_model.save(model, path, signatures=model.serve)
    found, functions = ops_of(path)
    assert LAUNCH_OP not in found
    assert STATEFUL_LAUNCH_OP not in found
    assert "Mul" in found
    assert any(function.attr["_XlaMustCompile"].b for function in functions)
    # The live model runs compiled code again.
    np.testing.assert_allclose(model.scale(tf.constant(X)), 4 * X)
    body = model.scale.get_concrete_function().function_def
    assert {node.op for node in body.node_def} >= {STATEFUL_LAUNCH_OP}
    compiled.clear()
    loaded = tf.saved_model.load(path)
    np.testing.assert_allclose(loaded.scale(tf.constant(X)), 4 * X)
    np.testing.assert_allclose(loaded.signatures["serving_default"](x=X)["result"], 5 * X + 1)
    assert len(compiled) == 2  # as a function of its own, and inside of the signature
