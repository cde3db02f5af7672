# SPDX-License-Identifier: Apache-2.0
"""What TensorFlow says of the elements of a list that a function gives back.

A list has the shape that the op that made it was given, often open (`[-1, 2]`, or any shape), and
keeps it through all that is done with it. It may be made in the function, or be an argument.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ingot.frontends.tensorflow.graphs.captured import (
    CapturedFunction,
    CapturedNode,
    FunctionRef,
    TensorRef,
)
from ingot.support.trampoline import Recursion, run

ElementShape = int | tuple[int, ...]
"""Sizes, -1 for an open one; -1 alone for any shape."""

Found = ElementShape | TensorRef | None
"""A shape, the value that has the same one, or None if only running the function tells."""

_SHAPE_OPERANDS = {
    "EmptyTensorList": 0,
    "TensorListReserve": 0,
    "TensorListFromTensor": 1,
    "TensorListSplit": 1,
    "TensorListScatterV2": 2,
}
"""Ops that make a list, and which operand is the shape of its elements."""

_KEEP = frozenset(
    {
        "Identity",
        "StopGradient",
        "TensorListPopBack",
        "TensorListPushBack",
        "TensorListResize",
        "TensorListScatterIntoExistingList",
        "TensorListSetItem",
        "ZerosLike",
    }
)
"""Ops whose first result is a list like their first operand."""

_LOOPS = frozenset({"StatelessWhile", "While"})
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_CHOICES = frozenset({"Case", "If", "StatelessCase", "StatelessIf"})


def element_shape_of(function: CapturedFunction, output: int) -> Found:
    """Return the element shape of a list that a function gives back.

    Args:
        function: the function.
        output: which of its outputs, a list.

    Returns:
        The shape; or the input that has the same one; or None if only running the function tells.
    """
    return run(_shape_of(function, function.outputs[output]))


def _shape_of(function: CapturedFunction, ref: TensorRef) -> Recursion[Found]:
    nodes = {node.name: node for node in function.nodes}
    while ref.node in nodes:
        node = nodes[ref.node]
        if node.op in _SHAPE_OPERANDS:
            return _constant(nodes.get(node.inputs[_SHAPE_OPERANDS[node.op]].node))
        if node.op in _LOOPS:
            return (yield _of_loop(function, node, ref.output))
        if node.op in _CALLS or node.op in _CHOICES:
            return (yield _of_bodies(function, node, ref.output))
        if node.op not in _KEEP or ref.output:
            return None
        ref = node.inputs[0]
    return ref


def _constant(node: CapturedNode | None) -> ElementShape | None:
    value = None if node is None or node.op != "Const" else node.attributes.get("value")
    if not isinstance(value, np.ndarray):
        return None
    return tuple(value.tolist()) if value.ndim else int(value)


def _bodies(function: CapturedFunction, node: CapturedNode) -> list[CapturedFunction]:
    values = [node.attributes.get(key) for key in ("f", "body", "then_branch", "else_branch")]
    branches = node.attributes.get("branches")
    values.extend(branches if isinstance(branches, tuple) else ())
    return [function.library[item.name] for item in values if isinstance(item, FunctionRef)]


def _of_loop(function: CapturedFunction, node: CapturedNode, number: int) -> Recursion[Found]:
    """A loop gives back what it started with, unless its body made a list of another shape."""
    (body,) = _bodies(function, node)
    before: Found = yield _shape_of(function, node.inputs[number])
    after: Found = yield _through(body, node.inputs, number)
    if after == node.inputs[number]:
        return before
    return before if after == before else None


def _of_bodies(function: CapturedFunction, node: CapturedNode, number: int) -> Recursion[Found]:
    handed = node.inputs[1:] if node.op in _CHOICES else node.inputs
    found: list[Found] = []
    for body in _bodies(function, node):
        shape: Found = yield _through(body, handed, number)
        if isinstance(shape, TensorRef):
            shape = yield _shape_of(function, shape)
        found.append(shape)
    return found[0] if all(item == found[0] for item in found) else None


def _through(body: CapturedFunction, handed: Sequence[TensorRef], number: int) -> Recursion[Found]:
    """Return what a body says of its output, with what it is given in place of its inputs."""
    shape: Found = yield _shape_of(body, body.outputs[number])
    if not isinstance(shape, TensorRef):
        return shape
    return next(
        (one for item, one in zip(body.inputs, handed, strict=True) if item.name == shape.node),
        None,
    )
