# SPDX-License-Identifier: Apache-2.0
"""SavedModels and GraphDefs hold the user's functions, not launches, and can be differentiated."""

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from ingot.frontends.tensorflow.launches.launch_op import LAUNCH_OP, STATEFUL_LAUNCH_OP

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


def slope(x):
    return np.sin(x) + x * np.cos(x)


def total_of_waves():
    return tf.function(lambda x: tf.reduce_sum(tf.sin(x) * x), jit_compile=True)


def test_an_imported_graph_is_differentiated(compiled):
    total = total_of_waves()
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [3], name="x")
        tf.identity(total(x), name="y")
    definition = graph.as_graph_def(add_shapes=True)
    (function,) = definition.library.function
    assert "Sin" in {node.op for node in function.node_def}
    assert list(function.attr["_input_shapes"].list.shape)
    with tf.Graph().as_default() as imported, tf.compat.v1.Session() as session:
        tf.import_graph_def(definition, name="")
        x, y = (imported.get_tensor_by_name(f"{name}:0") for name in "xy")
        have, gradient = session.run([y, tf.gradients(y, x)[0]], {x: X})
    np.testing.assert_allclose(have, np.sum(np.sin(X) * X), rtol=1e-6)
    np.testing.assert_allclose(gradient, slope(X), rtol=1e-5)


def test_a_graph_session_differentiates_what_is_compiled(compiled):
    total = total_of_waves()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [3])
        (gradient,) = tf.gradients(total(x), x)
        np.testing.assert_allclose(session.run(gradient, {x: X}), slope(X), rtol=1e-5)
    assert compiled


def test_a_wrapped_function_differentiates_what_is_compiled(compiled):
    total = total_of_waves()
    wrapped = tf.compat.v1.wrap_function(
        lambda x: tf.gradients(total(x), x), [tf.TensorSpec([3], tf.float32)]
    )
    np.testing.assert_allclose(wrapped(tf.constant(X))[0], slope(X), rtol=1e-5)
    assert compiled


def test_variables_are_frozen(compiled):
    model = Model()
    scale = tf.function(lambda x: total_of_waves()(x) * model.factor)
    concrete = scale.get_concrete_function(tf.TensorSpec([3], tf.float32))
    frozen = convert_variables_to_constants_v2(concrete)
    have = frozen(tf.constant(X))[0]
    np.testing.assert_allclose(have, 2 * np.sum(np.sin(X) * X), rtol=1e-6)


def test_a_loaded_model_is_differentiated(compiled, tmp_path):
    model = tf.Module()
    signature = [tf.TensorSpec([3], tf.float32)]
    model.total = tf.function(
        total_of_waves().python_function, jit_compile=True, input_signature=signature
    )
    tf.saved_model.save(model, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = loaded.total(x)
    np.testing.assert_allclose(tape.gradient(y, x), slope(X), rtol=1e-5)
    assert len(compiled) == 2
