"""What one lowering shares over all its computations.

The captured function, the binding that it follows, the equalities of sizes learnt so far, and the
small scalar computations (reducers) that many instructions call.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ingot.frontends.tensorflow.binding import Binding
from ingot.frontends.tensorflow.captured import CapturedFunction
from ingot.frontends.tensorflow.lowering.sizes import Equalities
from ingot.frontends.tensorflow.lowering.values import Sizes
from ingot.hlo.builder import scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import DType


@dataclass(slots=True)
class Program:
    """The state of one lowering; made anew for each attempt except the equalities."""

    captured: CapturedFunction
    binding: Binding
    equalities: Equalities
    reducers: dict[tuple[str, str], Computation] = field(
        default_factory=dict[tuple[str, str], Computation]
    )

    def reducer(self, opcode: str, element: DType) -> Computation:
        """Return the scalar computation of a binary opcode, one per element type."""
        key = (opcode, element.name)
        if key not in self.reducers:
            self.reducers[key] = scalar_computation(opcode, element)
        return self.reducers[key]

    def input_dims(self, index: int, shape: tuple[int | None, ...]) -> Sizes:
        """Return the dimensions of input `index`; each unknown one is a symbol of its own."""
        named = (
            Dim.symbol(f"n{index}" if axis == 0 else f"n{index}_{axis}") if size is None else size
            for axis, size in enumerate(shape)
        )
        return self.equalities.simplify(tuple(named))
