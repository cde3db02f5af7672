# SPDX-License-Identifier: Apache-2.0
"""Windows: how a box slides over dimensions, for windowed reductions and convolutions.

A window is one `WindowDimension` per dimension. `base_dilation` dilates the operand (HLO text
`lhs_dilate`), `window_dilation` the window (`rhs_dilate`).

Source: xla/xla_data.proto (WindowDimension).

Example:
    >>> WindowDimension(3, low=1, high=1).count(8)
    8
"""

from __future__ import annotations

import math
from typing import overload

from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.support.records import record


@record
class WindowDimension:
    """One dimension of a window.

    Attributes:
        size: elements of the window.
        stride: distance between neighbouring windows.
        low: padding before the operand, may be negative.
        high: padding after the operand, may be negative.
        base_dilation: distance between neighbouring operand elements.
        window_dilation: distance between neighbouring window elements.
        reversal: whether the window is read backwards.
    """

    size: int
    stride: int = 1
    low: int = 0
    high: int = 0
    base_dilation: int = 1
    window_dilation: int = 1
    reversal: bool = False

    @property
    def is_padded(self) -> bool:
        """Whether windows may reach beyond the operand."""
        return self.low > 0 or self.high > 0

    @property
    def extent(self) -> int:
        """Positions from the first element of the window to its last one."""
        return (self.size - 1) * self.window_dilation + 1

    def reach(self, results: int) -> int:
        """Return how many positions of the padded operand `results` neighbouring windows read."""
        return (results - 1) * self.stride + self.extent

    @overload
    def spread(self, size: int) -> int: ...

    @overload
    def spread(self, size: int | Dim) -> int | Dim: ...

    def spread(self, size: int | Dim) -> int | Dim:
        """Return the positions of `size` elements of the operand with the gaps between them."""
        return size if self.base_dilation == 1 or size == 0 else (size - 1) * self.base_dilation + 1

    def count(self, size: int | Dim) -> int | Dim:
        """Return how many windows fit over an operand dimension of `size`.

        A symbolic size is taken to be large enough for one window.
        """
        room = self.spread(size) + self.low + self.high - self.extent
        found = dim.canonical_floordiv(room, self.stride) + 1
        return max(found, 0) if isinstance(found, int) else found


Window = tuple[WindowDimension, ...]


def window_elements(window: Window) -> int:
    """Return the number of elements of a window."""
    return math.prod(one.size for one in window)
