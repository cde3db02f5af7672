# SPDX-License-Identifier: Apache-2.0
"""Rows for losses, metrics, optimizers, schedules, regularizers, constraints, initializers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tests.frontends.tensorflow.keras.row import calling, enter
from tests.frontends.tensorflow.keras.which import IS_KERAS_2, keras

constraints, initializers, regularizers = keras.constraints, keras.initializers, keras.regularizers
losses, metrics, optimizers = keras.losses, keras.metrics, keras.optimizers

_DRAWN = np.random.default_rng(5)


def _shares(*dims: int) -> np.ndarray:
    """Return numbers whose sum over the last axis is 1."""
    drawn = _DRAWN.uniform(0.1, 0.9, dims).astype(np.float32)
    return drawn / drawn.sum(-1, keepdims=True)


TRUTH, GUESS = _shares(6, 4), _shares(6, 4)
BINARY = (_DRAWN.uniform(size=(6, 4)) > 0.5).astype(np.float32)
ONE_HOT = np.eye(4, dtype=np.float32)[[0, 2, 1, 3, 2, 0]]
LABELS = np.array([0, 2, 1, 3, 2, 1], np.int32)
WEIGHTS = np.array([1.0, 0.5, 2.0, 0.0, 1.0, 1.5], np.float32)
LETTERS, LOGITS = np.array([[1, 2, 3], [2, 3, 0]], np.int32), _shares(2, 7, 5)
MATRIX = _DRAWN.normal(size=(4, 5)).astype(np.float32)

Inputs = tuple[np.ndarray, np.ndarray]

LOSS_INPUTS: list[tuple[Inputs, str]] = [
    ((BINARY, GUESS), "BinaryCrossentropy BinaryFocalCrossentropy Dice Hinge SquaredHinge Tversky"),
    ((ONE_HOT, GUESS), "CategoricalCrossentropy CategoricalFocalCrossentropy CategoricalHinge"),
    ((LABELS, GUESS), "CategoricalGeneralizedCrossEntropy Circle SparseCategoricalCrossentropy"),
    ((TRUTH, GUESS), "CosineSimilarity Huber KLDivergence LogCosh MeanAbsoluteError Poisson "
     "MeanAbsolutePercentageError MeanSquaredError MeanSquaredLogarithmicError"),
]  # fmt: skip
"""Losses by the inputs that they take."""

LOSS_FUNCTIONS: list[tuple[Inputs, str]] = [
    ((BINARY, GUESS), "losses.binary_crossentropy losses.binary_focal_crossentropy losses.dice "
     "losses.hinge losses.squared_hinge losses.tversky metrics.binary_accuracy"),
    ((ONE_HOT, GUESS), "losses.categorical_crossentropy losses.categorical_focal_crossentropy "
     "losses.categorical_hinge "
     "metrics.categorical_accuracy metrics.top_k_categorical_accuracy"),
    ((LABELS, GUESS), "losses.circle losses.sparse_categorical_crossentropy "
     "metrics.sparse_categorical_accuracy metrics.sparse_top_k_categorical_accuracy"),
    ((TRUTH, GUESS), "losses.cosine_similarity losses.huber losses.kl_divergence losses.log_cosh "
     "losses.mean_absolute_error losses.mean_absolute_percentage_error losses.mean_squared_error "
     "losses.mean_squared_logarithmic_error losses.poisson metrics.concordance_correlation "
     "metrics.pearson_correlation"),
    ((LETTERS, LOGITS), "losses.ctc"),
]  # fmt: skip
"""Functions of losses and metrics by the inputs that they take."""

METRIC_INPUTS: list[tuple[Inputs, str]] = [
    ((BINARY, GUESS * 2), "AUC BinaryAccuracy BinaryCrossentropy FalseNegatives FalsePositives "
     "Hinge Precision Recall SquaredHinge TrueNegatives TruePositives"),
    ((ONE_HOT, GUESS), "CategoricalAccuracy CategoricalCrossentropy CategoricalHinge F1Score "
     "FBetaScore TopKCategoricalAccuracy"),
    ((LABELS, GUESS), "SparseCategoricalAccuracy SparseCategoricalCrossentropy "
     "SparseTopKCategoricalAccuracy"),
    ((TRUTH, GUESS), "CosineSimilarity KLDivergence LogCoshError MeanAbsoluteError Poisson "
     "MeanAbsolutePercentageError MeanSquaredError MeanSquaredLogarithmicError R2Score "
     "RootMeanSquaredError ConcordanceCorrelation PearsonCorrelation"),
    ((LABELS, LABELS[::-1].copy()), "Accuracy"),
]  # fmt: skip
"""Metrics without arguments by the inputs that they take."""

METRICS: dict[str, tuple[Callable[[], Any], Inputs]] = {
    "BinaryIoU": (lambda: metrics.BinaryIoU(), (BINARY[:, 0].copy(), GUESS[:, 0] * 2)),
    "IoU": (lambda: metrics.IoU(4, [0, 2]), (LABELS, LABELS[::-1].copy())),
    "MeanIoU": (lambda: metrics.MeanIoU(4), (LABELS, LABELS[::-1].copy())),
    "OneHotIoU": (lambda: metrics.OneHotIoU(4, [0, 2]), (ONE_HOT, GUESS)),
    "OneHotMeanIoU": (lambda: metrics.OneHotMeanIoU(4), (ONE_HOT, GUESS)),
    "PrecisionAtRecall": (lambda: metrics.PrecisionAtRecall(0.5), (BINARY, GUESS * 2)),
    "RecallAtPrecision": (lambda: metrics.RecallAtPrecision(0.5), (BINARY, GUESS * 2)),
    "SensitivityAtSpecificity": (
        lambda: metrics.SensitivityAtSpecificity(0.5), (BINARY, GUESS * 2)),
    "SpecificityAtSensitivity": (
        lambda: metrics.SpecificityAtSensitivity(0.5), (BINARY, GUESS * 2)),
    "MeanMetricWrapper": (
        lambda: metrics.MeanMetricWrapper(losses.huber), (TRUTH, GUESS)),
}  # fmt: skip

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "Adadelta": lambda: optimizers.Adadelta(0.5),
    "Adafactor": lambda: optimizers.Adafactor(0.1),
    "Adagrad": lambda: optimizers.Adagrad(0.1),
    "Adam": lambda: optimizers.Adam(0.1, amsgrad=True, clipnorm=1.0),
    "AdamW": lambda: optimizers.AdamW(0.1, weight_decay=0.05, use_ema=True),
    "Adamax": lambda: optimizers.Adamax(0.1),
    "Ftrl": lambda: optimizers.Ftrl(0.1, l1_regularization_strength=0.01),
    "Lamb": lambda: optimizers.Lamb(0.1),
    "Lion": lambda: optimizers.Lion(0.1, global_clipnorm=1.0),
    "LossScaleOptimizer": lambda: optimizers.LossScaleOptimizer(
        optimizers.SGD(0.1), initial_scale=8.0, dynamic_growth_steps=2
    ),
    "MultiOptimizer": lambda: optimizers.MultiOptimizer(
        optimizers.OptimizerMap(optimizers.Adam(0.1), {".*bias": optimizers.SGD(0.1)})
    ),
    "Muon": lambda: optimizers.Muon(0.1),
    "Nadam": lambda: optimizers.Nadam(0.1),
    "RMSprop": lambda: optimizers.RMSprop(0.1, centered=True, momentum=0.5),
    "SGD": lambda: optimizers.SGD(
        0.1, momentum=0.9, nesterov=True, gradient_accumulation_steps=2, clipvalue=0.5
    ),
    "ScheduleFreeAdamW": lambda: optimizers.ScheduleFreeAdamW(0.1),
}

SCHEDULES: dict[str, Callable[[], Any]] = {
    "CosineDecay": lambda: optimizers.schedules.CosineDecay(
        0.1, 9, warmup_target=0.2, warmup_steps=3
    ),
    "CosineDecayRestarts": lambda: optimizers.schedules.CosineDecayRestarts(0.1, 3),
    "ExponentialDecay": lambda: optimizers.schedules.ExponentialDecay(0.1, 3, 0.5, staircase=True),
    "InverseTimeDecay": lambda: optimizers.schedules.InverseTimeDecay(0.1, 3, 0.5),
    "PiecewiseConstantDecay": lambda: optimizers.schedules.PiecewiseConstantDecay(
        [2, 5], [0.1, 0.2, 0.3]
    ),
    "PolynomialDecay": lambda: optimizers.schedules.PolynomialDecay(0.1, 9, power=2.0),
}

OF_MATRICES: dict[str, Callable[[], Any]] = {
    "regularizers.L1": lambda: regularizers.L1(0.1),
    "regularizers.L1L2": lambda: regularizers.L1L2(0.1, 0.2),
    "regularizers.L2": lambda: regularizers.L2(0.1),
    "regularizers.OrthogonalRegularizer": lambda: regularizers.OrthogonalRegularizer(0.1),
    "constraints.MaxNorm": lambda: constraints.MaxNorm(1.5),
    "constraints.MinMaxNorm": lambda: constraints.MinMaxNorm(0.5, 1.5, 0.7),
    "constraints.NonNeg": constraints.NonNeg,
    "constraints.UnitNorm": constraints.UnitNorm,
}

INITIALIZERS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "Constant": (lambda: initializers.Constant(1.5), (4, 5)),
    "Identity": (lambda: initializers.Identity(2.0), (4, 4)),
    "Ones": (initializers.Ones, (4, 5)),
    "STFT": (lambda: initializers.STFT("real"), (8, 1, 5)),
    "VarianceScaling": (lambda: initializers.VarianceScaling(2.0, "fan_out", seed=5), (4, 5)),
    "Zeros": (initializers.Zeros, (4, 5)),
}


UNWEIGHTED = ("R2Score", "ConcordanceCorrelation", "PearsonCorrelation")
"""Metrics that take no weights of rows."""

SEEDED = (
    "GlorotNormal", "GlorotUniform", "HeNormal", "HeUniform", "LecunNormal", "LecunUniform",
    "Orthogonal", "RandomNormal", "RandomUniform", "TruncatedNormal",
)  # fmt: skip
"""Initializers that draw."""


def _named(module: str, name: str) -> Callable[..., Any]:
    """Return what calls a class or function of Keras."""
    return lambda *arguments: getattr(getattr(keras, module), name)(*arguments)


def _loss(make: Callable[[], Any], inputs: Inputs, weights: Any) -> Callable[[Any], Any]:
    def call(*arguments: Any) -> Any:
        return make()(*arguments)

    return calling(call, inputs if weights is None else (*inputs, weights), True)


def metric(make: Callable[[], Any], inputs: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Return the program that updates a metric twice, the second time with weights if it can."""

    def program(jit: Any) -> Any:
        made = make()

        def step(*arguments: Any) -> Any:
            made.update_state(*arguments)
            return made.result()

        compiled = tf.function(step, jit_compile=jit, autograph=False)
        given = [tf.constant(item) for item in inputs]
        found = [compiled(*given)]
        weighted = len(inputs) == 2 and type(made).__name__ not in UNWEIGHTED
        found.append(compiled(*given, *([tf.constant(WEIGHTS)] if weighted else [])))
        return found, made.variables

    return program


