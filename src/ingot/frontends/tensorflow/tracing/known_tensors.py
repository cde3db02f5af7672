# SPDX-License-Identifier: Apache-2.0
"""Tensors of graphs that are known while TensorFlow traces: constants, static shapes, and so on.

A backward function takes the intermediates of its forward function as inputs, among them shapes,
axes and permutations that decide its structure. Most follow from static shapes and constants of
the graph that they come from, through as many functions as they were handed through.

Invariant: what is found is true of every call, since it depends on no argument.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ingot.frontends.tensorflow.api.modules import ops
from ingot.frontends.tensorflow.graphs.capture import capture_operation
from ingot.frontends.tensorflow.lowering.context.values import Known, Sizes
from ingot.frontends.tensorflow.lowering.walk.static import FOLDED, SHAPES, StaticValues
from ingot.hlo.dim import Dim

_DESCENDED = FOLDED | SHAPES | {"Const", "Placeholder"}


class KnownTensors:
    """Values of tensors of graphs, each found once."""

    def __init__(self) -> None:
        self._static = StaticValues()
        self._values: dict[int, Known | None] = {}
        self._tensors: list[Any] = []
        self._captures: dict[int, dict[int, Any]] = {}

    def value(self, tensor: Any) -> np.ndarray | None:
        """Return the value of an integer or bool tensor if it is known."""
        if not (tensor.dtype.is_integer or tensor.dtype.is_bool):
            return None
        known = self._found(tensor)
        return None if known is None or known.is_symbolic else known.array

    def _found(self, tensor: Any) -> Known | None:
        """Return what is known of a tensor; a walk without recursion."""
        stack = [tensor]
        while stack:
            current = stack[-1]
            if id(current) in self._values:
                stack.pop()
                continue
            needed = self._needed(current)
            missing = [item for item in needed if id(item) not in self._values]
            if missing:
                stack.extend(missing)
                continue
            self._note(current, needed)
        return self._values[id(tensor)]

    def _needed(self, tensor: Any) -> list[Any]:
        """Return the tensors whose values decide this one."""
        if isinstance(tensor, ops.EagerTensor) or tensor.op.type not in FOLDED | {"Placeholder"}:
            return []
        if tensor.op.type != "Placeholder":
            return list(tensor.op.inputs)
        outer = self._outer(tensor)
        return [] if outer is None else [outer]

    def _outer(self, placeholder: Any) -> Any:
        """Return what a function's input was captured from, or None for an argument."""
        graph = placeholder.graph
        if id(graph) not in self._captures:
            pairs: Iterable[Any] = getattr(graph, "captures", ())
            self._captures[id(graph)] = {id(inner): outer for outer, inner in pairs}
        return self._captures[id(graph)].get(id(placeholder))

    def _note(self, tensor: Any, needed: list[Any]) -> None:
        values = [self._values[id(item)] for item in needed]
        # The ids stay theirs as long as the tensors live.
        self._tensors.append(tensor)
        self._values[id(tensor)] = None
        if isinstance(tensor, ops.EagerTensor) or tensor.op.type not in _DESCENDED:
            return
        if tensor.op.type == "Placeholder":
            self._values[id(tensor)] = values[0] if values else None
            return
        for output, known in zip(tensor.op.outputs, self._outputs(tensor.op, values), strict=True):
            self._tensors.append(output)
            self._values[id(output)] = known

    def _outputs(self, operation: Any, values: list[Known | None]) -> list[Known | None]:
        unknown: list[Known | None] = [None] * len(operation.outputs)
        if operation.type in SHAPES:
            shapes = [self._dims(item) for item in operation.inputs]
            known_shapes = [dims for dims in shapes if dims is not None]
            if len(known_shapes) != len(shapes):
                return unknown
            return self._static.of_shapes(capture_operation(operation), known_shapes)
        known = [item for item in values if item is not None]
        if len(known) != len(values):
            return unknown
        return self._static.of_values(capture_operation(operation), known)

    def _dims(self, tensor: Any) -> Sizes | None:
        """Return a tensor's sizes, an open one as a symbol; None for an unknown rank."""
        if tensor.shape.rank is None:
            return None
        self._tensors.append(tensor)
        return tuple(
            Dim.symbol(f"t{id(tensor)}_{axis}") if size is None else size
            for axis, size in enumerate(tensor.shape.as_list())
        )
