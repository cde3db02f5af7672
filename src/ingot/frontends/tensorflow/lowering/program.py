"""What one lowering shares over all its computations.

The captured function, the binding that it follows, the equalities of sizes learnt so far, and the
small scalar computations (reducers) that many instructions call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ingot.frontends.tensorflow.binding import Binding
from ingot.frontends.tensorflow.captured import CapturedFunction, CapturedNode
from ingot.frontends.tensorflow.lowering.sizes import Equalities
from ingot.frontends.tensorflow.lowering.values import Sizes, Variable
from ingot.frontends.tensorflow.random_state import has_random_state
from ingot.hlo.builder import scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import S64, DType
from ingot.hlo.instruction import Metadata

_LARGEST_RANK = 254
"""TensorFlow's."""


@dataclass(slots=True)
class Program:
    """The state of one lowering; made anew for each attempt except the equalities."""

    captured: CapturedFunction
    binding: Binding
    equalities: Equalities
    reducers: dict[tuple[str, str], Computation] = field(
        default_factory=dict[tuple[str, str], Computation]
    )
    random_places: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])

    @property
    def random_state(self) -> Variable | None:
        """The hidden variable of random ops that keep their state in the node, if there are any."""
        inputs = self.captured.inputs
        if not has_random_state(inputs):
            return None
        handle = inputs[-1].handle
        assert handle is not None
        nodes = handle.shape or ()
        return Variable(len(inputs) - 1, S64, tuple(size for size in nodes if size is not None))

    def random_place(self, function: str, node: str) -> int:
        """Return which element of the random state belongs to a node."""
        return self.random_places.setdefault((function, node), len(self.random_places))

    def reducer(self, opcode: str, element: DType) -> Computation:
        """Return the scalar computation of a binary opcode, one per element type."""
        key = (opcode, element.name)
        if key not in self.reducers:
            self.reducers[key] = scalar_computation(opcode, element)
        return self.reducers[key]

    def input_dims(self, index: int, shape: tuple[int | None, ...]) -> Sizes:
        """Return the dimensions of input `index`; each unknown one is a symbol of its own."""
        named = (
            Dim.symbol(_symbol(index, axis)) if size is None else size
            for axis, size in enumerate(shape)
        )
        return self.equalities.simplify(tuple(named))

    def input_name(self, index: int) -> str:
        """Return the name of the user's argument, as HLO may call its parameter."""
        return re.sub(r"[^A-Za-z0-9_.]", "_", self.captured.inputs[index].name)

    def input_metadata(self, index: int) -> Metadata:
        """Return the op and the user's line that decided the sizes of an input, if any did."""
        reasons = self.equalities.reasons
        deciding = (reasons.get(_symbol(index, axis)) for axis in range(_LARGEST_RANK))
        node = next((node for node in deciding if node is not None), None) if reasons else None
        if node is None:
            return Metadata(op_name=self.captured.inputs[index].name)
        return metadata_of(node)


def metadata_of(node: CapturedNode) -> Metadata:
    """Return what HLO instructions say of the node that they come from."""
    place = node.location
    if place is None:
        return Metadata(node.op, node.name)
    return Metadata(node.op, node.name, place.file, place.line)


def _symbol(index: int, axis: int) -> str:
    """Return what an unknown size of input `index` is called."""
    return f"n{index}_{axis}" if axis else f"n{index}"
