# SPDX-License-Identifier: Apache-2.0
"""The named sizes that occur in nodes, and in the bodies of their higher-order ops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from ingot.frontends.torch.fx.nodes import (
    Node,
    arguments,
    attribute_of,
    bindings_of,
    is_graph,
    is_number,
    tensors_of,
)
from ingot.frontends.torch.fx.sizes import Size, Sizes, sizes_of
from ingot.frontends.torch.lowering.context.numbers import symbols_in
from ingot.hlo.dim import Dim, symbols_of


def with_bodies(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield nodes, and those of the graphs that they call, recursively."""
    waiting = list(nodes)[::-1]
    while waiting:
        node = waiting.pop()
        yield node
        for item in node.all_input_nodes:
            if is_graph(item):
                waiting.extend(attribute_of(item).graph.nodes)


def symbols_of_body(bodies: Iterable[Any]) -> tuple[str, ...]:
    """Return the named sizes that occur in graph modules."""
    nodes = list(with_bodies(node for body in bodies for node in body.graph.nodes))
    named = symbols_of(size for node in nodes for size in sizes_in(node))
    return tuple(sorted(named - _read_by(nodes)))


def read_in_bodies(nodes: Sequence[Node]) -> set[str]:
    """Return the numbers that bodies of higher-order ops read from tensors, by name."""
    outside = set(nodes)
    return _read_by(node for node in with_bodies(nodes) if node not in outside)


def _read_by(nodes: Iterable[Node]) -> set[str]:
    return {name for node in nodes if is_read(node) for name in bindings_of(node)}


def is_read(node: Node) -> bool:
    """Whether a node is `item()` of a tensor, a number that has a name."""
    return node.target is torch.ops.aten._local_scalar_dense.default and is_number(node)


def sizes_of_result(node: Node) -> Sizes:
    """Return the sizes that a node's tensors have."""
    return sizes_of([size for tensor in tensors_of(node) for size in tensor.shape])


def sizes_in(node: Node) -> Sizes:
    """Return the sizes that a node's values and arguments have, and symbols of its numbers."""
    named: list[Size] = []
    found: list[Any] = []
    for item in arguments(node):
        value = item.meta.get("val") if isinstance(item, torch.fx.Node) else item
        if isinstance(value, torch.SymInt):
            found.append(value)
        elif isinstance(value, torch.SymFloat):
            named.extend(map(Dim.symbol, symbols_in(value)))
    return (*sizes_of_result(node), *sizes_of(found), *named)
