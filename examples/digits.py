# SPDX-License-Identifier: Apache-2.0
"""Real handwritten digits for the examples: 1797 images of 8x8 that ship inside scikit-learn.

They come from the UCI "Optical Recognition of Handwritten Digits" test set, so nothing is
downloaded. The split is stratified and always the same, and the pixels are scaled to 0..1.
"""

from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

IMAGE_SIZE = 64
CLASSES = 10
LARGEST_PIXEL = 16.0


class Digits(NamedTuple):
    """Images `f32[n, 64]` in 0..1 and labels `i64[n]`, for training and held out."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load(test_share: float = 0.2, seed: int = 0) -> Digits:
    """Return the digits, split so that each class has the same share in both parts."""
    images, labels = load_digits(return_X_y=True)
    images = (images / LARGEST_PIXEL).astype(np.float32)
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, labels, test_size=test_share, random_state=seed, stratify=labels
    )
    return Digits(
        train_images, train_labels.astype(np.int64), test_images, test_labels.astype(np.int64)
    )
