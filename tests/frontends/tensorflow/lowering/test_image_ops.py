# SPDX-License-Identifier: Apache-2.0
"""Patches, local norms, suppression of boxes, quantisation, and smaller ops against TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.lowering.checking import check, numbers, specs_of, trace

from ingot.support.diagnostics import UnsupportedError

RAW = tf.raw_ops
IMAGE = numbers(2, 7, 8, 5)
BOXES = np.random.default_rng(0).random((30, 4)).astype(np.float32)
SCORES = np.round(np.random.default_rng(1).random(30).astype(np.float32), 1)


def with_gradient(function):
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
            total = tf.reduce_sum(y * y)
        return y, tape.gradient(total, x)

    return run


def patches(padding, rates):
    return lambda x: tf.image.extract_patches(x, [1, 3, 2, 1], [1, 2, 1, 1], rates, padding)


VOLUME = numbers(2, 4, 3, 6, 2)
UNUSUAL = np.array(
    [0.0, -0.0, np.nan, 1.0, np.inf, -np.inf, 0.7, -1.0, -3.0, 1e-40, 0.5, -0.5, 2.0, np.nan, -2.0],
    np.float32,
)


def volumes(padding, strides):
    return lambda x: tf.extract_volume_patches(x, [1, 2, 3, 2, 1], [1, *strides, 1], padding)


def quantised_gradient(low, high, axis=-1):
    return lambda gradient, x: tuple(
        RAW.QuantizeAndDequantizeV4Grad(
            gradients=gradient, input=x, input_min=low, input_max=high, axis=axis
        )
    )


def dilation(padding):
    return lambda x: RAW.Dilation2D(
        input=x, filter=numbers(3, 2, 5), strides=[1, 2, 1, 1], rates=[1, 1, 2, 1], padding=padding
    )


def suppressed(most, overlap, least, padded=True):
    return lambda boxes, scores: RAW.NonMaxSuppressionV4(
        boxes=boxes, scores=scores, max_output_size=most, iou_threshold=overlap,
        score_threshold=least, pad_to_max_output_size=padded,
    )  # fmt: skip


def quantised(**settings):
    def run(x):
        settings.setdefault("range_given", False)
        limits = {"input_min": -1.0, "input_max": 0.7}
        if settings.get("axis", -1) != -1:
            limits = {"input_min": [-1.0] * 5, "input_max": [0.5, 0.6, 0.7, 0.8, 2.0]}
        return RAW.QuantizeAndDequantizeV2(input=x, **limits, **settings)

    return run


def integers(kind, mode, low=-1.0, high=2.5, **settings):
    """Return the integers that floats are quantised to, as plain ones, and what the ends mean."""

    def run(x):
        ends = {"min_range": low, "max_range": high}
        made, *range_ = RAW.QuantizeV2(input=x, T=kind, mode=mode, **ends, **settings)
        return (tf.cast(made, tf.int32), *range_)

    return run


CHANNEL_ENDS = {"axis": 3, "low": [-1.0, 0.0, -2.0, -3.0, 0.5], "high": [1.0, 2.0, 0.0, 3.0, 0.5]}
INTEGERS = {
    "quint8": tf.quint8, "qint8": tf.qint8, "quint16": tf.quint16, "qint16": tf.qint16,
}  # fmt: skip

CASES = {
    **{
        f"{name}_{mode}": (integers(kind, mode), [IMAGE])
        for name, kind in INTEGERS.items()
        for mode in ("MIN_COMBINED", "SCALED")
    },
    **{
        f"{name}_MIN_FIRST": (integers(kind, "MIN_FIRST"), [IMAGE])
        # oneDNN's quint8, which TensorFlow takes, rounds the difference and not its parts.
        for name, kind in {**INTEGERS, "qint32": tf.qint32}.items()
        if name != "quint8"
    },
    "qint8_narrow": (
        integers(tf.qint8, "SCALED", narrow_range=True, round_mode="HALF_TO_EVEN"),
        [IMAGE],
    ),
    "qint8_channels": (integers(tf.qint8, "SCALED", **CHANNEL_ENDS), [IMAGE]),
    "quint8_channels": (integers(tf.quint8, "MIN_COMBINED", **CHANNEL_ENDS), [IMAGE]),
    "quint8_no_range": (integers(tf.quint8, "MIN_COMBINED", 0.0, 0.0), [IMAGE]),
    **{f"patches_{pad}": (patches(pad, [1, 1, 1, 1]), [IMAGE]) for pad in ("SAME", "VALID")},
    **{f"rated_patches_{pad}": (patches(pad, [1, 2, 3, 1]), [IMAGE]) for pad in ("SAME", "VALID")},
    **{f"dilation_{pad}": (dilation(pad), [IMAGE]) for pad in ("SAME", "VALID")},
    "local_norm": (with_gradient(lambda x: tf.nn.lrn(x, 2, 1.5, 0.3, 0.7)), [IMAGE]),
    "local_norm_wide": (with_gradient(lambda x: tf.nn.lrn(x)), [IMAGE]),
    "boxes": (suppressed(10, 0.3, 0.2), [BOXES, SCORES]),
    "boxes_all": (suppressed(40, 0.9, -1.0), [BOXES, SCORES]),
    "boxes_none": (suppressed(5, 0.5, 2.0), [BOXES, SCORES]),
    "boxes_exactly": (suppressed(10, 0.3, 0.2, padded=False), [BOXES, SCORES]),
    "boxes_exactly_none": (suppressed(5, 0.5, 2.0, padded=False), [BOXES, SCORES]),
    "boxes_version_3": (lambda b, s: tf.image.non_max_suppression(b, s, 5), [BOXES, SCORES]),
    "boxes_of_none": (suppressed(5, 0.5, 0.0), [BOXES[:0], SCORES[:0]]),
    "quantise": (quantised(), [IMAGE]),
    "quantise_narrow": (quantised(narrow_range=True, num_bits=4), [IMAGE]),
    "quantise_unsigned": (quantised(signed_input=False, num_bits=5), [np.abs(IMAGE)]),
    "quantise_range": (quantised(range_given=True), [IMAGE]),
    "quantise_up": (quantised(range_given=True, round_mode="HALF_UP", num_bits=3), [IMAGE]),
    "quantise_channels": (quantised(axis=3, num_bits=6), [IMAGE]),
    "quantise_v3": (
        lambda x: RAW.QuantizeAndDequantizeV3(
            input=x, input_min=-1.0, input_max=1.0, num_bits=5, range_given=True
        ),
        [IMAGE],
    ),
    "quantise_v4": (
        lambda x: RAW.QuantizeAndDequantizeV4(
            input=x, input_min=-1.0, input_max=1.0, num_bits=5, range_given=True
        ),
        [IMAGE],
    ),
    **{
        f"volumes_{pad}_{name}": (with_gradient(volumes(pad, strides)), [VOLUME])
        for pad in ("SAME", "VALID")
        for name, strides in (("dense", [1, 1, 1]), ("apart", [1, 2, 3]))
    },
    "volumes_of_integers": (volumes("SAME", [2, 1, 1]), [(VOLUME * 5).astype(np.int32)]),
    "volumes_of_none": (volumes("SAME", [1, 1, 2]), [VOLUME[:0]]),
    "volumes_too_small": (volumes("VALID", [1, 1, 1]), [VOLUME[:, :, :2]]),
    "quantise_v4_gradient": (
        with_gradient(
            lambda x: tf.quantization.quantize_and_dequantize_v2(
                x, -1.0, 0.7, num_bits=4, range_given=True
            )
        ),
        [IMAGE],
    ),
    "quantise_v4_gradient_unusual": (quantised_gradient(-1.0, 0.7), [UNUSUAL, UNUSUAL[::-1]]),
    "quantise_v4_gradient_channels": (
        quantised_gradient([-1.0, 0.0, -2.0], [np.inf, 0.5, 1.0], axis=1),
        [UNUSUAL.reshape(5, 3), UNUSUAL[::-1].reshape(5, 3)],
    ),
    "sparse_product": (
        lambda x, y: RAW.SparseMatMul(a=x, b=y, transpose_a=True, a_is_sparse=True),
        [numbers(4, 3), numbers(4, 5)],
    ),
    "sparse_to_dense": (
        lambda v: RAW.SparseToDense(
            sparse_indices=[[0, 1], [2, 3]], output_shape=[3, 4], sparse_values=v, default_value=7.0
        ),
        [numbers(2)],
    ),
    "sparse_to_dense_row": (
        lambda v: RAW.SparseToDense(
            sparse_indices=[1, 3], output_shape=[5], sparse_values=v[0], default_value=7.0
        ),
        [numbers(2)],
    ),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_image_ops(name):
    function, operands = CASES[name]
    check(function, *operands, tolerance=2e-5)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("largest", [True, False])
def test_approximate_top_k_is_exact(axis, largest):
    x = numbers(6, 7)
    program = trace(
        lambda x: RAW.ApproxTopK(input=x, k=3, reduction_dimension=axis, is_max_k=largest),
        specs_of([x]),
    )
    (values, indices), _ = program.evaluate([x])
    order = np.sort(x, axis)
    wanted = np.flip(order, axis) if largest else order
    np.testing.assert_array_equal(values, np.take(wanted, range(3), axis))
    np.testing.assert_array_equal(np.take_along_axis(x, indices, axis), values)


def test_candidates_of_approximate_top_k():
    """As many as TensorFlow's shape inference says, the best first."""
    x = numbers(2, 500)
    program = trace(lambda x: tf.math.approx_min_k(x, 10, aggregate_to_topk=False), specs_of([x]))
    (values, indices), _ = program.evaluate([x])
    assert values.shape == tuple(program.concrete.outputs[0].shape) == (2, 256)
    np.testing.assert_array_equal(values, np.sort(x, 1)[:, :256])
    np.testing.assert_array_equal(np.take_along_axis(x, indices, 1), values)