def is_legacy(optimizer: Any) -> bool:
    """Whether an optimizer is of those that Keras 2 replaced: it makes variables when it steps."""
    return IS_KERAS_2 and isinstance(optimizer, optimizers.legacy.Optimizer)


def optimizer_steps(make: Callable[[], Any]) -> Callable[[Any], Any]:
    """Return the program of four steps on an embedding, a kernel and a bias."""

    def program(jit: Any) -> Any:
        model = keras.Sequential(
            [
                keras.layers.Input((3,), dtype="int32"),
                keras.layers.Embedding(9, 4),
                keras.layers.Flatten(),
                keras.layers.Dense(2),
            ]
        )
        optimizer = make()
        if not is_legacy(optimizer):
            optimizer.build(model.trainable_variables)
        words = tf.constant([[1, 5, 1], [8, 2, 0]])

        @tf.function(jit_compile=jit, autograph=False)
        def step() -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(words) - 1.0) ** 2)
                scaled = loss if IS_KERAS_2 else optimizer.scale_loss(loss)
            gradients = tape.gradient(scaled, model.trainable_variables)
            if IS_KERAS_2:
                optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            else:
                optimizer.apply(gradients)
            return loss

        found = [step() for _ in range(4)]
        own = optimizer.weights if is_legacy(optimizer) else optimizer.variables
        return found, model.trainable_variables, own

    return program


