# SPDX-License-Identifier: Apache-2.0
"""The steps that `benchmarks.with_tensorflow.programs` calls again and again, and what makes them.

`training` makes a step of any loss; the functions after it build models whose steps are more than
a loss of labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from benchmarks.common.programs import Samples
from benchmarks.with_tensorflow import models

Arguments = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """What is called again and again.

    Attributes:
        function: what becomes a `tf.function`.
        arguments: its arguments.
        around: called with the `tf.function` and the arguments: a loop of a host program around it.
        signature: of the `tf.function`; None for one of the arguments' own shapes.
    """

    function: Callable[..., Any]
    arguments: Arguments
    around: Callable[..., Any] | None = None
    signature: Sequence[Any] | None = None


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


def drawn_images(batch: int, samples: Samples) -> Step:
    """Images that the decoder of a VAE draws from noise."""
    _, decoder = models.autoencoder()
    return Step(lambda noise: tf.sigmoid(decoder(noise)), constants(samples((batch, 32))))


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


def generated_images(batch: int, samples: Samples) -> Step:
    """Images that the generator of a WGAN-GP makes from noise, and the critic's values of them."""
    generator, critic = models.adversaries()

    def generate(noise: Any) -> Any:
        images = generator(noise, training=False)
        return images, critic(images, training=False)

    return Step(generate, constants(samples((batch, 64))))


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


def chosen_actions(batch: int, samples: Samples) -> Step:
    """The values of all actions, and the best one or, where a draw says so, another."""
    online = models.player()

    def choose(images: Any, draws: Any, others: Any) -> Any:
        values = online(images, training=False)
        best = tf.argmax(values, -1, tf.int32)
        return values, tf.where(draws < 0.1, others, best)

    return Step(
        choose,
        constants(
            samples.uniform(0, 1, (batch, 84, 84, 4)),
            samples.uniform(0, 1, batch),
            samples.integers(6, batch),
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


def heat_values(batch: int, samples: Samples) -> Step:
    """What the network says of places and times, and how fast it changes there."""
    model = models.heat()

    def values(place: Any, time: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(time)
            value = model(tf.concat([place, time], -1))
        return value, tape.gradient(value, time)

    shape = (batch, 1)
    return Step(values, constants(samples.uniform(-3, 3, shape), samples.uniform(0, 1, shape)))