@pytest.mark.parametrize("lasso", [0.0, 0.2])
def test_proximal_and_dual_averaging_adagrad(lasso):
    variables = [tf.Variable(numbers(5, seed=n) ** 2 + 0.1) for n in range(3)]
    rates = {"lr": 0.3, "l1": lasso, "l2": 0.1}

    def proximal(gradient):
        var, accum, _ = (variable.handle for variable in variables)
        RAW.ResourceApplyProximalAdagrad(var=var, accum=accum, grad=gradient, **rates)
        return [variable.read_value() for variable in variables]

    def averaging(gradient):
        var, total, squares = (variable.handle for variable in variables)
        RAW.ResourceApplyAdagradDA(
            var=var, gradient_accumulator=total, gradient_squared_accumulator=squares,
            grad=gradient, global_step=3, **rates,
        )  # fmt: skip
        return [variable.read_value() for variable in variables]

    check(proximal, numbers(5, seed=9), tolerance=1e-5)
    check(averaging, numbers(5, seed=9), tolerance=1e-5)


def test_the_data_decides_a_size_in_a_branch():
    def run(x, flag):
        def found():
            return tf.reduce_sum(tf.gather(x, tf.squeeze(tf.where(x > 0), -1)))

        return tf.cond(flag, found, lambda: tf.reduce_sum(x))

    x = numbers(5)
    for flag, wanted in ((False, x.sum()), (True, x[x > 0].sum())):
        program = trace(run, specs_of([x, np.bool_(flag)]))
        (got,), _ = program.evaluate([x, np.bool_(flag)])
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_lists_are_split_and_put_end_to_end():
    def run(x):
        pieces = tf.TensorArray(tf.float32, size=3, element_shape=[2, 4]).split(x, [2, 2, 2])
        back = pieces.write(1, pieces.read(0) * 2).concat()
        return pieces.read(2), back

    check(run, numbers(6, 4))

    def gradient(x):
        pieces = tf.TensorArray(tf.float32, size=2, element_shape=[3, 4]).split(x, [3, 3])
        return tf.gradients(pieces.write(0, pieces.read(1) * x[:3]).concat() ** 2, x)

    check(gradient, numbers(6, 4), tolerance=1e-5)


