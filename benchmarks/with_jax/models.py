# SPDX-License-Identifier: Apache-2.0
"""Models in plain JAX, as users write them: pytrees of parameters, losses, training steps.

Everything is a pure function of arrays; nothing here knows who runs it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

RATE = 0.01


def cross_entropy(logits, labels):
    """Mean cross-entropy of class numbers."""
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1)
    return -jnp.mean(chosen)


def training_step(loss):
    """Return `step(parameters, *data)`: the loss, and parameters after gradient descent."""

    def step(parameters, *data):
        value, gradients = jax.value_and_grad(loss)(parameters, *data)
        return value, jax.tree.map(lambda p, g: p - RATE * g, parameters, gradients)

    return step


def mlp(parameters, images):
    """Return logits of a network whose layers are (weights, bias)."""
    *hidden, (weights, bias) = parameters
    for layer, offset in hidden:
        images = jax.nn.relu(images @ layer + offset)
    return images @ weights + bias


def mlp_loss(parameters, images, labels):
    """Mean cross-entropy of the MLP."""
    return cross_entropy(mlp(parameters, images), labels)


# ResNet-18 (He et al. 2015), NHWC.

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Channels of each stage's two blocks, and the stride of the first one."""


def convolve(images, kernel, stride=1):
    """Convolve with SAME padding."""
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(
        images, kernel, (stride, stride), "SAME", dimension_numbers=numbers
    )


def normalize(images, norm, train):
    """Batch normalization, by the batch's moments or by kept ones."""
    if train:
        mean = jnp.mean(images, (0, 1, 2))
        variance = jnp.var(images, (0, 1, 2))
    else:
        mean, variance = norm["mean"], norm["variance"]
    scale = norm["scale"] * lax.rsqrt(variance + 1e-5)
    return (images - mean) * scale + norm["bias"]


def residual_block(block, images, stride, train):
    """Two convolutions beside a shortcut."""
    out = convolve(images, block["first"], stride)
    out = jax.nn.relu(normalize(out, block["first_norm"], train))
    out = normalize(convolve(out, block["second"]), block["second_norm"], train)
    if "shortcut" in block:
        images = normalize(
            convolve(images, block["shortcut"], stride), block["shortcut_norm"], train
        )
    return jax.nn.relu(out + images)


