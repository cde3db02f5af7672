"""Whole TensorFlow programs, as users run them: the rows of `benchmarks.tf_whole`.

A row builds what is called: a step that trains, a step that infers, or both. Models have the same
weights on every engine, for they come from the same seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
import tensorflow as tf

from benchmarks import tf_models as models
from benchmarks.programs import Samples

Arguments = tuple[Any, ...]
Compiler = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Makes a `tf.function` of a function, as an engine compiles it."""


@dataclass(frozen=True, slots=True)
class Step:
    """What is called again and again.

    Attributes:
        function: what becomes a `tf.function`.
        arguments: its arguments.
        around: called with the `tf.function` and the arguments: a loop of a host program around it.
    """

    function: Callable[..., Any]
    arguments: Arguments
    around: Callable[..., Any] | None = None
    signature: Sequence[Any] | None = None


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


def training(
    loss: Callable[..., Any], trained: Sequence[keras.Model], optimizer: keras.optimizers.Optimizer
) -> Callable[..., Any]:
    """Return a step: the loss of its arguments, whose gradients change `trained`."""
    variables = [variable for model in trained for variable in model.trainable_variables]
    optimizer.build(variables)

    def step(*arguments: Any) -> Any:
        with tf.GradientTape() as tape:
            value = loss(*arguments)
        gradients = tape.gradient(value, variables)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return value

    return step


def classification(labels: Any, logits: Any) -> Any:
    """Return the mean cross-entropy."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return tf.reduce_mean(losses)


def constants(*arrays: Any) -> Arguments:
    """Return arrays as tensors."""
    return tuple(tf.constant(array) for array in arrays)


def _image_row(
    name: str, build: Callable[..., keras.Model], tolerance: float = 1e-2, script: int = 0
) -> Whole:
    """Return the row of a classifier of images of 96x96."""

    def make() -> keras.Model:
        model = build(weights=None, input_shape=(96, 96, 3), classes=10, classifier_activation=None)
        for layer in model.layers:
            if isinstance(layer, keras.layers.Dropout):
                layer.rate = 0
        return model

    def infer(batch: int, samples: Samples) -> Step:
        return Step(partial(make(), training=False), constants(samples((batch, 96, 96, 3))))

    def train(batch: int, samples: Samples) -> Step:
        model = make()
        step = training(
            lambda images, labels: classification(labels, model(images, training=True)),
            [model],
            keras.optimizers.SGD(0.001, momentum=0.9),
        )
        images, labels = samples((batch, 96, 96, 3)), samples.integers(10, batch)
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


def generation(batch: int, samples: Samples) -> Step:
    """16 words after 32, each a call with a cache that is longer by one position."""
    model = models.Transformer(2048, 128, 2, causal=True)
    tokens, caches = constants(
        samples.integers(2048, (batch, 1)), samples((2, 2, batch, 12, 32, 64), 0.1)
    )
    model.decode(tokens, caches)

    def generate(decode: Callable[..., Any], token: Any, cache: Any) -> Any:
        words = []
        for _ in range(16):
            token, cache = decode(token, cache)
            words.append(token)
        return tf.concat(words, 1), cache

    signature = (
        tf.TensorSpec((batch, 1), tf.int32),
        tf.TensorSpec((2, 2, batch, 12, None, 64), tf.float32),
    )
    return Step(model.decode, (tokens, caches), generate, signature)


def variational(batch: int, samples: Samples) -> Step:
    """A training step of a VAE; its noise is an argument."""
    encoder, decoder = models.autoencoder()

    def loss(images: Any, noise: Any) -> Any:
        mean, spread = tf.split(encoder(images), 2, -1)
        logits = decoder(mean + tf.exp(spread / 2) * noise)
        lost = tf.nn.sigmoid_cross_entropy_with_logits(images, logits)
        apart = -0.5 * tf.reduce_sum(1 + spread - mean**2 - tf.exp(spread), -1)
        return tf.reduce_mean(tf.reduce_sum(lost, -1) + apart)

    step = training(loss, [encoder, decoder], keras.optimizers.Adam())
    return Step(step, constants(samples.uniform(0, 1, (batch, 784)), samples((batch, 32))))


def adversarial(batch: int, samples: Samples) -> Step:
    """A WGAN-GP's step of the critic, then of the generator."""
    generator, critic = models.adversaries()

    def critic_loss(images: Any, noise: Any, share: Any) -> Any:
        made = generator(noise)
        between = share * images + (1 - share) * made
        with tf.GradientTape() as tape:
            tape.watch(between)
            value = critic(between)
        slopes = tape.gradient(value, between)
        norms = tf.sqrt(tf.reduce_sum(slopes**2, (1, 2, 3)) + 1e-12)
        penalty = 10 * tf.reduce_mean((norms - 1) ** 2)
        return tf.reduce_mean(critic(made)) - tf.reduce_mean(critic(images)) + penalty

    def rate() -> keras.optimizers.Optimizer:
        return keras.optimizers.Adam(1e-4, 0.5, 0.9)

    criticise = training(critic_loss, [critic], rate())
    create = training(lambda noise: -tf.reduce_mean(critic(generator(noise))), [generator], rate())
    arguments = (
        samples((batch, 28, 28, 1)),
        samples((batch, 64)),
        samples.uniform(0, 1, (batch, 1, 1, 1)),
    )
    return Step(
        lambda images, noise, share: (criticise(images, noise, share), create(noise)),
        constants(*arguments),
    )


