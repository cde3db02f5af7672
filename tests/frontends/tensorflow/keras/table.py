# SPDX-License-Identifier: Apache-2.0
"""All rows, and what has none: by module and name, as the modules of Keras hold them."""

import importlib

from tests.frontends.tensorflow.keras import layers, training
from tests.frontends.tensorflow.keras.names import is_left_out
from tests.frontends.tensorflow.keras.row import ROWS
from tests.frontends.tensorflow.keras.which import IS_KERAS_2

_REASONS = {
    "a base class: its subclasses are run": (
        "constraints.Constraint initializers.Initializer layers.Layer layers.Wrapper losses.Loss "
        "metrics.Metric optimizers.Optimizer regularizers.Regularizer "
        "schedules.LearningRateSchedule"
    ),
    "it runs the code of another library": (
        "layers.FlaxLayer layers.JaxLayer layers.TorchModuleWrapper"
    ),
    "it calls a SavedModel: test_saving runs it": "layers.TFSMLayer",
    "it describes inputs and computes nothing": "layers.InputLayer layers.InputSpec layers.Input",
    "it makes a layer, whose class has a row, and calls it": (
        "layers.add layers.average layers.concatenate layers.dot layers.maximum layers.minimum "
        "layers.multiply layers.subtract"
    ),
    "its results are not tensors": "ops.convert_to_numpy ops.dtype",
    "Keras's own code of it does not run inside a tf.function": (
        "ops.bartlett ops.corrcoef ops.isin ops.kron ops.vectorize"
    ),
    "a part of MultiOptimizer, which has a row": "optimizers.OptimizerMap",
}

# The rest needs what only this Keras has.
_more = importlib.import_module(
    "tests.frontends.tensorflow.keras." + ("keras2" if IS_KERAS_2 else "functions")
)

CANNOT: dict[str, str] = {
    name: reason
    for reason, names in _REASONS.items()
    for name in names.split()
    if not is_left_out(name)
} | (_more.CANNOT if IS_KERAS_2 else {})
"""What has no row, and why."""

# Keras 2's own rows come first: they take the place of others.
for _module in (_more, layers, training):
    _module.enter_all()

__all__ = ["CANNOT", "ROWS"]
