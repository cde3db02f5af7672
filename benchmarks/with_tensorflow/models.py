# SPDX-License-Identifier: Apache-2.0
"""Models of `benchmarks.with_tensorflow.whole` that `keras.applications` lacks.

Nothing here draws random numbers after a model is built: engines may draw different ones. Noise is
an argument, and dropout is left out.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import layers


class Block(layers.Layer):
    """A transformer's block: attention and two dense layers, norms before (GPT) or after (BERT)."""

    def __init__(self, size: int, heads: int, *, causal: bool) -> None:
        """Make the layers."""
        super().__init__()
        self.size, self.heads, self.causal = size, heads, causal
        self.projection = layers.Dense(3 * size)
        self.joined = layers.Dense(size)
        self.wide = layers.Dense(4 * size, activation="gelu")
        self.narrow = layers.Dense(size)
        self.norms = [layers.LayerNormalization(epsilon=1e-5) for _ in range(2)]

    def build(self, shape: Any) -> None:
        """Build the layers."""
        self.projection.build(shape)
        self.joined.build(shape)
        self.wide.build(shape)
        self.narrow.build((*shape[:-1], 4 * self.size))
        for norm in self.norms:
            norm.build(shape)

    def call(self, x: Any) -> Any:
        """Return x[batch, positions, size] after the block."""
        first, second = self.norms
        if not self.causal:
            x = first(x + self.attend(x, None)[0])
            return second(x + self.narrow(self.wide(x)))
        x = x + self.attend(first(x), None)[0]
        return x + self.narrow(self.wide(second(x)))

    def decode(self, x: Any, cache: Any) -> tuple[Any, Any]:
        """Return what one position becomes, and the cache with its key and value."""
        first, second = self.norms
        attended, cache = self.attend(first(x), cache)
        x = x + attended
        return x + self.narrow(self.wide(second(x))), cache

    def attend(self, x: Any, cache: Any) -> tuple[Any, Any]:
        """Return attention, and all keys and values: those of `cache` (if not None) and x's."""
        query, key, value = (self._split(part) for part in tf.split(self.projection(x), 3, -1))
        pair = tf.stack([key, value])
        if cache is not None:
            pair = tf.concat([cache, pair], 3)
        key, value = tf.unstack(pair)
        scores = tf.matmul(query, key, transpose_b=True) * (self.size // self.heads) ** -0.5
        if self.causal and cache is None:
            positions = tf.range(tf.shape(scores)[-1])
            scores = tf.where(positions[:, None] >= positions, scores, -1e9)
        found = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), (0, 2, 1, 3))
        return self.joined(tf.reshape(found, tf.shape(x))), pair

    def _split(self, x: Any) -> Any:
        shape = tf.shape(x)
        apart = tf.reshape(x, (shape[0], shape[1], self.heads, self.size // self.heads))
        return tf.transpose(apart, (0, 2, 1, 3))


class Transformer(keras.Model):
    """Embeddings of words and positions, blocks, a dense layer to the words."""

    def __init__(self, words: int, positions: int, depth: int, *, causal: bool) -> None:
        """Make the layers, in the sizes of BERT-base and GPT-2-small but for the depth."""
        super().__init__()
        size, heads = 768, 12
        self.words = layers.Embedding(words, size)
        self.positions = layers.Embedding(positions, size)
        self.blocks = [Block(size, heads, causal=causal) for _ in range(depth)]
        self.head = layers.Dense(words)

    def call(self, tokens: Any) -> Any:
        """Return logits[batch, positions, words]."""
        x = self.words(tokens) + self.positions(tf.range(tf.shape(tokens)[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    def decode(self, tokens: Any, caches: Any) -> tuple[Any, Any]:
        """Return the next words s32[batch, 1] and the caches, one position longer."""
        x = self.words(tokens) + self.positions(tf.shape(caches)[4:5])
        grown = []
        for index, block in enumerate(self.blocks):
            x, cache = block.decode(x, caches[index])
            grown.append(cache)
        return tf.argmax(self.head(x), -1, tf.int32), tf.stack(grown)


def unet() -> keras.Model:
    """A U-Net of three levels for images of 64x64."""
    images = x = keras.Input((64, 64, 3))
    skips = []
    for filters in (16, 32):
        x = _convolutions(x, filters)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = _convolutions(x, 64)
    for filters in (32, 16):
        x = layers.Conv2DTranspose(filters, 2, strides=2)(x)
        x = _convolutions(layers.Concatenate()([x, skips.pop()]), filters)
    return keras.Model(images, layers.Conv2D(4, 1)(x))


def _convolutions(x: Any, filters: int) -> Any:
    for _ in range(2):
        x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
    return x


def recurrent(layer: type[layers.Layer]) -> keras.Model:
    """Two recurrent layers over 32 steps of 64 numbers."""
    return keras.Sequential(
        [
            keras.Input((32, 64)),
            layer(128, return_sequences=True),
            layer(128),
            layers.Dense(10),
        ]
    )


def recommender() -> keras.Model:
    """Embeddings of 8 columns of 20,000 categories each beside 13 numbers, as in DLRM."""
    numbers = keras.Input((13,))
    categories = keras.Input((8,), dtype="int32")
    found = [layers.Dense(16, "relu")(layers.Dense(64, "relu")(numbers))]
    for column in range(8):
        found.append(layers.Embedding(20_000, 16)(categories[:, column]))
    features = keras.ops.stack(found, 1)
    crossed = keras.ops.matmul(features, keras.ops.transpose(features, (0, 2, 1)))
    x = layers.Concatenate()([found[0], layers.Flatten()(crossed)])
    x = layers.Dense(128, "relu")(x)
    return keras.Model([numbers, categories], layers.Dense(10)(x))


def autoencoder() -> tuple[keras.Model, keras.Model]:
    """Encoder and decoder of a VAE of 784 numbers."""
    encoder = keras.Sequential([keras.Input((784,)), layers.Dense(512, "relu"), layers.Dense(64)])
    decoder = keras.Sequential([keras.Input((32,)), layers.Dense(512, "relu"), layers.Dense(784)])
    return encoder, decoder


def adversaries() -> tuple[keras.Model, keras.Model]:
    """Generator and critic of images 28x28."""
    generator = keras.Sequential(
        [
            keras.Input((64,)),
            layers.Dense(7 * 7 * 32, "relu"),
            layers.Reshape((7, 7, 32)),
            layers.Conv2DTranspose(16, 4, 2, "same", activation="relu"),
            layers.Conv2DTranspose(1, 4, 2, "same", activation="tanh"),
        ]
    )
    critic = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(16, 5, 2, "same"),
            layers.LeakyReLU(),
            layers.Conv2D(32, 5, 2, "same"),
            layers.LeakyReLU(),
            layers.Flatten(),
            layers.Dense(1),
        ]
    )
    return generator, critic


def player() -> keras.Model:
    """The values of 6 actions, from four images 84x84."""
    return keras.Sequential(
        [
            keras.Input((84, 84, 4)),
            layers.Conv2D(32, 8, 4, activation="relu"),
            layers.Conv2D(64, 4, 2, activation="relu"),
            layers.Conv2D(64, 3, 1, activation="relu"),
            layers.Flatten(),
            layers.Dense(512, "relu"),
            layers.Dense(6),
        ]
    )


def heat() -> keras.Model:
    """A function of place and time."""
    dense = [layers.Dense(64, "tanh") for _ in range(4)]
    return keras.Sequential([keras.Input((2,)), *dense, layers.Dense(1)])
