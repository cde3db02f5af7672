# SPDX-License-Identifier: Apache-2.0
"""Crops, scaled and projected images, and boxes that suppress others, against TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.lowering.checking import (
    check,
    numbers,
    specs_of,
    trace,
    with_gradients,
)

import ingot.client.compilation  # noqa: F401  (registers the custom-call targets for the evaluator)
from ingot.support.diagnostics import ExecutionError

RAW = tf.raw_ops
IMAGE = numbers(2, 5, 7, 3)
BOXES = np.random.default_rng(3).uniform(-0.2, 1.2, (6, 4)).astype(np.float32)
OWNERS = np.array([0, 1, 1, 0, 1, 0], np.int32)
CORNERS = np.random.default_rng(4).random((30, 4)).astype(np.float32)
SCORES = np.round(np.random.default_rng(5).random(30).astype(np.float32), 2)
FILTERS = (
    "lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic",
)  # fmt: skip


def crops(size, method="bilinear", outside=0.5):
    return lambda image, boxes: tf.image.crop_and_resize(
        image, boxes, OWNERS, size, method, extrapolation_value=outside
    )


def nearest_crops_image_gradient(image):
    with tf.GradientTape() as tape:
        tape.watch(image)
        y = crops([3, 4], "nearest")(image, BOXES)
        total = tf.reduce_sum(y * y)
    return tape.gradient(total, image)


@pytest.mark.parametrize("size", [[3, 4], [1, 9], [6, 1]])
def test_crops_and_their_gradients(size):
    check(with_gradients(crops(size)), IMAGE, BOXES, tolerance=1e-4)
    check(crops(size, "nearest"), IMAGE, BOXES)


@pytest.mark.parametrize("count", [2, 3, 7, 20, 31])
def test_crops_that_end_at_the_last_pixel(count):
    low = np.linspace(0.05, 0.9, 18, dtype=np.float32)
    boxes = np.stack([low, low[::-1], np.ones_like(low), np.ones_like(low)], 1)
    image = numbers(1, 64, 61, 2)
    owners = np.zeros(len(boxes), np.int32)
    check(
        lambda x, b: tf.image.crop_and_resize(x, b, owners, [count, count]),
        image,
        boxes,
        tolerance=1e-4,
    )


def test_crops_of_other_types_and_of_no_box():
    check(nearest_crops_image_gradient, IMAGE)
    check(
        lambda x, b: crops([2, 3])(tf.cast(x * 99, tf.uint8), b),
        np.abs(IMAGE),
        BOXES,
        tolerance=1e-5,
    )
    none = lambda x, b: tf.image.crop_and_resize(x, b, tf.zeros([0], tf.int32), [2, 3])  # noqa: E731
    check(none, IMAGE, BOXES[:0])
    specs = [tf.TensorSpec([None, None, None, 3]), tf.TensorSpec([6, 4])]
    check(with_gradients(crops([3, 4])), IMAGE, BOXES, specs=specs, tolerance=1e-4)


@pytest.mark.parametrize(
    ("boxes", "owner", "message"),
    [(BOXES, 2, r"box_index has values outside \[0, batch_size\)"), (BOXES * np.inf, 0, "not fin")],
)
def test_boxes_that_are_no_crops_are_errors(boxes, owner, message):
    def run(image, boxes, owner):
        return tf.image.crop_and_resize(image, boxes, tf.repeat(owner, 6), [2, 3])

    inputs = [IMAGE, boxes, np.int32(owner)]
    program = trace(run, specs_of(inputs))
    with pytest.raises(ExecutionError, match=message):
        program.evaluate(inputs)


def scaled(kind, antialias, size=(4, 9)):
    return lambda image, scale, move: RAW.ScaleAndTranslate(
        images=image, size=size, scale=scale, translation=move, kernel_type=kind,
        antialias=antialias,
    )  # fmt: skip


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("kind", FILTERS)
def test_scaled_and_moved_images(kind, antialias):
    move = np.array([0.3, -1.7], np.float32)
    for scale in ([0.4, 1.9], [1.0, 0.21]):
        operands = IMAGE, np.array(scale, np.float32), move
        specs = [tf.TensorSpec([None, None, None, 3]), *specs_of(operands[1:])]

        def gradient(image, scale, move):
            return with_gradients(lambda x: scaled(kind, antialias)(x, scale, move))(image)

        for sizes in (None, specs):
            check(scaled(kind, antialias), *operands, specs=sizes, tolerance=2e-5)
            check(gradient, *operands, specs=sizes, tolerance=1e-4)


@pytest.mark.parametrize("method", ["lanczos3", "gaussian", "bilinear", "bicubic", "mitchellcubic"])
def test_resizing_with_antialias(method):
    check(
        lambda x: tf.image.resize(x, [3, 12], method=method, antialias=True), IMAGE, tolerance=2e-5
    )


def test_pixels_that_are_no_numbers_reach_what_samples_them():
    image = IMAGE.copy()
    image[0, 1, 2, 0], image[1, 3, 4, 1] = np.nan, np.inf
    for specs in (None, [tf.TensorSpec([None] * 4)]):
        resize = lambda x: tf.image.resize(x, [9, 3], antialias=True)  # noqa: E731
        check(resize, image, specs=specs, tolerance=2e-5)
    check(crops([3, 4], "nearest"), image, BOXES)
    check(crops([3, 4]), image, BOXES, tolerance=1e-5)
    check(projected("BILINEAR", "CONSTANT"), image, TURNS, tolerance=1e-5)


TURNS = np.array([
    [0.9, 0.31, -0.7, -0.4, 1.1, 0.45, 0.01, -0.02],
    [1.7, -0.6, 2.3, 0.8, -2.1, 6.37, 0.0, 0.0],
], np.float32)  # fmt: skip


def projected(interpolation, mode, size=(6, 8), fill=0.25):
    return lambda image, turns: RAW.ImageProjectiveTransformV3(
        images=image, transforms=turns, output_shape=size, fill_value=fill,
        interpolation=interpolation, fill_mode=mode,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["REFLECT", "WRAP", "CONSTANT", "NEAREST"])
@pytest.mark.parametrize("interpolation", ["NEAREST", "BILINEAR"])
def test_projected_images(interpolation, mode):
    check(projected(interpolation, mode), IMAGE, TURNS, tolerance=2e-5)
    check(projected(interpolation, mode), IMAGE, TURNS[:1], tolerance=2e-5)
    check(projected(interpolation, mode), IMAGE, TURNS, open_sizes=True, tolerance=2e-5)
    check(projected(interpolation, mode), IMAGE[:, :1], TURNS, tolerance=2e-5)
    for kind in (tf.uint8, tf.int64, tf.float64, tf.float16):
        cast = lambda x, t, kind=kind: projected(interpolation, mode)(tf.cast(x * 9, kind), t)  # noqa: E731
        check(cast, np.abs(IMAGE), TURNS, tolerance=2e-3)


def test_gradients_of_projected_images():
    def gradient(image):
        return with_gradients(lambda x: projected("BILINEAR", "CONSTANT", fill=0.0)(x, TURNS))(
            image
        )

    check(gradient, IMAGE, tolerance=1e-4)

    def second_version(image):
        return with_gradients(
            lambda x: RAW.ImageProjectiveTransformV2(
                images=x, transforms=TURNS[:1], output_shape=[5, 7], interpolation="NEAREST"
            )
        )(image)

    check(second_version, IMAGE, tolerance=1e-4)


def soft(sigma, padded=False, most=12):
    return lambda b, s: RAW.NonMaxSuppressionV5(
        boxes=b, scores=s, max_output_size=most, iou_threshold=0.4, score_threshold=0.1,
        soft_nms_sigma=sigma, pad_to_max_output_size=padded,
    )  # fmt: skip


def overlaps(boxes):
    low, high = boxes[:, None, :2], boxes[None, :, 2:]
    return np.prod(np.clip(high - low, 0, 1), 2).astype(np.float32)


SUPPRESSED = {
    "version_1": lambda b, s: RAW.NonMaxSuppression(boxes=b, scores=s, max_output_size=7),
    "version_2": lambda b, s: RAW.NonMaxSuppressionV2(
        boxes=b, scores=s, max_output_size=9, iou_threshold=0.3
    ),
    "halves": lambda b, s: RAW.NonMaxSuppressionV3(
        boxes=tf.cast(b, tf.float16), scores=tf.cast(s, tf.float16), max_output_size=9,
        iou_threshold=tf.constant(0.3, tf.float16), score_threshold=tf.constant(0.1, tf.float16),
    ),
    "hard": soft(0.0),
    "soft": soft(0.5),
    "soft_padded": soft(0.7, True, 40),
    "soft_all": soft(2.0, False, 40),
    "computed_most": lambda b, s: tf.image.non_max_suppression(
        b, s, tf.math.count_nonzero(s > 0.7, dtype=tf.int32)
    ),
    "overlaps": lambda b, s: RAW.NonMaxSuppressionWithOverlaps(
        overlaps=overlaps(CORNERS), scores=s, max_output_size=9, overlap_threshold=0.2,
        score_threshold=0.15,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SUPPRESSED))
def test_suppressed_boxes(name):
    check(SUPPRESSED[name], CORNERS, SCORES, tolerance=1e-5)
    if name not in ("overlaps", "halves"):
        check(SUPPRESSED[name], CORNERS[:0], SCORES[:0])
    odd = SCORES.copy()
    odd[[3, 7, 9]] = np.nan, np.inf, -np.inf
    check(SUPPRESSED[name], CORNERS, odd, tolerance=1e-5)


@pytest.mark.parametrize("kinds", [1, 4])
@pytest.mark.parametrize("pad_per_class", [True, False])
def test_suppressed_boxes_of_classes(kinds, pad_per_class, generator):
    boxes = np.sort(generator.uniform(-0.2, 1.2, (2, 20, kinds, 2, 2)), 3)
    scores = generator.permutation(160).reshape(2, 20, 4) / 160
    operands = boxes.reshape(2, 20, kinds, 4).astype(np.float32), scores.astype(np.float32)
    for each, total, least, clip in ((5, 9, 0.3, True), (20, 200, 0.1, False), (2, 3, 2.0, True)):
        check(
            lambda b, s, n=(each, total), least=least, clip=clip: (
                tf.image.combined_non_max_suppression(
                    b, s, *n, 0.3, least, pad_per_class=pad_per_class, clip_boxes=clip
                )
            ),
            *operands,
        )


def test_a_threshold_that_is_no_share_is_an_error():
    inputs = [CORNERS, SCORES, np.float32(1.5)]
    program = trace(lambda b, s, t: tf.image.non_max_suppression(b, s, 4, t), specs_of(inputs))
    with pytest.raises(ExecutionError, match=r"iou_threshold must be in \[0, 1\]"):
        program.evaluate(inputs)
