# SPDX-License-Identifier: Apache-2.0
"""The value of a single node outside of any lowering: constants, shapes, what is folded of them.

`known_tensors` asks for it while TensorFlow builds a gradient. Sizes that are open there are
symbols of their own.

Invariant: a value is given only if it holds in every call, whatever the symbols are.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.tensorflow.graphs.binding import Binding
from ingot.frontends.tensorflow.graphs.captured import CapturedFunction, CapturedNode
from ingot.frontends.tensorflow.lowering.context.constants import ValueNeededError
from ingot.frontends.tensorflow.lowering.context.frame import Frame, Scope
from ingot.frontends.tensorflow.lowering.context.op import Op
from ingot.frontends.tensorflow.lowering.context.program import Program
from ingot.frontends.tensorflow.lowering.context.sizes import Equalities, SizeLearnedError
from ingot.frontends.tensorflow.lowering.context.values import Known, Sizes, Value
from ingot.frontends.tensorflow.lowering.walk import rules
from ingot.frontends.tensorflow.lowering.walk.fold import FOLDS, fold
from ingot.hlo.dtype import PRED
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import UnsupportedError

SHAPES = frozenset({"Rank", "Shape", "ShapeN", "Size"})
"""Ops whose value follows from the shapes of their inputs."""

FOLDED = frozenset(FOLDS)
"""Ops whose value follows from the values of their inputs."""


class StaticValues:
    """Values of nodes, one at a time."""

    def __init__(self) -> None:
        """Start without any."""
        nothing = CapturedFunction("static", (), (), (), (), (), (), {})
        self._function = nothing
        self._frame = Frame("static", Program(nothing, Binding((), ()), Equalities({})))

    def of_shapes(self, node: CapturedNode, shapes: Sequence[Sizes]) -> list[Known | None]:
        """Return the outputs of one of `SHAPES` for inputs of these shapes."""
        return self._outputs(
            node,
            [
                self._frame.builder.parameter(number, Shape.array(PRED, dims))
                for number, dims in enumerate(shapes)
            ],
        )

    def of_values(self, node: CapturedNode, inputs: Sequence[Known]) -> list[Known | None]:
        """Return the outputs of a constant or of one of `FOLDED`; None for what is not known."""
        return self._outputs(node, inputs)

    def _outputs(self, node: CapturedNode, inputs: Sequence[Value]) -> list[Known | None]:
        scope = Scope(self._function, self._frame, dict(zip(node.inputs, inputs, strict=True)))
        unknown: list[Known | None] = [None] * len(node.outputs)
        try:
            op = Op(node, scope)
            made = fold(op)
            if made is None and node.op in (SHAPES | {"Const"}):
                made = rules.find(node)(op)
        except (UnsupportedError, SizeLearnedError, ValueNeededError):
            return unknown
        if made is None:
            return unknown
        parts = made if isinstance(made, tuple) else (made,)
        return [part if isinstance(part, Known) else None for part in parts]
