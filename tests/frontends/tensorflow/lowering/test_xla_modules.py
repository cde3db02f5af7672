# SPDX-License-Identifier: Apache-2.0
"""StableHLO programs in TensorFlow functions: tokens, calls of TensorFlow functions, assertions."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla
from tests.frontends.tensorflow.lowering.checking import specs_of, trace

from ingot.frontends.tensorflow.partitioning.placement import has_kernel
from ingot.support.diagnostics import ExecutionError, UnsupportedError

pytest.importorskip("jaxlib.mlir.ir")

X, Y = np.array([1, 2, 3], np.int32), np.array([4, 5, 6], np.int32)

CALLS = """
func.func @main(%t: !stablehlo.token, %x: tensor<3xi32>, %y: tensor<3xi32>)
    -> (!stablehlo.token, tensor<3xi32>) {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<3xi32>) -> tensor<i32>
  %0:2 = stablehlo.custom_call @tf.call_tf_function(%t, %x, %y, %n) {
    has_side_effect = true,
    tf.backend_config = {called_index = 1, has_token_input_output = true}
  } : (!stablehlo.token, tensor<3xi32>, tensor<3xi32>, tensor<i32>)
    -> (!stablehlo.token, tensor<3xi32>)
  %1 = stablehlo.custom_call @tf.call_tf_function(%0#1, %n) {
    tf.backend_config = {called_index = 0}, indices_of_shape_operands = dense<[1]> : tensor<1xi64>
  } : (tensor<3xi32>, tensor<i32>) -> tensor<3xi32>
  return %0#0, %1 : !stablehlo.token, tensor<3xi32>
}"""
ASSERTS = """
func.func @main(%x: tensor<?xi32>) -> tensor<?xi32> {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xi32>) -> tensor<i32>
  %c = stablehlo.constant dense<4> : tensor<i32>
  %ok = stablehlo.compare LT, %n, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%ok, %n, %c) {
    error_message = "{0} is not below {1,=3}|{{0}", has_side_effect = true
  } : (tensor<i1>, tensor<i32>, tensor<i32>) -> ()
  return %x : tensor<?xi32>
}"""
SAYS = "attributes {jax.uses_shape_polymorphism = true}"


def called(text, says=SAYS, platforms=("CPU",), **options):
    def function(*operands):
        return xla.call_module(
            operands,
            version=10,
            module=f"module @m {says} {{ {text} }}",
            Tout=[tf.int32],
            Sout=[[None]],
            platforms=platforms,
            **options,
        )

    return function


def test_calls_of_tensorflow_functions_and_tokens():
    spec = tf.TensorSpec([None], tf.int32)
    functions = [
        tf.function(lambda x: x * 2).get_concrete_function(spec),
        tf.function(lambda x, y: x + y).get_concrete_function(spec, spec),
    ]
    program = trace(called(CALLS, function_list=functions), specs_of([X, Y]))
    (got,), _ = program.evaluate([X, Y])
    np.testing.assert_array_equal(got, (X + Y) * 2)


def test_an_assertion_of_sizes():
    (got,), _ = trace(called(ASSERTS), specs_of([X])).evaluate([X])
    np.testing.assert_array_equal(got, X)
    wrong = np.zeros(5, np.int32)
    with pytest.raises(ExecutionError, match=r"5 is not below  4 \|{0}"):
        trace(called(ASSERTS), specs_of([wrong])).evaluate([wrong])
    unchecked = called(ASSERTS, disabled_checks=["shape_assertions"])
    assert trace(unchecked, specs_of([wrong])).evaluate([wrong])[0][0].size == 5


REFUSED = {
    "= 2. The module main function takes 1 arguments of which 0": ([X, Y], {}),
    "argument 0, refinement element types must match in tensor<.xi32> -> tensor<3xf32>": (
        [X.astype(np.float32)],
        {},
    ),
    "refinement rank must match in tensor<.xi32> -> tensor<3x1xi32>": ([X[:, None]], {}),
    "Module has dynamic shapes": ([X], {"says": ""}),
    "current platform CPU is not among the platforms": ([X], {"platforms": ("TPU",)}),
}


@pytest.mark.parametrize("words", REFUSED)
def test_it_is_refused_in_tensorflows_words(words):
    operands, options = REFUSED[words]
    with pytest.raises(UnsupportedError, match=words):
        trace(called(ASSERTS, **options), specs_of(operands))


def test_invalid_modules_are_refused():
    with pytest.raises(
        UnsupportedError, match="Cannot deserialize computation: MLIR cannot read this StableHLO"
    ):
        trace(called("stablehlo.invalid_op"), specs_of([X]))


def test_refused_modules_are_not_left_to_the_builtin_xla():
    """Its kernels of these ops compile when they run."""
    assert not has_kernel("XlaCallModule")
