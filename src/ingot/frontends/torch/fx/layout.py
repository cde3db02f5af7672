# SPDX-License-Identifier: Apache-2.0
"""The layout of a tensor in memory, and the array that a compiled program sees there.

A program takes and returns dense row-major arrays. A tensor whose dimensions are only in another
order (channels last, a transposed weight) is such an array with its dimensions permuted, and a
tensor that repeats its elements (`expand`) is a smaller array: neither is copied.

Invariant: `MemoryLayout.of` never takes gaps for elements; a tensor with gaps has no `order`.

Example:
    >>> channels_last = MemoryLayout.of((2, 3, 4, 4), (48, 1, 12, 3))
    >>> channels_last.order, channels_last.array_dims
    ((0, 2, 3, 1), (2, 4, 4, 3))
"""

from __future__ import annotations

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.frontends.torch.fx.nodes import Node
from ingot.frontends.torch.fx.sizes import Size, Sizes, sizes_of
from ingot.hlo.instruction import Instruction
from ingot.support.records import record


@record
class MemoryLayout:
    """Sizes and strides of a tensor.

    Attributes:
        sizes: the dimensions of the tensor.
        strides: elements from one index of each dimension to the next.
        order: the dimensions from the outermost in memory to the innermost, without those that
            repeat; None if there are gaps or elements overlap.
    """

    sizes: Sizes
    strides: Sizes
    order: tuple[int, ...] | None

    @staticmethod
    def of(sizes: Sizes, strides: Sizes) -> MemoryLayout:
        """Return the layout of a tensor."""
        return MemoryLayout(sizes, strides, _order(sizes, strides))

    @property
    def array_dims(self) -> Sizes:
        """The dimensions of the dense row-major array in memory; the tensor's own if copied."""
        return self.sizes if self.order is None else tuple(self.sizes[axis] for axis in self.order)

    @property
    def repeats(self) -> tuple[int, ...]:
        """The dimensions along which elements are repeated."""
        if self.order is None:
            return ()
        return tuple(axis for axis in range(len(self.sizes)) if axis not in self.order)

    @property
    def is_plain(self) -> bool:
        """Whether the array in memory is the tensor itself."""
        return self.order == tuple(range(len(self.sizes)))

    def tensor_of(self, b: ArrayBuilder, array: Instruction) -> Instruction:
        """Return the tensor, given the array in memory."""
        if self.order is None or self.is_plain:
            return array
        kept = sorted(self.order)
        tensor = b.transposed(array, [self.order.index(axis) for axis in kept])
        return b.spread(tensor, self.sizes, tuple(kept))

    def array_of(self, b: ArrayBuilder, tensor: Instruction) -> Instruction:
        """Return the array to store, given the tensor."""
        if self.order is None or self.is_plain:
            return tensor
        for axis in self.repeats:
            tensor = b.sliced(tensor, axis, 0, 1)
        kept = sorted(self.order)
        narrow = b.reshape_to(tensor, tuple(self.sizes[axis] for axis in kept))
        return b.transposed(narrow, [kept.index(axis) for axis in self.order])


def layout_of(node: Node) -> MemoryLayout:
    """Return the layout of a node's tensor."""
    value = node.meta["val"]
    return MemoryLayout.of(sizes_of(value.shape), sizes_of(value.stride()))


def _order(sizes: Sizes, strides: Sizes) -> tuple[int, ...] | None:
    """Return the dimensions that do not repeat, outermost first; None if they leave gaps."""
    natural = tuple(range(len(sizes)))
    if any(size == 0 for size in sizes):
        return natural
    repeats = [axis for axis in natural if strides[axis] == 0 and sizes[axis] != 1]
    ones = [axis for axis in natural if sizes[axis] == 1]
    open_axes = [axis for axis in natural if axis not in repeats and axis not in ones]
    expected: Size = 1
    inner: list[int] = []
    while open_axes:
        # The last of several candidates, so that a dense tensor has its natural order.
        axis = next((axis for axis in reversed(open_axes) if strides[axis] == expected), None)
        if axis is None:
            return None
        open_axes.remove(axis)
        inner.insert(0, axis)
        expected = expected * sizes[axis]
    if not repeats and inner == sorted(inner):
        return natural
    return (*ones, *inner)
