# SPDX-License-Identifier: Apache-2.0
"""Convolutions, pools and their gradients against TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.lowering.checking import check, numbers, with_gradients

IMAGE = numbers(2, 7, 8, 4)
FILTER = numbers(3, 2, 4, 6, seed=1)
OPEN = [tf.TensorSpec([None, 7, 8, 4])]


@pytest.mark.parametrize("padding", ["SAME", "VALID", [[0, 0], [2, 1], [0, 3], [0, 0]]])
@pytest.mark.parametrize("strides", [1, 2, (3, 1)])
def test_convolution_and_its_gradients(padding, strides):
    check(
        with_gradients(lambda x, k: tf.nn.conv2d(x, k, strides, padding)),
        IMAGE, FILTER, tolerance=2e-4,
    )  # fmt: skip


def test_convolution_with_open_batch_and_dilation():
    specs = [*OPEN, tf.TensorSpec(FILTER.shape)]
    check(
        lambda x, k: tf.nn.conv2d(x, k, 1, "SAME", dilations=2),
        IMAGE, FILTER, specs=specs, tolerance=1e-4,
    )  # fmt: skip
    check(
        with_gradients(lambda x, k: tf.nn.conv2d(x, k, 2, "VALID")),
        IMAGE, FILTER, specs=specs, tolerance=2e-4,
    )  # fmt: skip


def test_grouped_convolution():
    check(lambda x, k: tf.nn.conv2d(x, k, 1, "SAME"), IMAGE, numbers(3, 3, 2, 6), tolerance=1e-4)


@pytest.mark.parametrize("strides", [[1, 1, 1, 1], [1, 2, 2, 1]])
def test_depthwise_convolution_and_its_gradients(strides):
    check(
        with_gradients(lambda x, k: tf.nn.depthwise_conv2d(x, k, strides, "SAME")),
        IMAGE, numbers(3, 3, 4, 2), tolerance=2e-4,
    )  # fmt: skip


def test_convolution_of_volumes():
    check(
        with_gradients(lambda x, k: tf.nn.conv3d(x, k, [1, 2, 1, 1, 1], "SAME")),
        numbers(1, 4, 5, 3, 2), numbers(2, 3, 2, 2, 3), tolerance=2e-4,
    )  # fmt: skip


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("op", [tf.nn.max_pool2d, tf.nn.avg_pool2d])
@pytest.mark.parametrize(("size", "stride"), [(2, 2), (3, 2), (3, 1)])
def test_pools_and_their_gradients(op, size, stride, padding):
    function = with_gradients(lambda x: op(x, size, stride, padding))
    check(function, IMAGE, tolerance=1e-5)
    check(function, IMAGE, specs=OPEN, tolerance=1e-5)


def test_ties_in_a_max_pool_give_the_gradient_to_the_first():
    check(with_gradients(lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID")), np.round(IMAGE))


PIXELS = np.abs(numbers(2, 4, 5, 3)) % 1.0
RAW = tf.raw_ops
IMAGES = {
    "rgb_to_hsv": tf.image.rgb_to_hsv,
    "hsv_to_rgb": tf.image.hsv_to_rgb,
    "adjust_hue": lambda x: tf.image.adjust_hue(x, 0.3),
    "adjust_saturation": lambda x: tf.image.adjust_saturation(x, 1.7),
    **{
        f"{name}_below_zero": lambda x, adjust=adjust: adjust(x - 0.8)
        for name, adjust in {
            "rgb_to_hsv": tf.image.rgb_to_hsv,
            "hue": lambda x: tf.image.adjust_hue(x, -0.4),
            "saturation": lambda x: tf.image.adjust_saturation(x, 0.6),
        }.items()
    },
    "adjust_contrast": lambda x: tf.image.adjust_contrast(x, 0.4),
    "resize_bilinear": lambda x: tf.image.resize(x, [7, 3]),
    "resize_nearest": lambda x: tf.image.resize(x, [7, 3], method="nearest"),
    "bilinear_v1": lambda x: RAW.ResizeBilinear(images=x, size=[8, 9]),
    "bilinear_corners": lambda x: RAW.ResizeBilinear(images=x, size=[8, 9], align_corners=True),
    "nearest_v1": lambda x: RAW.ResizeNearestNeighbor(images=x, size=[8, 9]),
    "nearest_corners": lambda x: RAW.ResizeNearestNeighbor(
        images=x, size=[6, 9], align_corners=True
    ),
    **{
        f"{method}{'_v1' if not centers else ''}_{'x'.join(map(str, size))}": (
            lambda x, method=method, size=size, centers=centers: (
                tf.image.resize(x, size, method=method)
                if centers
                else RAW.ResizeBicubic(images=x, size=size)
            )
        )
        for method in ("bicubic", "area")
        for size in ([7, 3], [9, 11], [1, 1], [2, 5])
        for centers in ((True, False) if method == "bicubic" else (True,))
    },
    "bicubic_corners": lambda x: RAW.ResizeBicubic(images=x, size=[8, 9], align_corners=True),
    "area_corners": lambda x: RAW.ResizeArea(images=x, size=[3, 9], align_corners=True),
    "area_integers": lambda x: RAW.ResizeArea(images=tf.cast(x * 255, tf.uint8), size=[3, 9]),
    "bicubic_doubles": lambda x: RAW.ResizeBicubic(images=tf.cast(x, tf.float64), size=[3, 9]),
    "fake_quant": lambda x: tf.quantization.fake_quant_with_min_max_args(x, -0.3, 0.7),
    "fake_quant_vars": lambda x: tf.quantization.fake_quant_with_min_max_vars(x, 0.1, 0.6, 4),
    "fake_quant_narrow": lambda x: tf.quantization.fake_quant_with_min_max_vars_per_channel(
        x, [0.1, -1.0, 0.0], [0.6, 0.5, 2.0], narrow_range=True
    ),
}


@pytest.mark.parametrize("name", sorted(IMAGES))
def test_image_ops(name):
    check(IMAGES[name], PIXELS, tolerance=2e-5)


RESIZED = [
    "resize_bilinear", "bilinear_v1", "resize_nearest", "nearest_v1", "bicubic_7x3",
    "bicubic_v1_9x11", "bicubic_corners", "bicubic_doubles",
]  # fmt: skip


@pytest.mark.parametrize("specs", [None, OPEN], ids=["fixed", "open"])
@pytest.mark.parametrize("name", RESIZED)
def test_gradients_of_resizing(name, specs):
    check(with_gradients(IMAGES[name]), PIXELS, specs=specs and specs_like(PIXELS), tolerance=2e-5)


@pytest.mark.parametrize("name", sorted(name for name in IMAGES if "_quant" not in name))
def test_images_of_open_sizes(name):
    check(IMAGES[name], PIXELS, specs=specs_like(PIXELS), tolerance=2e-5)


def specs_like(image):
    """Return the spec of images of any size."""
    return [tf.TensorSpec([None, None, None, 3], image.dtype)]


@pytest.mark.parametrize("specs", [None, OPEN], ids=["fixed", "open"])
@pytest.mark.parametrize("method", ["bilinear", "nearest", "bicubic", "area"])
def test_a_pixel_that_is_no_number_reaches_its_neighbours_alone(method, specs):
    pixels = PIXELS.copy()
    pixels[0, 1, 2, 0], pixels[1, 3, 4, 1] = np.nan, np.inf
    specs = specs and specs_like(pixels)
    for size in ([9, 11], [3, 2]):
        check(
            lambda x, size=size: tf.image.resize(x, size, method=method),
            pixels, specs=specs, tolerance=2e-5,
        )  # fmt: skip


ARGUMENT = {"align_corners": {"align_corners": True}, "centers": {"half_pixel_centers": True}}


@pytest.mark.parametrize("options", [{}, *ARGUMENT.values()], ids=["plain", *ARGUMENT])
@pytest.mark.parametrize("specs", [None, OPEN], ids=["fixed", "open"])
def test_a_gradient_that_is_no_number_reaches_its_pixels_alone(options, specs):
    gradient = numbers(2, 7, 9, 3)
    gradient[0, 1, 2, 0], gradient[1, 6, 8, 1] = np.nan, np.inf
    specs = specs and [*specs_like(gradient), *specs_like(PIXELS)]

    def gradients(g, x):
        return (
            RAW.ResizeBilinearGrad(grads=g, original_image=x, **options),
            RAW.ResizeBicubicGrad(grads=g, original_image=x, **options),
            RAW.ResizeNearestNeighborGrad(grads=g, size=tf.shape(x)[1:3], **options),
        )

    check(gradients, gradient, PIXELS, specs=specs, tolerance=2e-5)


@pytest.mark.parametrize("element", [np.uint8, np.int32, np.float16, np.float64])
@pytest.mark.parametrize("specs", [None, OPEN], ids=["fixed", "open"])
def test_gradients_of_nearest_pixels_of_any_type(element, specs):
    gradient = (PIXELS * 9).astype(element)
    for size in ([1, 1], [3, 8], [5, 2]):
        check(
            lambda g, size=size: RAW.ResizeNearestNeighborGrad(grads=g, size=size),
            gradient, specs=specs and specs_like(gradient),
        )  # fmt: skip


def test_gradients_of_fake_quantisation():
    check(with_gradients(IMAGES["fake_quant"]), PIXELS, tolerance=1e-5)
    check(with_gradients(IMAGES["fake_quant_narrow"]), PIXELS, tolerance=1e-5)
    check(
        with_gradients(lambda x, a: tf.quantization.fake_quant_with_min_max_vars(x, a, a + 0.5)),
        PIXELS, np.float32(0.2), tolerance=1e-5,
    )  # fmt: skip


RANGES = [(-3.0, 3.0), (-1.0, 1.0), (-6.0, 6.0), (-0.1, 0.1), (0.0, 6.0), (-7.0, 2.0), (1.0, 4.0)]


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("ends", RANGES, ids=str)
def test_fake_quantisation_of_ranges_whose_zero_is_between_two_numbers(ends, narrow):
    x = np.concatenate([numbers(500) * 4, np.float32([-9, 9, 0, -0.0, np.inf, -np.inf])])
    given = {"num_bits": 8, "narrow_range": narrow}
    by_arguments = tf.quantization.fake_quant_with_min_max_args
    by_values = tf.quantization.fake_quant_with_min_max_vars
    check(lambda x: by_arguments(x, *ends, **given), x, tolerance=1e-6)
    low, high = map(np.float32, ends)
    check(lambda x, low, high: by_values(x, low, high, **given), x, low, high, tolerance=1e-6)


def test_fake_quantisation_to_an_empty_range_and_of_no_number():
    per_channel = tf.quantization.fake_quant_with_min_max_vars_per_channel
    x, zero = numbers(4, 3), np.float32(0)
    vector, ends = np.float32([0, -1, 0]), np.float32([0, 1, 2])
    by_values = tf.quantization.fake_quant_with_min_max_vars
    check(with_gradients(by_values), x, zero, zero, tolerance=1e-5)
    check(with_gradients(per_channel), x, vector, ends, tolerance=1e-5)
    gradient = tf.quantization.fake_quant_with_min_max_args_gradient
    check(lambda g, x: gradient(g, x), x, x * np.float32([np.nan, 9, 1]), tolerance=1e-6)
