# SPDX-License-Identifier: Apache-2.0
"""Every stage of `experimental_get_compiler_ir` that TensorFlow documents."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

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
