# SPDX-License-Identifier: Apache-2.0
"""`GraphBuilder`: an `ArrayBuilder` that knows the run-time values of named sizes.

Invariant: a computation can only use its operand, so each builder has sizes of its own.
"""

from __future__ import annotations

from ingot.frontends.building.arrays import (
    ArrayBuilder,
    Reducers,
    Size,
    SizeSource,
    no_symbol,
)
from ingot.hlo.dim import symbols_of
from ingot.hlo.instruction import Instruction
from ingot.support.diagnostics import UnsupportedError


class GraphBuilder(ArrayBuilder):
    """Builds one computation.

    Attributes:
        sizes: the named sizes that are known in it, as `s64[]`; floats of PyTorch as `f64[]`.
        numbers: those that are not a dimension of any array; shapes and bounds cannot name them.
    """

    def __init__(
        self, name: str, symbol: SizeSource = no_symbol, reducers: Reducers | None = None
    ) -> None:
        """Build `name`; other builders of the program share `reducers`."""
        del symbol
        super().__init__(name, self._known_size, {} if reducers is None else reducers)
        self.sizes: dict[str, Instruction] = {}
        self.numbers: set[str] = set()

    def names_number(self, size: Size) -> bool:
        """Whether a size contains a number that is not a dimension of any array."""
        return not isinstance(size, int) and not self.numbers.isdisjoint(symbols_of((size,)))

    def window(self, x: Instruction, axis: int, start: Instruction, size: Size) -> Instruction:
        """Return `size` elements along an axis, from an index that is known at run time."""
        dims = x.shape.dims
        zero = self.constant(0, start.shape.dtype)
        starts = [start if dim == axis else zero for dim in range(len(dims))]
        sizes = (*dims[:axis], size, *dims[axis + 1 :])
        return self.emit("dynamic-slice", x, *starts, dynamic_slice_sizes=sizes)

    def _known_size(self, name: str) -> Instruction:
        if name not in self.sizes:
            raise UnsupportedError(f"the size {name} is not known", code="INGOT0371")
        return self.sizes[name]
