# SPDX-License-Identifier: Apache-2.0
"""The issue's six programs, from `examples/`: what each promises, held in numbers."""

import functools
import re
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.programs.beside import check, compilations_of

import control_flow
import digits
import errors
import fused_reduce
import keras_mlp
import shapes
import training_step
from ingot.frontends.tensorflow import hook

STEPS = 100


def test_a_fused_reduction_is_one_kernel(compiled):
    size = 1 << 16
    x, y, z = fused_reduce.inputs(size)
    total = fused_reduce.fused_reduce(x, y, z)
    exact = (x.numpy().astype(np.float64) + y.numpy().astype(np.float64) * z.numpy()).sum()
    np.testing.assert_allclose(total, exact, rtol=1e-5)
    (kernel,) = compiled[0].executable.kernels
    assert kernel.bytes_read == 3 * size * 4
    assert kernel.bytes_written == 4
    assert any("fused_reduce.py" in line for line in kernel.lines)


def test_a_fused_reduction_of_any_size_is_one_kernel(compiled):
    spec = tf.TensorSpec([None], tf.float32)

    @tf.function(jit_compile=True, input_signature=[spec, spec, spec])
    def fused(x, y, z):
        return tf.reduce_sum(x + y * z)

    for size in (0, 1, 7, 1000, 300_000):
        x, y, z = fused_reduce.inputs(size)
        np.testing.assert_allclose(fused(x, y, z), tf.reduce_sum(x + y * z), rtol=1e-5)
    assert len(compiled) == 1
    assert len(compiled[0].executable.kernels) == 1


def test_the_training_step_learns_digits(compiled):
    data = digits.load()
    network, losses = training_step.train(steps=1000)
    assert losses[-1] < losses[0] / 5
    assert training_step.accuracy(network, data.test_images, data.test_labels) >= 0.91
    assert len(compilations_of("train_step")) == 1


def test_the_training_step_has_tensorflows_losses(compiled):
    _, wanted = training_step.train(STEPS, jit_compile=None)
    _, losses = training_step.train(STEPS)
    np.testing.assert_allclose(losses, wanted, rtol=1e-4)
    (step,) = compilations_of("train_step")
    # Parameters are updated in place: each is an input that an output takes over.
    aliased = [item.alias_param for item in step.executable.program.info.outputs]
    assert sum(item is not None for item in aliased) >= 12  # 4 weights, 2 slots each


def keras_losses(jit_compile, steps):
    """Return the losses of `steps` training steps, the last batch of an epoch smaller."""

    class Losses(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.found = []

        def on_train_batch_end(self, batch, logs=None):
            self.found.append(logs["loss"])

    data = digits.load()
    model = keras_mlp.make_model(jit_compile)
    losses = Losses()
    rows = 29 + 9 * keras_mlp.BATCH  # ten steps an epoch
    model.fit(
        data.train_images[:rows],
        data.train_labels[:rows],
        batch_size=keras_mlp.BATCH,
        epochs=steps // 10,
        verbose=0,
        callbacks=[losses],
    )
    scores = model.evaluate(data.test_images, data.test_labels, verbose=0)
    return losses.found, scores, model.predict(data.test_images, verbose=0)


def test_the_keras_model_has_tensorflows_losses(compiled):
    wanted, wanted_scores, wanted_guesses = keras_losses(False, STEPS)
    assert not compiled
    losses, scores, guesses = keras_losses(True, STEPS)
    assert len(losses) == STEPS
    np.testing.assert_allclose(losses, wanted, rtol=1e-4)
    np.testing.assert_allclose(scores, wanted_scores, rtol=1e-3)
    np.testing.assert_allclose(guesses, wanted_guesses, rtol=1e-2, atol=1e-2)
    # Training and evaluation, each once although the last batches are smaller. Keras itself traces
    # prediction twice: for the first batch alone, and then for an open batch.
    assert len(compilations_of("one_step_on_data")) == len(compiled) == 4


def test_control_flow():
    def program(jit):
        wrap = functools.partial(tf.function, jit_compile=jit)
        eigenvalue = wrap(control_flow.largest_eigenvalue.python_function)
        clip = wrap(control_flow.clip_by_norm.python_function)
        matrix = tf.constant([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]])
        found = [eigenvalue(matrix, tf.constant(t)) for t in (1e-1, 1e-2, 1e-4)]
        return found, [clip(tf.constant([3.0, 4.0]), tf.constant(t)) for t in (1.0, 10.0)]

    check(program)


def test_shapes(compiled):
    for batch in (1, 2, 5, 64):
        rows = shapes.rows(batch)
        wanted = shapes.normalise(rows)
        np.testing.assert_allclose(shapes.open_batch(rows), wanted, rtol=1e-4)
        np.testing.assert_allclose(shapes.any_shape(rows), wanted, rtol=1e-4)
    # One for the open signature, and one for each shape without it.
    assert len(compiled) == 5


@pytest.mark.parametrize("name", errors.CASES)
def test_errors_name_the_op_the_line_the_cause_and_a_way_out(name):
    hook.disable()
    hook.enable(strict=True)
    error = errors.error_of(name)
    assert isinstance(error, tf.errors.InvalidArgumentError)
    op, expression = {
        "a string op": ("AsString", "as_string"),
        "an op that no compiler here knows": ("MatrixLogarithm", "logm"),
        "shapes that do not fit": ("AddV2", "left + right"),
    }[name]
    text = error.message
    assert re.search(rf"op: {op} \(node '\w+'", text), text
    place = re.search(r"at: (.*errors\.py):(\d+)", text)
    assert place is not None, text
    source = Path(place[1]).read_text().splitlines()
    assert expression in source[int(place[2]) - 1]
    assert "hint: " in text
    assert "IngotLaunch" not in text


def test_a_shape_mismatch_names_the_arguments_and_their_sizes():
    with pytest.raises(tf.errors.InvalidArgumentError) as found:
        errors.shape_mismatch(tf.ones([2, 3]), tf.ones([5, 3]))
    for part in ("[2,3]", "[5,3]", "AddV2", "errors.py"):
        assert part in found.value.message
