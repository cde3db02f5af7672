# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's models compiled ahead of time agree with TensorFlow, in a process without it."""

import pickle
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import ingot
import ingot.tensorflow
from ingot.aot.build import compile_aot
from ingot.tools.cli import main

CHILD = """
import pickle, sys
from pathlib import Path
import ingot

library, inputs, results = map(Path, sys.argv[1:])
run = ingot.load_executable(library)
rows = [run(*args) for args in pickle.loads(inputs.read_bytes())]
results.write_bytes(pickle.dumps(rows))
print([name for name in ("tensorflow", "keras", "llvmlite") if name in sys.modules])
"""


def without_tensorflow(tmp_path, calls, name="libnet.so"):
    """Return what a library gives for each of the calls, in a process of its own."""
    (tmp_path / "inputs").write_bytes(pickle.dumps(calls))
    paths = [str(tmp_path / item) for item in (name, "inputs", "results")]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *paths], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
    return pickle.loads((tmp_path / "results").read_bytes())


def loaded(path, function):
    path.write_bytes(compile_aot(ingot.tensorflow.frozen_module(function), "f", "plain").library)
    return ingot.load_executable(path)


class Model(tf.Module):
    """Two layers, with a branch and an axis that is a tensor from outside."""

    def __init__(self):
        super().__init__()
        random = np.random.default_rng(1)
        self.weights = tf.Variable(random.standard_normal((3, 4), np.float32))
        self.table = tf.Variable(random.standard_normal((7, 4), np.float32))
        self.axis = tf.constant(1)
        self.count = tf.Variable(0)

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 3], tf.float32, "x"),
            tf.TensorSpec([None], tf.int32, "rows"),
        ]
    )
    def score(self, x, rows):
        made = tf.nn.relu(x @ self.weights) + tf.gather(self.table, rows)
        if tf.reduce_sum(made) > 0:
            made = made * self.table[0]
        return {"total": tf.reduce_sum(made, axis=self.axis), "made": made, "same": x}

    @tf.function(input_signature=[tf.TensorSpec([2])])
    def counted(self, x):
        self.count.assign_add(1)
        return x

    @tf.function(input_signature=[tf.TensorSpec([2])])
    def told(self, x):
        tf.print(x)
        return x * 2


def calls(*counts):
    random = np.random.default_rng(5)
    return [
        [random.standard_normal((n, 3), np.float32), random.integers(0, 7, n).astype(np.int32)]
        for n in counts
    ]


def test_a_signature_of_a_saved_model(tmp_path):
    model = Model()
    tf.saved_model.save(model, tmp_path / "saved", signatures={"serving_default": model.score})
    out = ["-o", str(tmp_path / "net"), "--signature", "serving_default", "--tag", "serve"]
    assert main(["aot", str(tmp_path / "saved"), *out]) == 0
    # A signature's inputs and outputs are sorted by name.
    given = calls(5, 1, 30)
    results = without_tensorflow(tmp_path, [[rows, x] for x, rows in given])
    for found, call in zip(results, given, strict=True):
        wanted = model.score(*call)
        for name, got in zip(("made", "same", "total"), found, strict=True):
            np.testing.assert_allclose(got, wanted[name], rtol=1e-5, atol=1e-6)


def test_a_keras_file(tmp_path):
    keras.utils.set_random_seed(2)
    image = keras.Input((8, 8, 3), name="image")
    scale = keras.Input((1,), name="scale")
    x = keras.layers.Conv2D(4, 3, activation="relu")(image)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.Dropout(0.5)(keras.layers.Flatten()(x))
    model = keras.Model([image, scale], keras.layers.Dense(3)(x) * scale)
    model.save(tmp_path / "net.keras")
    assert main(["aot", str(tmp_path / "net.keras"), "-o", str(tmp_path / "net")]) == 0
    random = np.random.default_rng(4)
    given = [
        [random.standard_normal((n, 8, 8, 3), np.float32), random.random((n, 1), np.float32)]
        for n in (1, 6)
    ]
    for found, call in zip(without_tensorflow(tmp_path, given), given, strict=True):
        np.testing.assert_allclose(found, model(call), rtol=1e-4, atol=1e-5)


