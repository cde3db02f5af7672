# SPDX-License-Identifier: Apache-2.0
"""What the bridge captured of a TensorFlow function, as plain Python and NumPy values.

This is the border between TensorFlow and the lowering: `capture` writes these records, `lowering`
reads them, and nothing here (or after it) touches a TensorFlow object or a proto.

Types are TensorFlow's names (`"float32"`, `"int64"`, `"bool"`, `"resource"`, `"variant"`,
`"string"`); a shape is a tuple whose unknown sizes are None, or None when even the rank is unknown.

Invariants of a `CapturedFunction`:

* `nodes` is in topological order of data and control inputs, and holds no function inputs: a
  `TensorRef` names either an earlier node or an input (`CapturedInput.name`, output 0).
* Resources are read and written in the order of `nodes` (TensorFlow's automatic control
  dependencies are part of the order), so that one walk over the nodes sees every effect in order.
* Every `FunctionRef` among the attributes is a key of `library`, bodies of loops and branches
  included. One library is shared by a function and all that it calls.

How the ops with bodies call them (inputs and outputs match by position):

* `PartitionedCall`, `StatefulPartitionedCall`: `f` takes all inputs, gives all outputs.
* `SymbolicGradient`: `f`, made by `capture`, takes all inputs, gives all outputs.
* `If`, `StatelessIf`: `then_branch`, `else_branch` take `inputs[1:]`; `inputs[0]` is the condition.
* `Case`, `StatelessCase`: `branches` take `inputs[1:]`; `inputs[0]` is the index.
* `While`, `StatelessWhile`: `cond` and `body` take all inputs; `cond` gives one output.
  A resource or variant that a body only hands through is its own input again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ingot.support.diagnostics import SourceLocation
from ingot.support.records import record

Shape = tuple[int | None, ...] | None
"""Sizes with None for an unknown one, or None for an unknown rank."""


class TensorRef(NamedTuple):
    """Output `output` of the node, or the function input, called `node`."""

    node: str
    output: int = 0


@record
class TensorType:
    """Element type (TensorFlow's name) and static shape of one tensor."""

    dtype: str
    shape: Shape


@record
class FunctionRef:
    """An attribute that names a function of the library."""

    name: str


@record
class TypeName:
    """An attribute that is an element type, by TensorFlow's name."""

    name: str


@record
class PartialShape:
    """An attribute that is a shape."""

    shape: Shape


Attribute = (
    bool
    | int
    | float
    | str
    | bytes
    | np.ndarray
    | TypeName
    | PartialShape
    | FunctionRef
    | tuple["Attribute", ...]
)
"""A node's attribute. Text that is valid UTF-8 is `str`; tensors are NumPy arrays."""


@record
class CapturedInput:
    """One input of a function, captures included.

    Attributes:
        name: what `TensorRef.node` calls it.
        type: its own type; a variable's is `("resource", ())`.
        handle: for a resource, the variable's value type; for a TensorList (variant), the type of
            one element. None if TensorFlow does not know it or it is something else. For a list of
            lists, an element is a stacked inner list.
        of_lists: whether this is a list of lists.
        is_shaped: whether TensorFlow knew less of its shape than `type` says.
    """

    name: str
    type: TensorType
    handle: TensorType | None = None
    of_lists: bool = False
    is_shaped: bool = False

    @property
    def is_variable(self) -> bool:
        """Whether this is a resource that holds a tensor."""
        return self.type.dtype == "resource" and self.handle is not None

    @property
    def parameter_shape(self) -> Shape:
        """The static shape of the parameter for this input: a list has its length in front."""
        if self.handle is None:
            return self.type.shape
        shape = self.handle.shape
        return (None, *shape) if self.type.dtype == "variant" and shape is not None else shape


@record
class CapturedNode:
    """One op of the graph.

    Attributes:
        name: the node's name, unique in its function.
        op: TensorFlow's op type, `"MatMul"`.
        inputs: data inputs in the op's own order.
        control_inputs: names of nodes that must have run before.
        attributes: by name; those that only TensorFlow's runtime reads are left out.
        outputs: static type of each output, as TensorFlow inferred it.
        location: the user's file and line that made the node, if known.
    """

    name: str
    op: str
    inputs: tuple[TensorRef, ...]
    control_inputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    outputs: tuple[TensorType, ...]
    location: SourceLocation | None = None


@record
class CapturedFunction:
    """A function's graph: inputs, nodes in order, outputs, and the functions that it calls.

    `output_handles` says what outputs that are resources or lists stand for; `control_outputs`
    names the nodes that must run although no output needs them; `lists_of_lists` says which outputs
    are such; `shown` how many of the outputs, the first ones, are the user's: the others are what a
    gradient takes.
    """

    name: str
    inputs: tuple[CapturedInput, ...]
    nodes: tuple[CapturedNode, ...]
    outputs: tuple[TensorRef, ...]
    output_types: tuple[TensorType, ...]
    output_handles: tuple[TensorType | None, ...]
    control_outputs: tuple[str, ...]
    library: Mapping[str, CapturedFunction]
    lists_of_lists: frozenset[int] = frozenset()
    shown: int = 0

    def knows_rank(self, ref: TensorRef) -> bool:
        """Whether TensorFlow knew the rank of a tensor when it made the nodes that take it."""
        for item in self.inputs:
            if item.name == ref.node:
                return item.type.shape is not None and not item.is_shaped
        made = next(node for node in self.nodes if node.name == ref.node)
        return made.outputs[ref.output].shape is not None

    def without_shapes(self) -> CapturedFunction:
        """Return this function without what TensorFlow inferred from the shapes of its inputs."""
        library: dict[str, CapturedFunction] = {}
        for name, item in self.library.items():
            library[name] = replace(_unshaped(item), library=library)
        return replace(_unshaped(self), inputs=self.inputs, library=library)

    def with_input_shapes(self, shapes: Mapping[int, Shape]) -> CapturedFunction:
        """Return this function for inputs of more exact shapes.

        For a resource, the shape is its variable's. Static shapes of the nodes stay what
        TensorFlow inferred from the less exact ones: still true, only weaker.
        """
        return replace(
            self,
            inputs=tuple(
                _with_shape(item, shapes[index]) if index in shapes else item
                for index, item in enumerate(self.inputs)
            ),
        )


def _unshaped(function: CapturedFunction) -> CapturedFunction:
    return replace(
        function,
        inputs=tuple(replace(item, type=_of_any_shape(item.type)) for item in function.inputs),
        nodes=tuple(
            replace(node, outputs=tuple(map(_of_any_shape, node.outputs)))
            for node in function.nodes
        ),
        output_types=tuple(map(_of_any_shape, function.output_types)),
    )


def _of_any_shape(kind: TensorType) -> TensorType:
    return kind if kind.dtype in ("resource", "variant") else TensorType(kind.dtype, None)


def _with_shape(item: CapturedInput, shape: Shape) -> CapturedInput:
    if item.type.dtype in ("resource", "variant"):
        dtype = "" if item.handle is None else item.handle.dtype
        return replace(item, handle=TensorType(dtype, shape))
    return replace(item, type=TensorType(item.type.dtype, shape), is_shaped=True)
