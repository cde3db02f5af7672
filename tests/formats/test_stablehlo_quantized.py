# SPDX-License-Identifier: Apache-2.0
"""Quantized types of StableHLO, its asynchronous ops, scans, and other forms that tests of it have.

What a program gives is held against NumPy's own dequantize, compute, quantize.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.formats.mlir_text import function
from tests.support.against_evaluator import agrees

import ingot
from ingot.formats.stablehlo import parse_stablehlo
from ingot.formats.stablehlo.quantization import parse_quantized
from ingot.support.diagnostics import UnsupportedError

Array = np.ndarray[Any, Any]
Q = "!quant.uniform<i8:f32, 0.5:3>"
W = "!quant.uniform<i8:f32, 0.25:-4>"
AXIS = "!quant.uniform<i8<-127:127>:f32:1, {0.5,0.125:2,2.0:-1}>"
WEIGHTS = "!quant.uniform<i8:f32:1, {0.5,0.125,2.0}>"
SCALES, ZEROS = np.float32([0.5, 0.125, 2.0]), np.float32([0, 2, -1])


def both(signature: str, body: str, *inputs: Array) -> list[Array]:
    """Return what evaluator and CPU both give."""
    return agrees(function(signature, body), inputs).results


def quantize(numbers: Array, scale: Any, zero: Any, least: int = -128, most: int = 127) -> Array:
    scaled = np.float32(numbers) / np.float32(scale) + np.float32(zero)
    return np.rint(np.clip(scaled, least, most)).astype(np.int8)


X = np.float32([[0.3, -1.2, 7.4], [100.0, -90.0, 0.26]])
STORED = np.int8([[3, -20, 100], [-128, 127, 7]])


def test_numbers_are_rounded_to_integers_of_a_range():
    (found,) = both(
        f"(%x: tensor<2x3xf32>) -> tensor<2x3x{Q}>",
        f"""%0 = stablehlo.uniform_quantize %x : (tensor<2x3xf32>) -> tensor<2x3x{Q}>
        return %0 : tensor<2x3x{Q}>""",
        X,
    )
    assert found.dtype == np.int8
    np.testing.assert_array_equal(found, quantize(X, 0.5, 3))


def test_scales_along_an_axis_and_a_narrow_range():
    quantized, numbers = both(
        f"(%x: tensor<2x3xf32>) -> (tensor<2x3x{AXIS}>, tensor<2x3xf32>)",
        f"""%0 = stablehlo.uniform_quantize %x : (tensor<2x3xf32>) -> tensor<2x3x{AXIS}>
        %1 = stablehlo.uniform_dequantize %0 : (tensor<2x3x{AXIS}>) -> tensor<2x3xf32>
        return %0, %1 : tensor<2x3x{AXIS}>, tensor<2x3xf32>""",
        X,
    )
    np.testing.assert_array_equal(quantized, quantize(X, SCALES, ZEROS, -127))
    np.testing.assert_array_equal(numbers, (quantized - ZEROS) * SCALES)


def test_an_op_computes_on_the_numbers():
    (found,) = both(
        f"(%x: tensor<2x3x{Q}>) -> tensor<2x3x{W}>",
        f"""%0 = stablehlo.tanh %x : (tensor<2x3x{Q}>) -> tensor<2x3x{W}>
        return %0 : tensor<2x3x{W}>""",
        STORED,
    )
    np.testing.assert_array_equal(
        found, quantize(np.tanh((STORED - np.float32(3)) * 0.5), 0.25, -4)
    )


def test_a_type_is_changed_to_another():
    (found,) = both(
        f"(%x: tensor<2x3x{Q}>) -> tensor<2x3x{W}>",
        f"""%0 = stablehlo.uniform_quantize %x : (tensor<2x3x{Q}>) -> tensor<2x3x{W}>
        return %0 : tensor<2x3x{W}>""",
        STORED,
    )
    np.testing.assert_array_equal(found, quantize((STORED - np.float32(3)) * 0.5, 0.25, -4))


def test_moves_keep_the_integers_and_comparisons_see_the_numbers():
    moved, less = both(
        f"(%x: tensor<2x3x{Q}>) -> (tensor<3x2x{Q}>, tensor<2x3xi1>)",
        f"""%0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3x{Q}>) -> tensor<3x2x{Q}>
        %c = stablehlo.constant() {{value = dense<4> : tensor<2x3xi8>}} : () -> tensor<2x3x{Q}>
        %1 = stablehlo.compare LT, %x, %c : (tensor<2x3x{Q}>, tensor<2x3x{Q}>) -> tensor<2x3xi1>
        return %0, %1 : tensor<3x2x{Q}>, tensor<2x3xi1>""",
        STORED,
    )
    np.testing.assert_array_equal(moved, STORED.T)
    np.testing.assert_array_equal(less, STORED < 4)


def test_products_of_numbers_by_quantized_weights():
    (found,) = both(
        f"(%x: tensor<4x2xf32>, %w: tensor<2x3x{WEIGHTS}>) -> tensor<4x3xf32>",
        f"""%0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
          : (tensor<4x2xf32>, tensor<2x3x{WEIGHTS}>) -> tensor<4x3xf32>
        return %0 : tensor<4x3xf32>""",
        np.float32([[1, 2], [0, 1], [-1, 0.5], [4, 4]]),
        STORED,
    )
    weights = STORED * SCALES
    x = np.float32([[1, 2], [0, 1], [-1, 0.5], [4, 4]])
    np.testing.assert_allclose(found, x @ weights, rtol=1e-6)


def test_regions_compute_on_the_numbers_step_by_step():
    (found,) = both(
        f"(%x: tensor<2x3x{Q}>, %z: tensor<{Q}>) -> tensor<2x{Q}>",
        f"""%0 = "stablehlo.reduce"(%x, %z) ({{
          ^bb0(%a: tensor<{Q}>, %b: tensor<{Q}>):
            %m = stablehlo.maximum %a, %b : tensor<{Q}>
            stablehlo.return %m : tensor<{Q}>
        }}) {{dimensions = array<i64: 1>}} : (tensor<2x3x{Q}>, tensor<{Q}>) -> tensor<2x{Q}>
        return %0 : tensor<2x{Q}>""",
        STORED,
        np.int8(-128),
    )
    np.testing.assert_array_equal(found, STORED.max(axis=1))


@pytest.mark.parametrize(
    ("text", "storage", "limits"),
    [
        ("!quant.uniform<u8:f32, 3.4e+01:16>", "u8", (0, 255)),
        ("!quant.uniform<i4:f32, 0.1>", "s4", (-8, 7)),
        ("!quant.uniform<i32:f64, 1.0e-3:7>", "s32", (-(2**31), 2**31 - 1)),
    ],
)
def test_types_are_read(text: str, storage: str, limits: tuple[int, int]):
    found = parse_quantized(text)
    assert (found.storage.name, (found.least, found.most)) == (storage, limits)


def test_other_quantized_types_are_refused():
    with pytest.raises(UnsupportedError, match=r"quant\.calibrated"):
        parse_quantized("!quant.calibrated<f32<-1.0:1.0>>")


def test_bytecode_may_have_quantized_types():
    import io

    from ingot.formats.stablehlo.binding import parse_mlir

    text = f"func.func @main(%x: tensor<2x{Q}>) -> tensor<2x{Q}> {{ return %x : tensor<2x{Q}> }}"
    written = io.BytesIO()
    module = parse_mlir(text)
    module.operation.write_bytecode(written)
    assert parse_stablehlo(written.getvalue()).entry.root.shape.dtype.name == "s8"


def test_what_is_started_is_done_at_once():
    module = function(
        "(%x: tensor<4xf32>) -> tensor<4xf32>",
        """%f = "stablehlo.async_start"(%x) ({
          ^bb0(%a: tensor<4xf32>):
            %g = "stablehlo.all_gather"(%a) {all_gather_dim = 0 : i64,
              replica_groups = dense<[[0]]> : tensor<1x1xi64>} : (tensor<4xf32>) -> tensor<4xf32>
            stablehlo.return %g : tensor<4xf32>
        }) : (tensor<4xf32>) -> !stablehlo.future<tensor<4xf32>>
        %n = stablehlo.negate %x : tensor<4xf32>
        %d = "stablehlo.async_done"(%f) : (!stablehlo.future<tensor<4xf32>>) -> tensor<4xf32>
        %r = stablehlo.subtract %d, %n : tensor<4xf32>
        return %r : tensor<4xf32>""",
    )
    value = np.float32([1, 2, 3, 4])
    assert np.asarray(ingot.compile(module)(value)).tolist() == [2, 4, 6, 8]


def test_paddings_of_one_number():
    (found,) = both(
        "(%x: tensor<1x4x4x1xf32>, %k: tensor<3x3x1x1xf32>) -> tensor<1x4x4x1xf32>",
        """%p = stablehlo.constant dense<1> : tensor<2x2xi64>
        %0 = "stablehlo.dynamic_conv"(%x, %k, %p) {
          dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,
          batch_group_count = 1 : i64, feature_group_count = 1 : i64
        } : (tensor<1x4x4x1xf32>, tensor<3x3x1x1xf32>, tensor<2x2xi64>) -> tensor<1x4x4x1xf32>
        return %0 : tensor<1x4x4x1xf32>""",
        np.ones((1, 4, 4, 1), np.float32),
        np.ones((3, 3, 1, 1), np.float32),
    )
    assert found[0, :, :, 0].tolist()[:2] == [[4, 6, 6, 4], [6, 9, 9, 6]]


def test_complex_numbers_are_true_by_their_real_part():
    (found,) = both(
        "(%x: tensor<3xcomplex<f32>>) -> tensor<3xi1>",
        """%0 = stablehlo.convert %x : (tensor<3xcomplex<f32>>) -> tensor<3xi1>
        return %0 : tensor<3xi1>""",
        np.complex64([-1, 1j, 1]),
    )
    assert found.tolist() == [True, False, True]


@pytest.mark.parametrize(("reverse", "want"), [("false", [1, 3, 6, 10]), ("true", [10, 9, 7, 4])])
def test_scans_go_both_ways(reverse: str, want: list[int]):
    sums, total = both(
        "(%x: tensor<4xi32>) -> (tensor<4xi32>, tensor<i32>)",
        f"""%z = stablehlo.constant dense<0> : tensor<i32>
        %0:2 = chlo.scan(%x) inits(%z) dimension=0 attributes {{is_reverse = {reverse}}} {{
          ^bb0(%a: tensor<i32>, %b: tensor<i32>):
            %s = stablehlo.add %a, %b : tensor<i32>
            stablehlo.return %s, %s : tensor<i32>, tensor<i32>
        }} : (tensor<4xi32>, tensor<i32>) -> (tensor<4xi32>, tensor<i32>)
        return %0#0, %0#1 : tensor<4xi32>, tensor<i32>""",
        np.int32([1, 2, 3, 4]),
    )
    assert sums.tolist() == want
    assert total == 10
