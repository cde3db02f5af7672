# SPDX-License-Identifier: Apache-2.0
"""Boxes drawn on images, and windows cut out of them, against TensorFlow's kernels."""

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.lowering.checking import check, numbers, specs_of, trace

from ingot.support.diagnostics import UnsupportedError

BOXES = np.array(
    [
        [[0.1, 0.2, 0.6, 0.9], [0.3, 0.3, 0.8, 0.7], [-0.5, 0.1, 0.4, 1.7], [0.5, 0.5, 0.5, 0.5]],
        [[0.9, 0.1, 0.2, 0.8], [0.0, 0.0, 1.0, 1.0], [2.0, 2.0, 3.0, 3.0], [-9, -9e9, 9e9, 9.0]],
    ],
    np.float32,
)
COLOURS = np.array([[0.1, 0.2, 0.3, 0.4], [0.9, 0.8, 0.7, 0.6], [0.5, 0.4, 0.3, 0.2]], np.float32)
OFFSETS = np.array([[0.0, 0.0], [0.6, -0.9]], np.float32)
PLACES = np.array([[3.0, 4.0], [-1.5, 9.7]], np.float32)


@pytest.mark.parametrize("open_sizes", [False, True])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_boxes(channels, open_sizes):
    image = numbers(2, 17, 13, channels)
    specs = specs_of([image, BOXES, COLOURS], open_sizes=open_sizes)
    specs[0] = tf.TensorSpec([*specs[0].shape[:3], channels])
    check(tf.image.draw_bounding_boxes, image, BOXES, COLOURS, specs=specs)


@pytest.mark.parametrize("element", [np.float32, np.float16])
def test_boxes_have_colours_of_their_own(element):
    image = numbers(2, 17, 13, 3, dtype=element)
    many = np.tile(BOXES * 0.9, (1, 4, 1))
    check(lambda x, y: tf.raw_ops.DrawBoundingBoxes(images=x, boxes=y), image, many)


def test_no_boxes():
    image = numbers(2, 5, 6, 3)
    check(lambda x, y: tf.raw_ops.DrawBoundingBoxes(images=x, boxes=y), image, BOXES[:, :0])


def glimpse(**settings):
    return lambda x, at: tf.image.extract_glimpse(x, [5, 4], at, noise="zero", **settings)


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize(("normalized", "places"), [(True, OFFSETS), (False, PLACES)])
def test_windows(normalized, places, centered):
    image = numbers(2, 9, 12, 3)
    check(glimpse(normalized=normalized, centered=centered), image, places)


def test_windows_larger_than_the_image():
    check(
        lambda x, at: tf.image.extract_glimpse(x, [9, 9], at, noise="zero"),
        numbers(2, 4, 5, 1),
        OFFSETS,
    )


def test_random_surroundings_are_the_host_s():
    image = numbers(2, 9, 12, 3)
    with pytest.raises(UnsupportedError, match="random"):
        trace(lambda x: tf.image.extract_glimpse(x, [5, 4], OFFSETS), specs_of([image]))