def _enter_losses() -> None:
    for inputs, names in LOSS_INPUTS:
        for name in names.split():
            enter(f"losses.{name}", _loss(_named("losses", name), inputs, WEIGHTS))
    enter("losses.CTC", _loss(_named("losses", "CTC"), (LETTERS, LOGITS), None))
    generalized = "categorical_generalized_cross_entropy"
    arguments = (LABELS, GUESS, 0.5)
    enter(f"losses.{generalized}", calling(_named("losses", generalized), arguments, True))
    for inputs, names in LOSS_FUNCTIONS:
        for name in names.split():
            module, own = name.split(".")
            enter(name, calling(_named(module, own), inputs, True))


def _enter_metrics() -> None:
    made = dict(METRICS)
    for inputs, names in METRIC_INPUTS:
        made.update({name: (_named("metrics", name), inputs) for name in names.split()})
    for name in ("Mean", "Sum"):
        made[name] = _named("metrics", name), (WEIGHTS,)
    for name, (make, inputs) in made.items():
        enter(f"metrics.{name}", metric(make, inputs))


def enter_all() -> None:
    """Enter the rows of this file."""
    _enter_losses()
    _enter_metrics()
    for name, make in OPTIMIZERS.items():
        enter(f"optimizers.{name}", optimizer_steps(make))
    for name, make in SCHEDULES.items():
        enter(f"schedules.{name}", calling(make(), (np.array(4, np.int32),), False))
    for name, make in OF_MATRICES.items():
        enter(name, calling(make(), (MATRIX,), True))
    drawing = {
        name: (lambda name=name: getattr(initializers, name)(seed=5), (4, 5)) for name in SEEDED
    }
    for name, (make, dims) in {**INITIALIZERS, **drawing}.items():
        enter(f"initializers.{name}", calling(lambda m=make, d=dims: m()(d), (), False))
