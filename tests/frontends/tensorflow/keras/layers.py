# SPDX-License-Identifier: Apache-2.0
"""Rows for the classes of `keras.layers`: outputs, gradients and state, in inference and training.

Each layer runs twice in training, so that the second call meets the state that the first one left.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tests.frontends.tensorflow.keras.row import enter, with_gradients
from tests.frontends.tensorflow.keras.which import keras

layers = keras.layers

_DRAWN = np.random.default_rng(5)


def _normal(*dims: int) -> np.ndarray:
    return (_DRAWN.normal(size=dims) * 0.5).astype(np.float32)


def _integers(below: int, *dims: int) -> np.ndarray:
    return _DRAWN.integers(0, below, dims).astype(np.int32)


MATRIX, SEQUENCE = _normal(3, 4), _normal(2, 6, 4)
IMAGE, VOLUME = _normal(2, 8, 8, 3), _normal(1, 6, 6, 6, 2)
PIXELS = _DRAWN.integers(0, 255, (2, 8, 8, 3)).astype(np.float32)
CLASSES = np.eye(3, dtype=np.float32)[:2]
WORDS = np.array(["a cat", "the dog", "a bird"])

Make = Callable[[], Any]

SAME_INPUT: list[tuple[Any, str]] = [
    (MATRIX, "ELU Identity LeakyReLU PReLU ReLU Softmax UnitNormalization RMSNormalization "
     "LayerNormalization BatchNormalization"),
    (SEQUENCE, "Masking GlobalAveragePooling1D GlobalMaxPooling1D MaxPooling1D"),
    (IMAGE, "Flatten GlobalAveragePooling2D GlobalMaxPooling2D MaxPooling2D"),
    (VOLUME, "GlobalAveragePooling3D GlobalMaxPooling3D MaxPooling3D"),
    ([MATRIX, MATRIX * 2], "Add Average Concatenate Maximum Minimum Multiply Subtract"),
    ([SEQUENCE, SEQUENCE * 2], "AdditiveAttention Attention"),
    (PIXELS, "AutoContrast ContrastLimitedAdaptiveHistogramEqualization Equalization Solarization"),
]  # fmt: skip
"""Layers without arguments that take the same input."""

LAYERS: dict[str, tuple[Make, Any]] = {
    "Activation": (lambda: layers.Activation("relu"), MATRIX),
    "ActivityRegularization": (lambda: layers.ActivityRegularization(0.1), MATRIX),
    "AdaptiveAveragePooling1D": (lambda: layers.AdaptiveAveragePooling1D(3), SEQUENCE),
    "AdaptiveAveragePooling2D": (lambda: layers.AdaptiveAveragePooling2D(3), IMAGE),
    "AdaptiveAveragePooling3D": (lambda: layers.AdaptiveAveragePooling3D(3), VOLUME),
    "AdaptiveMaxPooling1D": (lambda: layers.AdaptiveMaxPooling1D(3), SEQUENCE),
    "AdaptiveMaxPooling2D": (lambda: layers.AdaptiveMaxPooling2D(3), IMAGE),
    "AdaptiveMaxPooling3D": (lambda: layers.AdaptiveMaxPooling3D(3), VOLUME),
    "AlphaDropout": (lambda: layers.AlphaDropout(0.3, seed=5), MATRIX),
    "AugMix": (lambda: layers.AugMix(seed=5), PIXELS),
    "AveragePooling1D": (lambda: layers.AveragePooling1D(2), SEQUENCE),
    "AveragePooling2D": (lambda: layers.AveragePooling2D(2), IMAGE),
    "AveragePooling3D": (lambda: layers.AveragePooling3D(2), VOLUME),
    "Bidirectional": (lambda: layers.Bidirectional(layers.LSTM(5)), SEQUENCE),
    "CategoryEncoding": (lambda: layers.CategoryEncoding(5), _integers(5, 3, 2)),
    "CenterCrop": (lambda: layers.CenterCrop(4, 4), IMAGE),
    "Conv1D": (lambda: layers.Conv1D(4, 3), SEQUENCE),
    "Conv1DTranspose": (lambda: layers.Conv1DTranspose(4, 3), SEQUENCE),
    "Conv2D": (lambda: layers.Conv2D(4, 3), IMAGE),
    "Conv2DTranspose": (lambda: layers.Conv2DTranspose(4, 3), IMAGE),
    "Conv3D": (lambda: layers.Conv3D(4, 3), VOLUME),
    "Conv3DTranspose": (lambda: layers.Conv3DTranspose(4, 3), VOLUME),
    "ConvLSTM1D": (lambda: layers.ConvLSTM1D(3, 3), _normal(2, 3, 6, 2)),
    "ConvLSTM2D": (lambda: layers.ConvLSTM2D(3, 3), _normal(2, 3, 6, 6, 2)),
    "ConvLSTM3D": (lambda: layers.ConvLSTM3D(2, 3), _normal(1, 2, 5, 5, 5, 2)),
    "Cropping1D": (lambda: layers.Cropping1D(1), SEQUENCE),
    "Cropping2D": (lambda: layers.Cropping2D(1), IMAGE),
    "Cropping3D": (lambda: layers.Cropping3D(1), VOLUME),
    "CutMix": (lambda: layers.CutMix(seed=5), {"images": PIXELS, "labels": CLASSES}),
    "Dense": (lambda: layers.Dense(5), MATRIX),
    "DepthwiseConv1D": (lambda: layers.DepthwiseConv1D(3), SEQUENCE),
    "DepthwiseConv2D": (lambda: layers.DepthwiseConv2D(3), IMAGE),
    "Discretization": (lambda: layers.Discretization(bin_boundaries=[-0.3, 0.0, 0.4]), MATRIX),
    "Dot": (lambda: layers.Dot(1), [MATRIX, MATRIX * 2]),
    "Dropout": (lambda: layers.Dropout(0.3, seed=5), MATRIX),
    "EinsumDense": (lambda: layers.EinsumDense("ab,bc->ac", 5), MATRIX),
    "Embedding": (lambda: layers.Embedding(7, 3), _integers(7, 3, 4)),
    "GRU": (lambda: layers.GRU(5), SEQUENCE),
    "GRUCell": (lambda: layers.RNN(layers.GRUCell(5)), SEQUENCE),
    "GaussianDropout": (lambda: layers.GaussianDropout(0.3, seed=5), MATRIX),
    "GaussianNoise": (lambda: layers.GaussianNoise(0.3, seed=5), MATRIX),
    "GroupNormalization": (lambda: layers.GroupNormalization(2), _normal(2, 8, 8, 4)),
    "GroupQueryAttention": (lambda: layers.GroupQueryAttention(4, 4, 2), (SEQUENCE, SEQUENCE)),
    "HashedCrossing": (lambda: layers.HashedCrossing(5), [_integers(9, 4), _integers(9, 4)]),
    "Hashing": (lambda: layers.Hashing(5), _integers(90, 3, 2)),
    "IntegerLookup": (lambda: layers.IntegerLookup(vocabulary=[3, 5, 7]), _integers(9, 3, 2)),
    "LSTM": (lambda: layers.LSTM(5), SEQUENCE),
    "LSTMCell": (lambda: layers.RNN(layers.LSTMCell(5)), SEQUENCE),
    "Lambda": (lambda: layers.Lambda(lambda a: a * 2), MATRIX),
    "MaxNumBoundingBoxes": (lambda: layers.MaxNumBoundingBoxes(3), IMAGE),
    "MelSpectrogram": (lambda: layers.MelSpectrogram(), _normal(2, 2000)),
    "MixUp": (lambda: layers.MixUp(seed=5), {"images": PIXELS, "labels": CLASSES}),
    "MultiHeadAttention": (lambda: layers.MultiHeadAttention(2, 4), (SEQUENCE, SEQUENCE)),
    "Permute": (lambda: layers.Permute((2, 1)), SEQUENCE),
    "Pipeline": (lambda: layers.Pipeline([layers.Rescaling(0.5), layers.CenterCrop(4, 4)]), IMAGE),
    "RNN": (lambda: layers.RNN(layers.LSTMCell(5)), SEQUENCE),
    "RandAugment": (lambda: layers.RandAugment(seed=5), PIXELS),
    "RandomBrightness": (lambda: layers.RandomBrightness(0.2, seed=5), PIXELS),
    "RandomColorDegeneration": (lambda: layers.RandomColorDegeneration(0.2, seed=5), PIXELS),
    "RandomColorJitter": (
        lambda: layers.RandomColorJitter((0, 255), 0.2, 0.2, 0.2, 0.2, seed=5), PIXELS),
    "RandomContrast": (lambda: layers.RandomContrast(0.2, seed=5), PIXELS),
    "RandomCrop": (lambda: layers.RandomCrop(4, 4, seed=5), IMAGE),
    "RandomElasticTransform": (lambda: layers.RandomElasticTransform(1.0, seed=5), PIXELS),
    "RandomErasing": (lambda: layers.RandomErasing(1.0, seed=5), PIXELS),
    "RandomFlip": (lambda: layers.RandomFlip(seed=5), IMAGE),
    "RandomGaussianBlur": (lambda: layers.RandomGaussianBlur(1.0, seed=5), PIXELS),
    "RandomGrayscale": (lambda: layers.RandomGrayscale(0.5, seed=5), PIXELS),
    "RandomHue": (lambda: layers.RandomHue(0.2, seed=5), PIXELS),
    "RandomInvert": (lambda: layers.RandomInvert(0.5, seed=5), PIXELS),
    "RandomPerspective": (lambda: layers.RandomPerspective(1.0, seed=5), PIXELS),
    "RandomPosterization": (lambda: layers.RandomPosterization(4, seed=5), PIXELS),
    "RandomRotation": (lambda: layers.RandomRotation(0.2, seed=5), PIXELS),
    "RandomSaturation": (lambda: layers.RandomSaturation(0.2, seed=5), PIXELS),
    "RandomSharpness": (lambda: layers.RandomSharpness(0.2, seed=5), PIXELS),
    "RandomShear": (lambda: layers.RandomShear(0.2, 0.2, seed=5), PIXELS),
    "RandomTranslation": (lambda: layers.RandomTranslation(0.2, 0.2, seed=5), PIXELS),
    "RandomZoom": (lambda: layers.RandomZoom(0.2, seed=5), PIXELS),
    "RepeatVector": (lambda: layers.RepeatVector(3), MATRIX),
    "Rescaling": (lambda: layers.Rescaling(0.5), IMAGE),
    "Reshape": (lambda: layers.Reshape((2, 2)), MATRIX),
    "Resizing": (lambda: layers.Resizing(5, 6), IMAGE),
    "ReversibleEmbedding": (lambda: layers.ReversibleEmbedding(7, 3), _integers(7, 3, 4)),
    "STFTSpectrogram": (lambda: layers.STFTSpectrogram(), _normal(2, 2000, 1)),
    "SeparableConv1D": (lambda: layers.SeparableConv1D(4, 3), SEQUENCE),
    "SeparableConv2D": (lambda: layers.SeparableConv2D(4, 3), IMAGE),
    "SimpleRNN": (lambda: layers.SimpleRNN(5), SEQUENCE),
    "SimpleRNNCell": (lambda: layers.RNN(layers.SimpleRNNCell(5)), SEQUENCE),
    "SpatialDropout1D": (lambda: layers.SpatialDropout1D(0.3, seed=5), SEQUENCE),
    "SpatialDropout2D": (lambda: layers.SpatialDropout2D(0.3, seed=5), IMAGE),
    "SpatialDropout3D": (lambda: layers.SpatialDropout3D(0.3, seed=5), VOLUME),
    "SpectralNormalization": (lambda: layers.SpectralNormalization(layers.Dense(3)), MATRIX),
    "StackedRNNCells": (
        lambda: layers.RNN(layers.StackedRNNCells([layers.LSTMCell(5), layers.GRUCell(3)])),
        SEQUENCE),
    "StringLookup": (lambda: layers.StringLookup(vocabulary=list(WORDS[:2])), WORDS),
    "TextVectorization": (lambda: layers.TextVectorization(vocabulary=["cat", "dog"]), WORDS),
    "TimeDistributed": (lambda: layers.TimeDistributed(layers.Dense(3)), SEQUENCE),
    "UpSampling1D": (lambda: layers.UpSampling1D(2), SEQUENCE),
    "UpSampling2D": (lambda: layers.UpSampling2D(2), IMAGE),
    "UpSampling3D": (lambda: layers.UpSampling3D(2), VOLUME),
    "ZeroPadding1D": (lambda: layers.ZeroPadding1D(1), SEQUENCE),
    "ZeroPadding2D": (lambda: layers.ZeroPadding2D(1), IMAGE),
    "ZeroPadding3D": (lambda: layers.ZeroPadding3D(1), VOLUME),
}  # fmt: skip
"""Layers with arguments or an input of their own; a tuple is several arguments of the call."""

HOSTED = ("HashedCrossing", "Hashing", "IntegerLookup", "StringLookup", "TextVectorization")
"""Layers of strings and lookup tables, which the host runs."""


def _normalization() -> Any:
    layer = layers.Normalization()
    layer.adapt(MATRIX)
    return layer


def program_of(make: Make, example: Any, differentiable: bool = True) -> Callable[[Any], Any]:
    """Return the program that calls a layer once in inference and twice in training."""

    def program(jit: Any) -> Any:
        layer = make()
        arguments = tf.nest.map_structure(tf.constant, example)
        arguments = arguments if isinstance(arguments, tuple) else (arguments,)
        layer(*arguments)
        taken = "training" in inspect.signature(layer.call).parameters

        def step(training: bool) -> Any:
            modes = {"training": training} if taken else {}
            call = lambda *items: layer(*items, **modes)  # noqa: E731
            body = lambda *items: with_gradients(  # noqa: E731
                call, *items, variables=layer.trainable_variables
            )
            return tf.function(body if differentiable else call, jit_compile=jit, autograph=False)

        training = step(True)
        results = [step(False)(*arguments), training(*arguments), training(*arguments)]
        return [_dense(item) for item in tf.nest.flatten(results)], layer.variables

    return program


def _dense(item: Any) -> Any:
    """Return gradients of embeddings as they are applied."""
    return tf.convert_to_tensor(item) if isinstance(item, tf.IndexedSlices) else item


def enter_all() -> None:
    """Enter the rows of this file."""
    table = dict(LAYERS)
    table["Normalization"] = (_normalization, MATRIX)
    for example, names in SAME_INPUT:
        for name in names.split():
            table[name] = (lambda name=name: getattr(layers, name)(), example)
    for name, (make, example) in table.items():
        enter(f"layers.{name}", program_of(make, example), name not in HOSTED)
