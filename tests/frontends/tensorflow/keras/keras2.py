# SPDX-License-Identifier: Apache-2.0
"""Rows for the classes of Keras 2 that Keras 3 has not, or makes in another way."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tests.frontends.tensorflow.keras.layers import IMAGE, MATRIX, PIXELS, SEQUENCE, program_of
from tests.frontends.tensorflow.keras.row import calling, enter
from tests.frontends.tensorflow.keras.training import GUESS, TRUTH, WEIGHTS, metric, optimizer_steps
from tests.frontends.tensorflow.keras.which import keras

layers, optimizers, metrics = keras.layers, keras.optimizers, keras.metrics
_legacy = optimizers.legacy

LAYERS: dict[str, tuple[Callable[[], Any], Any]] = {
    "DenseFeatures": (
        lambda: layers.DenseFeatures([tf.feature_column.numeric_column("a")]),
        {"a": MATRIX[:, :1]},
    ),
    "LocallyConnected1D": (lambda: layers.LocallyConnected1D(3, 2), SEQUENCE),
    "LocallyConnected2D": (lambda: layers.LocallyConnected2D(3, 2), IMAGE),
    "RandomHeight": (lambda: layers.RandomHeight(0.3, seed=5), PIXELS),
    "RandomWidth": (lambda: layers.RandomWidth(0.3, seed=5), PIXELS),
    "ThresholdedReLU": (lambda: layers.ThresholdedReLU(0.2), MATRIX),
}

WITHOUT_GRADIENT: dict[str, tuple[Callable[[], Any], Any]] = {
    "RandomContrast": (lambda: layers.RandomContrast(0.2, seed=5), PIXELS),
}
"""Layers with an op that TensorFlow has no gradient of."""

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "optimizers.SGD": lambda: optimizers.SGD(0.1, momentum=0.9, nesterov=True, clipvalue=0.5),
    "legacy.Adadelta": lambda: _legacy.Adadelta(0.5),
    "legacy.Adagrad": lambda: _legacy.Adagrad(0.1),
    "legacy.Adam": lambda: _legacy.Adam(0.1, amsgrad=True),
    "legacy.Adamax": lambda: _legacy.Adamax(0.1),
    "legacy.Ftrl": lambda: _legacy.Ftrl(0.1, l1_regularization_strength=0.01),
    "legacy.Nadam": lambda: _legacy.Nadam(0.1),
    "legacy.RMSprop": lambda: _legacy.RMSprop(0.1, centered=True, momentum=0.5),
    "legacy.SGD": lambda: _legacy.SGD(0.1, momentum=0.9, nesterov=True),
}

METRICS: dict[str, tuple[Callable[[], Any], tuple[np.ndarray, ...]]] = {
    "MeanRelativeError": (
        lambda: metrics.MeanRelativeError(np.full((6, 4), 0.5, np.float32)), (TRUTH, GUESS)),
    "MeanTensor": (lambda: metrics.MeanTensor(shape=(6,)), (WEIGHTS,)),
}  # fmt: skip

ACTIVATIONS = (
    "elu exponential gelu hard_sigmoid linear mish relu selu sigmoid softmax softplus softsign "
    "swish tanh"
)

CANNOT: dict[str, str] = {
    "layers.AbstractRNNCell": "a base class: its subclasses are run",
    "legacy.Optimizer": "a base class: its subclasses are run",
    "losses.Reduction": "names of ways to reduce a loss",
    "constraints.RadialConstraint": "it makes variables each time, which a tf.function refuses",
}


def enter_all() -> None:
    """Enter the rows of this file."""
    for name, (make, example) in LAYERS.items():
        enter(f"layers.{name}", program_of(make, example))
    for name, (make, example) in WITHOUT_GRADIENT.items():
        enter(f"layers.{name}", program_of(make, example, differentiable=False))
    for name, make in OPTIMIZERS.items():
        enter(name, optimizer_steps(make))
    for name, (make, inputs) in METRICS.items():
        enter(f"metrics.{name}", metric(make, inputs))
    for name in ACTIVATIONS.split():
        enter(f"activations.{name}", calling(getattr(keras.activations, name), (MATRIX,), True))
