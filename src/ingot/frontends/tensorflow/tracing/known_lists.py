# SPDX-License-Identifier: Apache-2.0
"""What is known of a TensorList while TensorFlow traces: its length, its elements' shape.

A second derivative of a loop that writes a TensorArray asks for both in every iteration. Where they
are not known, TensorFlow keeps all the lists, in a list, for the sake of two small numbers.

Invariant: a list in a loop has the length that it has before the loop only if the loop's body
gives it back with elements written, and none added or removed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot.frontends.tensorflow.graphs.capture import handle_type
from ingot.frontends.tensorflow.tracing.known_tensors import KnownTensors

_SAME_LENGTH = frozenset({"AddN", "Identity", "ZerosLike"})
_LOOPS = frozenset({"StatelessWhile", "While"})


def list_property(known: KnownTensors, what: str, found: Any) -> np.ndarray | None:
    """Return a list's "length" or "element_shape" if it is known."""
    if what == "length":
        return _length(known, found)
    kind = handle_type(found)
    if kind is None or kind.shape is None or None in kind.shape:
        return None
    return np.asarray(kind.shape, np.int32)


def _length(known: KnownTensors, found: Any) -> np.ndarray | None:
    while True:
        found = _origin(found)
        outside = _before_the_loop(found)
        if outside is None:
            break
        found = outside
    if found.op.type == "TensorListReserve":
        return known.value(found.op.inputs[1])
    if found.op.type == "TensorListFromTensor":
        rank = found.op.inputs[0].shape.rank
        size = found.op.inputs[0].shape[0] if rank else None
        return None if size is None else np.asarray(size, np.int32)
    return None


def _origin(found: Any) -> Any:
    """Return the list of the same length that `found` was made of in its graph."""
    while _keeps(found.op):
        found = found.op.inputs[0]
    return found


def _keeps(operation: Any) -> bool:
    """Whether an op gives a list of the length of its first input."""
    if operation.type == "TensorListSetItem":
        return not operation.get_attr("resize_if_index_out_of_bounds")
    return operation.type in _SAME_LENGTH


def _before_the_loop(found: Any) -> Any:
    """Return the list of the same length outside of the loop that `found` is part of, or None."""
    if found.op.type in _LOOPS:
        loop, number = found.op, found.value_index
    else:
        loop = getattr(found.graph, "_while", None)
        number = next((n for n, item in enumerate(found.graph.inputs) if item is found), None)
    body = getattr(loop, "_body_graph", None)
    if loop is None or body is None or number is None or not _keeps_length(body, number):
        return None
    return loop.inputs[number]


def _keeps_length(body: Any, number: int) -> bool:
    return _origin(body.outputs[number]) is body.inputs[number]
