# SPDX-License-Identifier: Apache-2.0
"""Lengths of slices whose bounds data decides, as numbers: `number_slice_lengths(graph)`.

Such a bound may be negative or past the end, so PyTorch gives the slice's length a symbol of its
own, which the op defines. A program makes the slice and must know the length before it runs. So a
number of the wrapper computes it. It runs after what removes dead nodes: only the symbol leads from
the number to the slice.

Invariant: the length is Python's: bounds are clamped to the dimension.

Example:
    y = slice(x, 0, 0, u0)                              f32[u1]; defines u1
    u1 = slice_length(x.size(0), 0, u0, 1); y = slice(x, 0, 0, u0)
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import CallMethodKey

from ingot.frontends.torch.fx.internal_ops import InternalOp
from ingot.frontends.torch.fx.nodes import Node, bindings_of, known_values, symbols_of_value


def _length(size: int, start: int | None, end: int | None, step: int) -> int:
    return len(range(*slice(start, end, step).indices(size)))


SLICE_LENGTH = InternalOp("slice_length", _length)
"""`(size, start, end, step)`: how many elements a slice of a dimension has."""


def number_slice_lengths(graph: Any) -> None:
    """Compute the lengths that slices of an ATen graph define before the slices."""
    known: set[str] = set()
    for node in graph.nodes:
        if node.op == "placeholder":
            known |= symbols_of_value(node)
        elif node.op == "call_function":
            if node.target is torch.ops.aten.slice.Tensor:
                _number_length(graph, node, known)
            known.update(bindings_of(node))


def _number_length(graph: Any, node: Node, known: set[str]) -> None:
    """Let a number define the symbol that a size of a slice is, if it is one of its own.

    Args:
        graph: the graph.
        node: the slice.
        known: the symbols that something before it defines.
    """
    bound: dict[Any, tuple[Any, ...]] = node.meta.get("unbacked_bindings") or {}
    sizes = [key for key, path in bound.items() if path[0] == CallMethodKey("size")]
    if not sizes:
        return
    (symbol,) = sizes
    x, dim, *bounds = node.args
    start, end, step = (*bounds, *(None, None, 1)[len(bounds) :])
    length, size = node.meta["val"].shape[dim], x.meta["val"].shape[dim]
    with graph.inserting_before(node):
        if isinstance(size, torch.SymInt):
            value, size = size, graph.call_function(torch.ops.aten.sym_size.int, (x, dim))
            size.meta["val"] = value
        made = graph.call_function(SLICE_LENGTH, (size, start, end, step))
    stack = node.meta.get("stack_trace")
    made.meta.update(val=length, unbacked_bindings={symbol: ()}, stack_trace=stack)
    # PyTorch may have found it equal to the symbol of an earlier trace, which nothing defines.
    for same in known_values(made).values():
        if same.is_Symbol and str(same) not in known:
            made.meta["unbacked_bindings"][same] = ()