def test_pieces_of_different_lengths_are_refused():
    def run(x):
        return tf.TensorArray(tf.float32, size=2, infer_shape=False).split(x, [2, 4]).read(0)

    with pytest.raises(UnsupportedError, match="pieces of different lengths"):
        trace(run, [tf.TensorSpec([6, 4])])


WITH_NAN = np.where(IMAGE > 1.2, np.nan, np.where(IMAGE < -1.2, -np.inf, IMAGE)).astype(np.float32)
WITH_NAN[0, :2] = np.nan
DILATIONS = {
    "floats": (IMAGE, [1, 2, 1, 1], [1, 1, 2, 1]),
    "nan": (WITH_NAN, [1, 1, 1, 1], [1, 1, 1, 1]),
    "integers": ((IMAGE * 5).astype(np.int8), [1, 1, 3, 1], [1, 2, 1, 1]),
    "doubles": (IMAGE.astype(np.float64), [1, 1, 1, 1], [1, 1, 1, 1]),
    "empty": (IMAGE[:0], [1, 1, 1, 1], [1, 1, 1, 1]),
    "no_windows": (IMAGE[:, :2], [1, 1, 1, 1], [1, 1, 1, 1]),
}


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("name", sorted(DILATIONS))
def test_dilations_and_their_gradients(name, padding):
    image, strides, rates = DILATIONS[name]
    given = {"strides": strides, "rates": rates, "padding": padding}

    def run(x, kernel):
        y = RAW.Dilation2D(input=x, filter=kernel, **given)
        weights = tf.cast(tf.reshape(tf.range(tf.size(y)) % 7 - 3, tf.shape(y)), y.dtype)
        return (
            y,
            RAW.Dilation2DBackpropInput(input=x, filter=kernel, out_backprop=weights, **given),
            RAW.Dilation2DBackpropFilter(input=x, filter=kernel, out_backprop=weights, **given),
        )

    check(run, image, (numbers(3, 2, 5) * 2).astype(image.dtype))


