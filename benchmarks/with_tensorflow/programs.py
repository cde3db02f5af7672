# SPDX-License-Identifier: Apache-2.0
"""Whole TensorFlow programs, as users run them: the rows of `benchmarks.with_tensorflow.whole`.

A row builds what is called: a step that trains, a step that infers, or both. Models have the same
weights on every engine, for they come from the same seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras

from benchmarks.common.programs import Samples
from benchmarks.with_tensorflow import models
from benchmarks.with_tensorflow.steps import (
    Arguments,
    Step,
    adversarial,
    chosen_actions,
    classification,
    constants,
    deep_q,
    drawn_images,
    generated_images,
    generation,
    heat_values,
    physics,
    training,
    variational,
)


@dataclass(frozen=True, slots=True)
class Whole:
    """One row, for each of its steps.

    Attributes:
        name: of the row.
        train: makes the training step from a batch size and numbers; None if it has none.
        infer: makes the inference step.
        batches: the two batch sizes.
        tolerance: largest difference of a result of the first two calls, relative to its largest
            element.
        script: steps of the short script that is timed from its start; 0 for none.
    """

    name: str
    train: Callable[[int, Samples], Step] | None
    infer: Callable[[int, Samples], Step] | None
    batches: tuple[int, int]
    tolerance: float = 1e-3
    script: int = 0

    def kinds(self) -> list[str]:
        """Return which of the two steps it has."""
        return [kind for kind in ("infer", "train") if getattr(self, kind) is not None]


def _image_row(
    name: str,
    build: Callable[..., keras.Model],
    tolerance: float = 1e-2,
    script: int = 0,
    size: int = 96,
) -> Whole:
    """Return the row of a classifier of images of `size` x `size`."""
    image = (size, size, 3)

    def make() -> keras.Model:
        model = build(weights=None, input_shape=image, classes=10, classifier_activation=None)
        for layer in model.layers:
            if isinstance(layer, keras.layers.Dropout):
                layer.rate = 0
        return model

    def infer(batch: int, samples: Samples) -> Step:
        return Step(partial(make(), training=False), constants(samples((batch, *image))))

    def train(batch: int, samples: Samples) -> Step:
        model = make()
        step = training(
            lambda images, labels: classification(labels, model(images, training=True)),
            [model],
            # So small a rate, because gradients are large and, with two images to a batch norm,
            # ill-conditioned: ResNet50's in f32 are 2 % away from those in f64, TensorFlow's too.
            keras.optimizers.SGD(1e-8, momentum=0.9),
        )
        images, labels = samples((batch, *image)), samples.integers(10, batch)
        return Step(step, constants(images, labels))

    return Whole(name, train, infer, (2, 8), tolerance, script)


def _row(
    name: str,
    build: Callable[[], keras.Model],
    inputs: Callable[[int, Samples], Arguments],
    labels: Callable[[int, Samples], Any],
    batches: tuple[int, int],
    optimizer: Callable[[], keras.optimizers.Optimizer] = keras.optimizers.Adam,
    script: int = 0,
) -> Whole:
    """Return the row of a model that classifies."""

    def call(model: keras.Model, given: Arguments, *, training: bool) -> Any:
        return model(given if len(given) > 1 else given[0], training=training)

    def infer(batch: int, samples: Samples) -> Step:
        model = build()
        given = constants(*inputs(batch, samples))
        return Step(lambda *given: call(model, given, training=False), given)

    def train(batch: int, samples: Samples) -> Step:
        model = build()
        given = constants(*inputs(batch, samples), labels(batch, samples))
        call(model, given[:-1], training=False)
        step = training(
            lambda *given: classification(given[-1], call(model, given[:-1], training=True)),
            [model],
            optimizer(),
        )
        return Step(step, given)

    return Whole(name, train, infer, batches, script=script)


def _transformer_row(name: str, *, causal: bool) -> Whole:
    return _row(
        name,
        lambda: models.Transformer(2048, 128, 2, causal=causal),
        lambda batch, samples: (samples.integers(2048, (batch, 64)),),
        lambda batch, samples: samples.integers(2048, (batch, 64)),
        (1, 4),
    )


def _sequence(batch: int, samples: Samples) -> Arguments:
    return (samples((batch, 32, 64)),)


def _classes(batch: int, samples: Samples) -> Any:
    return samples.integers(10, batch)


_applications = keras.applications
WHOLE: tuple[Whole, ...] = (
    _image_row("ResNet50", _applications.ResNet50, script=20),
    _image_row("MobileNetV2", _applications.MobileNetV2),
    _image_row("EfficientNetB0", _applications.EfficientNetB0),
    # Of images of 96x96 one pixel is left for its last batch norms: with two of them the gradients
    # in f32 are 16 to 75 % away from those in f64, TensorFlow's too. Of 150x150, 2 to 5 %.
    _image_row("InceptionV3, 150x150", _applications.InceptionV3, size=150),
    _image_row("ConvNeXtTiny", _applications.ConvNeXtTiny),
    _transformer_row("BERT-base: 2 blocks", causal=False),
    _transformer_row("GPT-2-small: 2 blocks", causal=True),
    Whole("GPT-2-small: 16 words, growing cache", None, generation, (1, 4), script=4),
    _row("LSTM", partial(models.recurrent, keras.layers.LSTM), _sequence, _classes, (16, 64)),
    _row("GRU", partial(models.recurrent, keras.layers.GRU), _sequence, _classes, (16, 64)),
    _row(
        "U-Net",
        models.unet,
        lambda batch, samples: (samples((batch, 64, 64, 3)),),
        lambda batch, samples: samples.integers(4, (batch, 64, 64)),
        (2, 8),
    ),
    _row(
        "DLRM with RMSprop",
        models.recommender,
        lambda batch, samples: (samples((batch, 13)), samples.integers(20_000, (batch, 8))),
        _classes,
        (128, 512),
        keras.optimizers.RMSprop,
        script=200,
    ),
    Whole("VAE", variational, drawn_images, (64, 256), script=500),
    Whole("WGAN-GP", adversarial, generated_images, (16, 64)),
    Whole("DQN", deep_q, chosen_actions, (8, 32)),
    Whole("physics-informed network", physics, heat_values, (512, 2048)),
)
