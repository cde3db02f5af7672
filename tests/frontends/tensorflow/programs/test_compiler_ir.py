# SPDX-License-Identifier: Apache-2.0
"""Every stage of `experimental_get_compiler_ir` that TensorFlow documents."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import compiler_ir

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_proto import parse_hlo_proto
from ingot.formats.stablehlo import parse_stablehlo
from ingot.support.diagnostics import ExecutionError

X = np.array([0.5, 2.0, -1.0], np.float32)
WANTED = np.float32(np.sum(np.sin(X) * X))


@pytest.fixture
def stages():
    @tf.function(jit_compile=True)
    def total(x):
        return tf.reduce_sum(tf.sin(x) * x)

    return total.experimental_get_compiler_ir(tf.constant(X))


@pytest.mark.parametrize(
    ("stage", "read"),
    [
        ("hlo", ingot.parse_hlo),
        ("hlo_no_metadata", ingot.parse_hlo),
        ("hlo_serialized", parse_hlo_proto),
        ("stablehlo", parse_stablehlo),
        ("stablehlo_serialized", parse_stablehlo),
    ],
)
def test_ir_of_a_compiled_function(stages, stage, read):
    made = stages(stage=stage)
    assert isinstance(made, bytes if stage.endswith("_serialized") else str)
    found = np.ravel(evaluate(read(made), [X]))
    np.testing.assert_allclose(found, [WANTED], rtol=1e-6)
    assert ("metadata=" in str(made)) == (stage == "hlo")


@pytest.mark.parametrize(
    "stage", ["optimized_hlo", "optimized_hlo_serialized", "optimized_hlo_proto_serialized"]
)
def test_optimized_ir_of_a_function(stages, stage):
    made = stages(stage=stage)
    module = parse_hlo_proto(made) if isinstance(made, bytes) else ingot.parse_hlo(made)
    assert isinstance(made, bytes) == stage.endswith("_serialized")
    assert "fusion" in [item.opcode for item in module.entry.instructions]


def test_drawing(stages):
    text = stages(stage="optimized_hlo_dot")
    assert text.startswith("digraph")
    assert "sine" in text


def test_several_programs_are_no_single_one():
    @tf.function(jit_compile=True)
    def printed(x):
        y = tf.sin(x)
        z = tf.strings.to_number(tf.strings.as_string(y))
        return tf.exp(z) * y

    stages = printed.experimental_get_compiler_ir(tf.constant(X))
    assert stages(stage="hlo_no_metadata").count("HloModule") == 2
    with pytest.raises(ExecutionError, match="2 programs, and 'hlo_serialized' holds one"):
        stages(stage="hlo_serialized")


@pytest.mark.parametrize("stage", ["hlo", "optimized_hlo"])
def test_a_single_result_is_in_no_tuple(stage):
    """So XLA's are; a variable takes over the buffer of the result then."""
    state = tf.Variable(X)

    @tf.function(jit_compile=True)
    def add(x):
        state.assign_add(x)

    made = add.experimental_get_compiler_ir(tf.constant(X))(stage)
    assert "input_output_alias={ {}: (1, {}, may-alias) }" in made
    found = evaluate(ingot.parse_hlo(made), [X, 2 * X])
    np.testing.assert_array_equal(found, 3 * X)


def test_values_of_arguments_decide_what_is_compiled():
    size = tf.Variable(2)
    captured = tf.constant([1, 0])

    @tf.function(jit_compile=True)
    def turned(x, order):
        return tf.transpose(tf.transpose(x, order), captured)[:size]

    given = tf.ones([3, 4]), tf.constant([1, 0])
    assert "->f32[2,4]{1,0}" in turned.experimental_get_compiler_ir(*given)("hlo")
    assert turned(*given).shape == (2, 4)
    given = tf.ones([3, 4]), tf.constant([0, 1])
    assert "->f32[2,3]{1,0}" in turned.experimental_get_compiler_ir(*given)("optimized_hlo")

    @tf.function
    def outer(x):
        turned.experimental_get_compiler_ir(x, tf.constant([1, 0]))
        return x

    with pytest.raises(TypeError, match="eager tensors"):
        outer(tf.ones([3, 4]))


def test_ir_of_a_concrete_function():
    @tf.function(jit_compile=True)
    def doubled(x):
        return 2.0 * x

    concrete = doubled.get_concrete_function(tf.TensorSpec([None]))
    with pytest.raises(ValueError, match="Only support static input shape"):
        compiler_ir.from_concrete_function(concrete)
    for size in (10, 20):
        made = compiler_ir.from_concrete_function(concrete, [tf.TensorSpec([size])])(stage="hlo")
        assert f"f32[{size}]" in made

    @tf.function(jit_compile=True)
    def chosen(x):
        return 2.0 * x[: tf.cast(x[1], tf.int32) + 1]

    concrete = chosen.get_concrete_function(tf.TensorSpec([3]))
    made = compiler_ir.from_concrete_function(concrete)(stage="hlo")
    np.testing.assert_array_equal(np.ravel(evaluate(ingot.parse_hlo(made), [X])), 2 * X)