FRACTIONAL = {
    "pseudo": (IMAGE, [1, 1.5, 1.3, 1], True, False),
    "random": (IMAGE, [1, 1.5, 1.3, 1], False, True),
    "exact": (IMAGE[:, :6], [1, 2.0, 1.0, 1], True, True),
    "nan": (WITH_NAN, [1, 1.8, 2.4, 1], True, True),
    "integers": ((IMAGE * 90).astype(np.int64), [1, 1.5, 2.9, 1], False, False),
    "doubles": (IMAGE.astype(np.float64), [1, 1.2, 1.1, 1], True, True),
}


@pytest.mark.parametrize("kind", ["Max", "Avg"])
@pytest.mark.parametrize("name", sorted(FRACTIONAL))
def test_fractional_pools_and_their_gradients(name, kind):
    image, ratio, pseudo, overlapping = FRACTIONAL[name]

    def run(x):
        y, rows, columns = getattr(RAW, f"Fractional{kind}Pool")(
            value=x, pooling_ratio=ratio, pseudo_random=pseudo, overlapping=overlapping,
            deterministic=True, seed=3, seed2=4,
        )  # fmt: skip
        weights = tf.cast(tf.reshape(tf.range(tf.size(y)) % 7 - 3, tf.shape(y)), y.dtype)
        given = {"row_pooling_sequence": rows, "col_pooling_sequence": columns}
        given |= {"out_backprop": weights, "overlapping": overlapping}
        if kind == "Avg":
            back = RAW.FractionalAvgPoolGrad(orig_input_tensor_shape=tf.shape(x, tf.int64), **given)
        elif name == "nan":
            # TensorFlow's gradient refuses a pool of NaN.
            back = weights
        else:
            back = RAW.FractionalMaxPoolGrad(orig_input=x, orig_output=y, **given)
        return y, rows, columns, back

    check(run, image)
