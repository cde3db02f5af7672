# SPDX-License-Identifier: Apache-2.0
"""StableHLO's reductions in wider elements than their operands (`is_promotable`)."""

import ml_dtypes
import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.formats.stablehlo import parse_stablehlo
from ingot.hlo.verifier import verify

ADD = """({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): %s = stablehlo.add %x, %y : tensor<f32>
 "stablehlo.return"(%s) : (tensor<f32>) -> () })"""
ZERO = "%z = stablehlo.constant dense<0.0> : tensor<bf16>\n"
VALUE = (np.arange(8) / 7).astype(ml_dtypes.bfloat16)
WIDE = VALUE.astype(np.float32)
PROGRAMS = {
    "reduce": (
        f'{ZERO} %r = "stablehlo.reduce"(%a, %z) {ADD} {{dimensions = array<i64: 0>}}'
        " : (tensor<8xbf16>, tensor<bf16>) -> tensor<f32>",
        "tensor<f32>",
        WIDE.sum(),
    ),
    "reduce_window": (
        f'{ZERO} %r = "stablehlo.reduce_window"(%a, %z) {ADD}'
        " {window_dimensions = array<i64: 2>}"
        " : (tensor<8xbf16>, tensor<bf16>) -> tensor<7xf32>",
        "tensor<7xf32>",
        WIDE[1:] + WIDE[:-1],
    ),
    "all_reduce": (
        f'%r = "stablehlo.all_reduce"(%a) {ADD} {{replica_groups = dense<0> : tensor<1x1xi64>}}'
        " : (tensor<8xbf16>) -> tensor<8xf32>",
        "tensor<8xf32>",
        WIDE,
    ),
    "scatter": (
        "%i = stablehlo.constant dense<[[1], [1]]> : tensor<2x1xi32>\n"
        "%u = stablehlo.constant dense<[0.3, 1000.0]> : tensor<2xbf16>\n"
        f'%r = "stablehlo.scatter"(%a, %i, %u) {ADD} {{scatter_dimension_numbers ='
        " #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],"
        " index_vector_dim = 1>} : (tensor<8xbf16>, tensor<2x1xi32>, tensor<2xbf16>)"
        " -> tensor<8xf32>",
        "tensor<8xf32>",
        WIDE + np.float32([0, ml_dtypes.bfloat16(0.3) + np.float32(1000), 0, 0, 0, 0, 0, 0]),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_operands_are_converted_to_what_the_region_takes(name: str):
    body, result, want = PROGRAMS[name]
    module = parse_stablehlo(
        f"module {{ func.func @main(%a: tensor<8xbf16>) -> {result} {{ {body}\n"
        f" return %r : {result} }} }}"
    )
    verify(module)
    for found in (evaluate(module, [VALUE]), ingot.compile(module)(VALUE)):
        np.testing.assert_allclose(np.asarray(found), want, rtol=1e-6)
        assert np.asarray(found).dtype == np.float32