def resnet(parameters, images, *, train=False):
    """Return logits."""
    out = convolve(images, parameters["stem"], 2)
    out = jax.nn.relu(normalize(out, parameters["stem_norm"], train))
    out = lax.reduce_window(out, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    for (_, stride), blocks in zip(STAGES, parameters["stages"], strict=True):
        for number, block in enumerate(blocks):
            out = residual_block(block, out, 1 if number else stride, train)
    return jnp.mean(out, (1, 2)) @ parameters["head"] + parameters["bias"]


def resnet_loss(parameters, images, labels):
    """Mean cross-entropy of ResNet-18 in training."""
    return cross_entropy(resnet(parameters, images, train=True), labels)


def resnet_parameters(make):
    """Return ResNet-18's parameters; `make(shape, scale)` gives normal numbers."""

    def kernel(size, inputs, outputs):
        return make((size, size, inputs, outputs), (2 / (size * size * inputs)) ** 0.5)

    def norm(size):
        return {
            "scale": 1 + make((size,), 0.1),
            "bias": make((size,), 0.1),
            "mean": make((size,), 0.1),
            "variance": 1 + make((size,), 0.1) ** 2,
        }

    stages = []
    inputs = 64
    for outputs, stride in STAGES:
        blocks = []
        for number in range(2):
            block = {
                "first": kernel(3, inputs, outputs),
                "first_norm": norm(outputs),
                "second": kernel(3, outputs, outputs),
                "second_norm": norm(outputs),
            }
            if number == 0 and stride > 1:
                block["shortcut"] = kernel(1, inputs, outputs)
                block["shortcut_norm"] = norm(outputs)
            blocks.append(block)
            inputs = outputs
        stages.append(blocks)
    return {
        "stem": kernel(7, 3, 64),
        "stem_norm": norm(64),
        "stages": stages,
        "head": make((512, 10), 512**-0.5),
        "bias": make((10,), 0.1),
    }


# A GPT (Radford et al. 2019): pre-norm blocks, learned positions, tied embedding.

HEADS = 4


def layer_norm(x, scale, bias):
    """Rows to mean 0 and variance 1, scaled and moved."""
    mean = jnp.mean(x, -1, keepdims=True)
    variance = jnp.var(x, -1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + bias


def split_heads(x):
    """Return f32[..., heads, positions, head size] of f32[..., positions, size]."""
    *batch, positions, size = x.shape
    return jnp.moveaxis(x.reshape(*batch, positions, HEADS, size // HEADS), -2, -3)


def attend(query, keys, values, mask):
    """Return softmax(query keys^T) values, heads joined again."""
    scores = jnp.einsum("...qd,...kd->...qk", query, keys) * query.shape[-1] ** -0.5
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    out = jnp.moveaxis(jnp.einsum("...qk,...kd->...qd", weights, values), -3, -2)
    return out.reshape(*out.shape[:-2], -1)


def feed_forward(block, x):
    """Two layers with GELU between."""
    hidden = layer_norm(x, *block["second_norm"]) @ block["wide"] + block["wide_bias"]
    return x + jax.nn.gelu(hidden) @ block["narrow"] + block["narrow_bias"]


def gpt(parameters, tokens):
    """Return logits f32[batch, positions, words]."""
    positions = tokens.shape[-1]
    x = parameters["words"][tokens] + parameters["positions"][:positions]
    mask = jnp.tril(jnp.ones((positions, positions), bool))
    for block in parameters["blocks"]:
        mixed = layer_norm(x, *block["first_norm"]) @ block["mix"] + block["mix_bias"]
        query, keys, values = map(split_heads, jnp.split(mixed, 3, axis=-1))
        x = x + attend(query, keys, values, mask) @ block["out"] + block["out_bias"]
        x = feed_forward(block, x)
    return layer_norm(x, *parameters["norm"]) @ parameters["words"].T


def gpt_loss(parameters, tokens):
    """Mean cross-entropy of the next token."""
    return cross_entropy(gpt(parameters, tokens[:, :-1]), tokens[:, 1:])


def gpt_decode(parameters, caches, token, position):
    """One token of one sequence: logits, and caches (keys, values) with it written in."""
    x = parameters["words"][token] + parameters["positions"][position]
    x = x[None]
    mask = jnp.arange(caches[0][0].shape[1]) <= position
    kept = []
    for block, (keys, values) in zip(parameters["blocks"], caches, strict=True):
        mixed = layer_norm(x, *block["first_norm"]) @ block["mix"] + block["mix_bias"]
        query, key, value = map(split_heads, jnp.split(mixed, 3, axis=-1))
        keys = lax.dynamic_update_slice(keys, key, (0, position, 0))
        values = lax.dynamic_update_slice(values, value, (0, position, 0))
        x = x + attend(query, keys, values, mask) @ block["out"] + block["out_bias"]
        x = feed_forward(block, x)
        kept.append((keys, values))
    return (layer_norm(x, *parameters["norm"]) @ parameters["words"].T)[0], kept


def gpt_parameters(make, *, words, positions, size, layers):
    """Return a GPT's parameters; `make(shape, scale)` gives normal numbers."""

    def norm():
        return (1 + make((size,), 0.1), make((size,), 0.1))

    def block():
        return {
            "first_norm": norm(),
            "mix": make((size, 3 * size), size**-0.5),
            "mix_bias": make((3 * size,), 0.1),
            "out": make((size, size), size**-0.5),
            "out_bias": make((size,), 0.1),
            "second_norm": norm(),
            "wide": make((size, 4 * size), size**-0.5),
            "wide_bias": make((4 * size,), 0.1),
            "narrow": make((4 * size, size), (4 * size) ** -0.5),
            "narrow_bias": make((size,), 0.1),
        }

    return {
        "words": make((words, size), 0.1),
        "positions": make((positions, size), 0.1),
        "blocks": [block() for _ in range(layers)],
        "norm": norm(),
    }


def lstm_loss(parameters, sequence, target):
    """Mean squared error of an LSTM's last state, by `lax.scan` over f32[time, batch, size]."""
    inner, outer, bias = parameters

    def cell(state, x):
        hidden, memory = state
        gates = x @ inner + hidden @ outer + bias
        enter, forget, candidate, leave = jnp.split(gates, 4, axis=-1)
        memory = jax.nn.sigmoid(forget) * memory + jax.nn.sigmoid(enter) * jnp.tanh(candidate)
        return (jax.nn.sigmoid(leave) * jnp.tanh(memory), memory), None

    zero = jnp.zeros((sequence.shape[1], outer.shape[0]))
    (hidden, _), _ = lax.scan(cell, (zero, zero), sequence)
    return jnp.mean((hidden - target) ** 2)


# A layer of a mixture of experts, each token to two of them (Shazeer et al. 2017).

CHOSEN = 2
"""Experts of each token."""


def mixture(parameters, tokens):
    """Return what the chosen experts make of each token, tokens of an expert side by side."""
    gate, up, down = parameters
    weights, experts = lax.top_k(jax.nn.softmax(tokens @ gate), CHOSEN)
    order = jnp.argsort(experts.reshape(-1))
    rows = tokens[order // CHOSEN]
    sizes = jnp.bincount(experts.reshape(-1), length=up.shape[0])
    made = lax.ragged_dot(jax.nn.gelu(lax.ragged_dot(rows, up, sizes)), down, sizes)
    made = made * weights.reshape(-1)[order][:, None]
    return jax.ops.segment_sum(made, order // CHOSEN, tokens.shape[0])


def mixture_loss(parameters, tokens, wanted):
    """Mean squared difference of the layer's output."""
    return jnp.mean((mixture(parameters, tokens) - wanted) ** 2)
