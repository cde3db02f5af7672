# SPDX-License-Identifier: Apache-2.0
"""Convolutions that are gradients of filters: which they are, and how their driver takes them.

The gradient of a filter sums over all images and positions: its window is as large as the gradient
that came in, its results are few. The driver (`kernel.convolution.filter_gradient`) takes the image
and the gradient as images with channels last lie, and gives the filter with features last. Groups
of batches are groups of its channels and features; where they have one feature each, as those of
depthwise filters, the gradient runs in loops along the features.

Invariant: what `is_of_filter` says depends on sizes that are numbers; the batch may be symbolic.
"""

from __future__ import annotations

from ingot.hlo.dim import Dim, product
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.contraction import ConvolutionAttributes, ConvolutionLabels
from ingot.hlo.window import window_elements

MIN_CHANNELS = 8
"""Channels from which on the driver pays: with 3 and 6 channels and 4 to 256 images its sums took
1.2 to 1.6 of the time of a convolution that has the images as channels. Of depthwise filters it
took 0.05 to 0.9 of the time, of groups 0.6 to 0.7 (AVX-512, one thread, 2026-11-28)."""

MIN_CHANNELS_OF_ANY_BATCH = 3
"""The same where the batch has a symbolic size, so that images cannot be channels of a direct sum:
from 3 to 6 channels on it took 0.3 (7x7) to 1.0 of the time of patches, with one 1.7."""


def filter_labels(rank: int) -> ConvolutionLabels:
    """Return the labels that the driver takes, for `rank` spatial dimensions."""
    digits = "".join(map(str, range(rank)))
    return ConvolutionLabels(f"f{digits}b", f"i{digits}o", f"{digits}bf")


def has_enough_channels(channels: int, batch: int | Dim) -> bool:
    """Whether the driver pays for these numbers of channels and images."""
    return channels >= (MIN_CHANNELS if isinstance(batch, int) else MIN_CHANNELS_OF_ANY_BATCH)


def is_of_filter(convolution: Instruction) -> bool:
    """Whether a convolution is the gradient of a filter of enough channels.

    It sums over more positions than it has results. If its features lie last it stays as it is.
    """
    given = convolution.as_(ConvolutionAttributes)
    labels, dims = given.labels, convolution.shape.dims
    if given.feature_group_count != 1 or labels.lhs[-1] == "f":
        return False
    results = product(dims[labels.output.index(str(n))] for n, _ in enumerate(given.window))
    channels = convolution.operands[0].shape.dims[labels.lhs.index("b")]
    if not isinstance(results, int) or not isinstance(channels, int):
        return False
    batch = convolution.operands[0].shape.dims[labels.lhs.index("f")]
    return has_enough_channels(channels, batch) and window_elements(given.window) > results
