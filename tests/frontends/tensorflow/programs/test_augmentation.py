# SPDX-License-Identifier: Apache-2.0
"""Keras layers that change images at random, compiled beside plain TensorFlow: the same numbers."""

import inspect

import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from tests.frontends.tensorflow.programs.beside import check

pytestmark = pytest.mark.slow

ARGUMENTS = {
    "CenterCrop": (8, 9), "RandomBrightness": (0.3,), "RandomColorDegeneration": (0.4,),
    "RandomContrast": (0.3,), "RandomCrop": (8, 9), "RandomHue": (0.3,),
    "RandomPosterization": (4,), "RandomRotation": (0.2,), "RandomSaturation": (0.4,),
    "RandomSharpness": (0.4,), "RandomShear": (0.2, 0.1), "RandomTranslation": (0.2, 0.3),
    "RandomZoom": (0.3,), "Rescaling": (0.5,), "Resizing": (9, 11), "Solarization": (),
}  # fmt: skip
OTHERS = ("AugMix", "AutoContrast", "CutMix", "Equalization", "MixUp", "RandAugment")
NAMES = sorted({*ARGUMENTS, *OTHERS, *(name for name in dir(layers) if name.startswith("Random"))})


@pytest.mark.parametrize("name", NAMES[::3])  # The table of Keras has a row for each.
def test_augmentation_layers(name):
    kind = getattr(layers, name)
    options = {"value_range": (0, 255), "brightness_factor": 0.3, "seed": 7}
    known = inspect.signature(kind).parameters
    options = {key: value for key, value in options.items() if key in known}
    images = np.random.default_rng(0).uniform(0, 255, (4, 16, 20, 3)).astype(np.float32)

    def augmented(jit):
        layer = kind(*ARGUMENTS.get(name, ()), **options)
        training = (
            {"training": True} if "training" in inspect.signature(kind.call).parameters else {}
        )

        @tf.function(jit_compile=jit)
        def run(x):
            return layer(x, **training)

        return run(images)

    check(augmented, rtol=1e-4, atol=2e-3)
