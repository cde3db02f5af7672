# SPDX-License-Identifier: Apache-2.0
"""What convolutions and pools share: data formats, strides and padding of an op's node.

Invariant: spatial dimensions stand in the tensor's own order; all tuples are per spatial dimension.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.tensorflow.lowering.context.op import Op
from ingot.frontends.tensorflow.lowering.context.values import Size, Sizes
from ingot.semantics.assertions import emit_assertion
from ingot.support.records import record


@record
class Layout:
    """Where batch, channels and space stand in an image tensor of `rank`."""

    rank: int
    channels_first: bool

    @staticmethod
    def of(op: Op, rank: int) -> Layout:
        """Read the node's data format."""
        text = str(op.attribute("data_format", "NHWC"))
        return Layout(rank, text.startswith("NC") or text == "CHANNELS_FIRST")

    @property
    def channel(self) -> int:
        """The dimension of the channels."""
        return 1 if self.channels_first else self.rank - 1

    @property
    def spatial(self) -> tuple[int, ...]:
        """The dimensions of the image's space."""
        first = 2 if self.channels_first else 1
        return tuple(range(first, first + self.rank - 2))

    def labels(self, batch: str, channel: str) -> str:
        """Return HLO dimension labels, with these letters for batch and channel."""
        digits = "".join(str(number) for number in range(self.rank - 2))
        return batch + (channel + digits if self.channels_first else digits + channel)

    def sizes(self, dims: Sizes) -> Sizes:
        """Return the spatial sizes of a tensor."""
        return tuple(dims[axis] for axis in self.spatial)

    def pick(self, op: Op, name: str) -> tuple[int, ...]:
        """Return the spatial part of an attribute that has one number per dimension."""
        values = positive(op, name, op.attribute(name, ()))
        if len(values) == self.rank:
            if any(values[axis] != 1 for axis in (0, self.channel)):
                raise op.error(
                    f"Current implementation does not yet support {name} in the batch and depth "
                    "dimensions."
                )
            return tuple(values[axis] for axis in self.spatial)
        return values or (1,) * (self.rank - 2)


def positive(op: Op, name: str, values: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes, strides or rates of a window; what is not positive is refused."""
    for axis, value in enumerate(values):
        if value <= 0:
            raise op.mistake(
                f"Sliding window {name} field for dimension {axis} must be positive but is {value}"
            )
    return tuple(map(int, values))


def unlike(given: Sizes, wanted: Sizes) -> bool:
    """Whether sizes are known not to be the wanted ones."""
    return len(given) != len(wanted) or any(
        isinstance(have, int) and isinstance(want, int) and have != want
        for have, want in zip(given, wanted, strict=True)
    )


def paddings(
    op: Op,
    layout: Layout,
    sizes: Sizes,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> tuple[tuple[int, int], ...]:
    """Return (before, after) of each spatial dimension, as the node's padding says."""
    kind = str(op.attribute("padding"))
    if kind == "VALID":
        return ((0, 0),) * len(kernel)
    if kind == "EXPLICIT":
        flat = [int(value) for value in op.attribute("explicit_paddings")]
        if min(flat) < 0:
            raise op.mistake("All elements of explicit_paddings must be nonnegative")
        pairs = list(zip(flat[::2], flat[1::2], strict=True))
        return tuple(pairs[axis] for axis in layout.spatial)
    found: list[tuple[int, int]] = []
    for size, taps, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        reach = (taps - 1) * dilation + 1
        total = _same_padding(op, size, reach, stride)
        found.append((total // 2, total - total // 2))
    return tuple(found)


def check_windows(
    op: Op,
    sizes: Sizes,
    reach: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
) -> None:
    """Let the program fail where TensorFlow's kernels do: an image is much smaller than a window.

    They take the rounded quotient `(size + pads - reach + stride) / stride` for the number of
    windows, and refuse it where it is negative. So an image that is less than two strides too small
    has no window and is no error.

    Args:
        op: the node.
        sizes: of the image.
        reach: of the window, with the gaps between its taps.
        strides: between windows.
        pads: before and after the image.
    """
    text = "Computed output size would be negative"
    for size, span, stride, pad in zip(sizes, reach, strides, pads, strict=True):
        least = span - sum(pad) - 2 * stride + 1
        facts = f"[input_size: {size}, effective_filter_size: {span}, stride: {stride}]"
        if least <= 0:
            continue
        if not isinstance(size, int) and op.b.program.is_computed((size,)):
            enough = op.b.compared("GE", op.b.size(size), least)
            emit_assertion(op.b, enough, f"{text} {facts}")
        elif isinstance(size, int) and size < least:
            count = -((span - sum(pad) - stride - size) // stride)
            raise op.error(f"{text}: {count} {facts}", "give it larger images, or padding SAME")


def _same_padding(op: Op, size: Size, reach: int, stride: int) -> int:
    if stride == 1:
        return reach - 1
    if not isinstance(size, int):
        raise op.error(
            "padding SAME with a stride needs image sizes that are known at compile time",
            "fix height and width in the input signature; only the batch may be open",
        )
    windows = -(-size // stride)
    return max((windows - 1) * stride + reach - size, 0)


def whole_paddings(
    op: Op, sizes: Sizes, kernel: Sequence[int], strides: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """Return (before, after) of every dimension, for a window that has a number for each."""
    everywhere = Layout(len(sizes) + 2, channels_first=True)
    if str(op.attribute("padding")) == "EXPLICIT":
        flat = [int(value) for value in op.attribute("explicit_paddings")]
        pairs = tuple(zip(flat[::2], flat[1::2], strict=True))
        for taps, pair in zip(kernel, pairs, strict=True):
            for side, size in zip(("Left", "Right"), pair, strict=True):
                if size >= taps and size:
                    raise op.error(
                        f"{side} padding {size} needs to be smaller than the window size {taps}"
                    )
        return pairs
    return paddings(op, everywhere, sizes, kernel, strides, (1,) * len(kernel))
