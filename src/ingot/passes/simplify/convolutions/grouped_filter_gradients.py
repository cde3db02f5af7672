# SPDX-License-Identifier: Apache-2.0
"""Filter gradients of grouped convolutions with few channels a group: several groups are one.

Products of 4 channels by 4 features fill no register block. Joined groups compute the products of
each one's channels with the others' features too, which are dropped: more work, in whole vectors.
Without this pass gradients of 2 to 4 channels a group take 2.1 to 15 times as long (AVX2, one
thread, 2026-11-28).

Invariant: each result is the sum of the same products.

Example:
    f32[3,3,4,16] convolution(f32[8,64,64,16], f32[8,62,62,16]), batch_group_count=4
    is the blocks on the diagonal of
    f32[3,3,16,16] convolution(f32[8,64,64,16], f32[8,62,62,16]), batch_group_count=1
"""

from __future__ import annotations

import math

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.contraction import ConvolutionAttributes
from ingot.hlo.rewrite.op_pass import expander
from ingot.hlo.window import window_elements
from ingot.passes.simplify.convolutions.canonicalizer import has_known_sizes

MAX_CHANNELS, JOINED_CHANNELS = 4, 16
"""Channels and features of a group at most, and of those that are joined. (2 images of 28x28, 32
groups of 2: 1.6 ms alone, 0.56 for 8 channels, 0.87 for 32; 8 images of 64x64, 4 groups of 4: 8.3
ms, joined 1.7; 2 images of 56x56, 32 groups of 4: 12.3, 9.4; 8 channels each: 2.5 ms, 2.6. AVX-512,
one thread, 2026-11-28.)"""

MIN_PRODUCTS = 1 << 16
"""Products of all sums from which on taking the blocks out pays."""


@expander("grouped-filter-gradients", "convolution")
def grouped_filter_gradients(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Joins groups of filter gradients."""
    joined = _joined_groups(op)
    return op if joined == 1 else _blocks(op, joined, build)


def _joined_groups(op: Instruction) -> int:
    """Return how many groups become one."""
    given, lhs = op.as_(ConvolutionAttributes), op.operands[0]
    groups, labels = given.batch_group_count, given.labels
    if groups == 1 or not has_known_sizes(op):
        return 1
    channels = lhs.shape.static_dims[labels.lhs.index("b")] // groups
    features = op.shape.static_dims[labels.output.index("f")] // groups
    batch = lhs.shape.static_dims[labels.lhs.index("f")]
    products = math.prod(op.shape.static_dims) * window_elements(given.window) * batch
    few = max(channels, features)
    # One channel and one feature cannot be blocked (`depthwise_strips`).
    if few > MAX_CHANNELS or channels == 1 or products < MIN_PRODUCTS:
        return 1
    joined = 1
    while groups % (2 * joined) == 0 and 2 * joined * few <= JOINED_CHANNELS:
        joined *= 2
    return joined


def _blocks(op: Instruction, joined: int, build: Builder) -> Instruction:
    """Return the blocks of groups that are joined: those of each group's own features."""
    given = op.as_(ConvolutionAttributes)
    labels, groups = given.labels, given.batch_group_count // joined
    at = sorted(map(labels.output.index, "bf"))
    dims = op.shape.static_dims
    channels, features = (dims[labels.output.index(letter)] for letter in "bf")
    wide = list(dims)
    wide[labels.output.index("b")] = channels * joined
    made = build.convolution(
        *op.operands,
        shape=op.shape.with_dims(tuple(wide)),
        window=given.window,
        dim_labels=given.dim_labels,
        feature_group_count=given.feature_group_count,
        batch_group_count=groups,
        operand_precision=given.operand_precision,
    )
    split = {
        labels.output.index("b"): (joined, channels),
        labels.output.index("f"): (groups, joined, features // groups // joined),
    }
    parts = [size for number, own in enumerate(wide) for size in split.get(number, (own,))]
    # Where the joined groups are: along channels, and along features.
    of_channels = at[0] if labels.output[at[0]] == "b" else at[1] + 2
    of_features = at[1] + 2 if labels.output[at[0]] == "b" else at[0] + 1
    blocks = build.reshape_to(made, tuple(parts))
    taken: list[Instruction] = []
    for number in range(joined):
        box = [(0, size, 1) for size in parts]
        box[of_channels] = box[of_features] = (number, number + 1, 1)
        taken.append(build.slice(blocks, slice=tuple(box)))
    return build.reshape_to(build.concatenate(*taken, dimensions=(of_features,)), dims)