def deep_q(batch: int, samples: Samples) -> Step:
    """A DQN's step on a batch of its replay buffer."""
    online, target = models.player(), models.player()
    target.set_weights(online.get_weights())

    def loss(before: Any, actions: Any, rewards: Any, after: Any) -> Any:
        goal = rewards + 0.99 * tf.stop_gradient(tf.reduce_max(target(after), -1))
        values = tf.gather(online(before), actions, batch_dims=1)
        return tf.reduce_mean(keras.losses.huber(goal[:, None], values[:, None]))

    images = (batch, 84, 84, 4)
    step = training(loss, [online], keras.optimizers.Adam(1e-4))
    return Step(
        step,
        constants(
            samples.uniform(0, 1, images),
            samples.integers(6, batch),
            samples(batch),
            samples.uniform(0, 1, images),
        ),
    )


def physics(batch: int, samples: Samples) -> Step:
    """A step of a network that is to solve the heat equation: second derivatives of its output."""
    model = models.heat()

    def loss(place: Any, time: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(place)
            with tf.GradientTape(persistent=True) as inner:
                inner.watch([place, time])
                value = model(tf.concat([place, time], -1))
            slope, change = inner.gradient(value, place), inner.gradient(value, time)
        bend = outer.gradient(slope, place)
        start = model(tf.concat([place, tf.zeros_like(time)], -1))
        return tf.reduce_mean((change - 0.1 * bend) ** 2) + tf.reduce_mean(
            (start - tf.sin(place)) ** 2
        )

    step = training(loss, [model], keras.optimizers.Adam())
    shape = (batch, 1)
    return Step(step, constants(samples.uniform(-3, 3, shape), samples.uniform(0, 1, shape)))


def _sequence(batch: int, samples: Samples) -> Arguments:
    return (samples((batch, 32, 64)),)


def _classes(batch: int, samples: Samples) -> Any:
    return samples.integers(10, batch)


_applications = keras.applications
WHOLE: tuple[Whole, ...] = (
    _image_row("ResNet50", _applications.ResNet50, script=20),
    _image_row("MobileNetV2", _applications.MobileNetV2),
    _image_row("EfficientNetB0", _applications.EfficientNetB0),
    _image_row("InceptionV3", _applications.InceptionV3),
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
    Whole("VAE", variational, None, (64, 256), script=500),
    Whole("WGAN-GP", adversarial, None, (16, 64)),
    Whole("DQN", deep_q, None, (8, 32)),
    Whole("physics-informed network", physics, None, (512, 2048)),
)