def test_a_function_in_python_keeps_its_order_and_the_values_of_now(tmp_path):
    model = Model()
    ((x, rows),) = calls(4)
    before = {name: value.numpy() for name, value in model.score(x, rows).items()}
    run = loaded(tmp_path / "score.so", model.score)
    model.weights.assign(model.weights * 0)
    made, same, total = run(x, rows)
    np.testing.assert_allclose(made, before["made"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(total, before["total"], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(same, x)
    concrete = tf.function(lambda x: tf.sort(x) + model.table[1]).get_concrete_function(
        tf.TensorSpec([4])
    )
    four = np.float32([4, 1, 3, 2])
    run = loaded(tmp_path / "sorted.so", concrete)
    np.testing.assert_allclose(run(four), concrete(four), rtol=1e-6)


def test_functions_that_ingot_replaced_are_frozen_as_the_user_wrote_them(tmp_path):
    ingot.tensorflow.enable()
    try:
        weight = tf.Variable([1.0, 2.0, 3.0])
        inner = tf.function(lambda x: tf.cumsum(x) * weight, jit_compile=True)
        outer = tf.function(lambda x: inner(x) + inner(2 * x), jit_compile=True)
        x = np.float32([1, 2, 3])
        wanted = outer(tf.constant(x))
        run = loaded(tmp_path / "outer.so", outer.get_concrete_function(tf.TensorSpec([3])))
        np.testing.assert_allclose(run(x), wanted, rtol=1e-6)
    finally:
        ingot.tensorflow.disable()


def refusal(function):
    with pytest.raises(ingot.UnsupportedError) as info:
        ingot.tensorflow.frozen_module(function)
    return str(info.value)


def test_what_cannot_be_frozen_names_op_and_line():
    model = Model()

    @tf.function(input_signature=[tf.TensorSpec([3]), tf.TensorSpec([], tf.int32)])
    def ranged(x, n):
        return tf.reduce_sum(x, axis=n)

    @tf.function(input_signature=[tf.TensorSpec([3])])
    def drawn(x):
        return x + tf.random.normal([3])

    rows = [
        (model.counted, "AssignAddVariableOp", "writes the variable"),
        (model.told, "StringFormat", "cannot be in an artifact"),
        (ranged, "Sum", "depends on the value of the argument 'n'"),
        (drawn, "RandomStandardNormal", "go on from call to call"),
    ]
    for function, op, why in rows:
        text = refusal(function)
        assert op in text
        assert why in text
        assert "test_aot.py:" in text


def test_what_is_no_function_of_known_inputs_is_refused():
    assert "has no input signature" in refusal(tf.function(lambda x: x))
    assert "are not known" in refusal(keras.Sequential([keras.layers.Dense(2)]))
    text = tf.function(lambda x: x, input_signature=[tf.TensorSpec([2], tf.string)])
    assert "of type string" in refusal(text)
    with pytest.raises(TypeError, match="ConcreteFunction"):
        ingot.tensorflow.frozen_module(len)


def test_missing_models_signatures_and_tags_are_clear_errors(tmp_path, capsys):
    folder = str(tmp_path / "saved")
    model = Model()
    tf.saved_model.save(model, folder, signatures={"serving_default": model.score})
    (tmp_path / "empty").mkdir()
    rows = [
        ([folder, "--signature", "other"], "its signatures: serving_default"),
        ([folder, "--tag", "train"], "cannot be read"),
        ([str(tmp_path / "empty")], "cannot be read"),
        ([str(tmp_path / "absent.keras")], "cannot be read"),
    ]
    for words, message in rows:
        assert main(["aot", *words, "-o", str(tmp_path / "net")]) != 0
        assert message in capsys.readouterr().err
