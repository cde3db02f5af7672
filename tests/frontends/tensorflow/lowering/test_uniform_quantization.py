# SPDX-License-Identifier: Apache-2.0
"""Uniformly quantised integers against TensorFlow, by way of floats: NumPy has no such types."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops
from tensorflow.core.util.quantization import uniform_quant_ops_attr_pb2 as attributes
from tests.frontends.tensorflow.lowering.checking import check, numbers
from tests.xla_compilations import on_purpose

RAW = tf.raw_ops
BYTE = {"quantization_min_val": -128, "quantization_max_val": 127}
WORD = {"quantization_min_val": -(2**31), "quantization_max_val": 2**31 - 1}
CHANNELS = {"scales": [0.011, 0.02, 0.03], "zero_points": [1, -2, 0], "quantization_axis": 1}
WHOLE = {"scales": 0.013, "zero_points": 3}


def prefixed(prefix, settings):
    return {prefix + key: value for key, value in settings.items()}


def quantized(x, kind=tf.qint8, limits=BYTE, **settings):
    return RAW.UniformQuantize(input=x, Tout=kind, **limits, **(settings or WHOLE))


def floats(x, limits=BYTE, **settings):
    return RAW.UniformDequantize(input=x, Tout=tf.float32, **limits, **(settings or WHOLE))


def requantized(x):
    return RAW.UniformRequantize(
        input=quantized(x, tf.qint32, WORD), Tout=tf.qint8, **prefixed("input_", {**WHOLE, **WORD}),
        **prefixed("output_", {"scales": 0.0307, "zero_points": -5, **BYTE}),
    )  # fmt: skip


def total(x):
    settings = {"scales": 0.0171, "zero_points": 4, **WORD}
    return RAW.UniformQuantizedAdd(
        lhs=quantized(x, tf.qint32, WORD), rhs=quantized(x * 0.7, tf.qint32, WORD),
        **prefixed("lhs_", {**WHOLE, **WORD}), **prefixed("rhs_", {**WHOLE, **WORD}),
        **prefixed("output_", settings),
    )  # fmt: skip


def product(x):
    settings = {"scales": 0.0019, "zero_points": 0, **WORD}
    return RAW.UniformQuantizedDot(
        lhs=quantized(x), rhs=quantized(tf.transpose(x)), Tout=tf.qint32,
        **prefixed("lhs_", {**WHOLE, **BYTE}), **prefixed("rhs_", {**WHOLE, **BYTE}),
        **prefixed("output_", settings),
    )  # fmt: skip


def clipped(x):
    ends = (tf.bitcast(tf.constant(end), tf.qint32) for end in (-20, 30))
    low, high = ends
    return RAW.UniformQuantizedClipByValue(
        operand=quantized(x, tf.qint32, WORD), min=low, max=high, **WHOLE, **WORD
    )


CASES = {
    "whole": lambda x: floats(quantized(x)),
    "channels": lambda x: floats(quantized(x, **CHANNELS), **CHANNELS),
    "requantized": lambda x: floats(requantized(x), scales=0.0307, zero_points=-5),
    "sum": lambda x: floats(total(x), WORD, scales=0.0171, zero_points=4),
    "product": lambda x: floats(product(x), WORD, scales=0.0019, zero_points=0),
}


NHWC = attributes.UniformQuantizedConvolutionDimensionNumbersAttr(
    input_batch_dimension=0, input_feature_dimension=3, input_spatial_dimensions=[1, 2],
    kernel_input_feature_dimension=2, kernel_output_feature_dimension=3,
    kernel_spatial_dimensions=[0, 1], output_batch_dimension=0, output_feature_dimension=3,
    output_spatial_dimensions=[1, 2],
).SerializeToString()  # fmt: skip
CHANNELS_LAST = {"dimension_numbers": NHWC, "rhs_quantization_axis": 3}
OF_CHANNELS = {"rhs_scales": [0.011, 0.02, 0.03, 0.04], "rhs_zero_points": [1, -2, 0, 3]}
CONVOLUTIONS = {
    "valid": ((2, 3, 5, 6), (4, 3, 2, 3), {"padding": "VALID"}),
    "strided": ((2, 3, 5, 6), (4, 3, 2, 3), {"padding": "SAME", "window_strides": [2, 3]}),
    "dilated": (
        (2, 3, 5, 6), (4, 3, 2, 3),
        {"padding": "SAME", "lhs_dilation": [2, 1], "rhs_dilation": [1, 2],
         "window_strides": [2, 2]},
    ),
    "explicit": (
        (2, 3, 5), (4, 3, 2), {"padding": "EXPLICIT", "explicit_padding": [2, 1]},
    ),
    "groups": ((2, 6, 5, 6), (4, 3, 2, 3), {"padding": "VALID", "feature_group_count": 2}),
    "batch_groups": ((2, 3, 5, 6), (4, 3, 2, 3), {"padding": "VALID", "batch_group_count": 2}),
    "channels": (
        (2, 3, 5), (4, 3, 2), {"padding": "SAME", "rhs_quantization_axis": 0, **OF_CHANNELS},
    ),
    "channels_last": (
        (2, 5, 6, 3), (2, 3, 3, 4), {"padding": "SAME", **CHANNELS_LAST, **OF_CHANNELS},
    ),
}  # fmt: skip


def convolved(x, kernel, **settings):
    given = {**prefixed("rhs_", {**WHOLE, **BYTE}), **settings}
    axis = given.get("rhs_quantization_axis", -1)
    kernel = quantized(
        kernel, scales=given["rhs_scales"], zero_points=given["rhs_zero_points"],
        quantization_axis=axis,
    )  # fmt: skip
    made = RAW.UniformQuantizedConvolution(
        lhs=quantized(x), rhs=kernel, Tout=tf.qint32, **prefixed("lhs_", {**WHOLE, **BYTE}),
        **prefixed("output_", {"scales": 0.0019, "zero_points": 7, **WORD}), **given,
    )  # fmt: skip
    hybrid = RAW.UniformQuantizedConvolutionHybrid(lhs=x, rhs=kernel, Tout=tf.float32, **given)
    return floats(made, WORD, scales=0.0019, zero_points=7), hybrid


@pytest.mark.parametrize("name", sorted(CONVOLUTIONS))
def test_convolutions(name):
    image, kernel, settings = CONVOLUTIONS[name]
    check(
        lambda x, k: convolved(x, k, **settings), numbers(*image), numbers(*kernel), tolerance=2e-3
    )


@pytest.mark.parametrize("scale", [0.0, 1e-40, 1.0])
def test_floats_times_quantised_integers(scale):
    def run(x, y):
        settings = prefixed("rhs_", {**WHOLE, **BYTE})
        return RAW.UniformQuantizedDotHybrid(lhs=x, rhs=quantized(y), Tout=tf.float32, **settings)

    x = numbers(4, 3) * np.float32(scale)
    x[1] = np.abs(x[1])
    check(run, x, numbers(3, 5), tolerance=1e-5)


@pytest.mark.parametrize("name", sorted(CASES))
def test_uniform_quantization(name):
    check(CASES[name], numbers(4, 3), tolerance=1e-5)


def test_clipping():
    x = numbers(4, 3)
    check(lambda x: floats(clipped(x), WORD), x, tolerance=1e-5)


def test_the_device_is_the_cpu():
    check(lambda x: RAW.DeviceIndex(device_names=["GPU", "CPU"]) + x, np.int32(1))


@pytest.mark.parametrize("mode", ["MIN_COMBINED", "MIN_FIRST", "SCALED"])
@pytest.mark.parametrize(("kind", "dtype"), [(tf.qint8, np.int8), (tf.quint8, np.uint8)])
def test_what_quantised_integers_stand_for(mode, kind, dtype):
    def run(x):
        integers = tf.bitcast(x, kind)
        return RAW.Dequantize(input=integers, min_range=-1.3, max_range=2.1, mode=mode)

    check(run, (numbers(4, 5) * 40).astype(dtype), tolerance=1e-5)


def test_what_quantised_integers_of_channels_stand_for():
    def run(x):
        return RAW.Dequantize(
            input=tf.bitcast(x, tf.qint8), min_range=[-1.0, -2, -3], max_range=[1.0, 2, 4],
            mode="SCALED", axis=1, narrow_range=True,
        )  # fmt: skip

    check(run, (numbers(4, 3) * 40).astype(np.int8), tolerance=1e-5)


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("dims", [(3,), (2, 5), (2, 3, 4)])
def test_packed_bytes(dims, transposed):
    words = np.random.default_rng(0).integers(0, 2**32, dims).astype(np.uint32)
    with on_purpose():  # TensorFlow's own kernel of this op is its XLA
        check(
            lambda x: gen_xla_ops.xla_dequantize(x, -1.5, 2.25, "MIN_COMBINED", transposed), words
        )
