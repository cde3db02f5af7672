# SPDX-License-Identifier: Apache-2.0
"""A graph cut at the nodes that the host runs: steps, each a compiled piece or a host node.

Invariants: a step comes after all that it needs, including data-dependent sizes; host nodes that
draw random numbers or have other effects keep their order; a node that writes into an argument
comes after everything that reads it, also through PyTorch's views.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch

from ingot.frontends.torch.fx.nodes import (
    Node,
    bindings_of,
    data_symbols,
    has_effects,
    is_check,
    is_size,
    is_tuple,
    is_view,
    tensor_inputs,
)
from ingot.frontends.torch.fx.piece import Piece
from ingot.frontends.torch.partitioning.placement import Placement
from ingot.support.levels import assign_levels

Step = Piece | Node


def partition(graph: Any, placement: Placement) -> list[Step]:
    """Return the steps of a graph in the order in which they run."""
    order = [node for node in graph.nodes if node.op == "call_function" and not is_size(node)]
    levels = assign_levels(order, _needs(order, placement), placement.host, ())
    for node in order:
        # An element of a tuple is in the step of the tuple.
        if node.target is operator.getitem:
            levels[node] = levels[node.args[0]]
    steps: list[Step] = []
    for level in sorted(set(levels.values())):
        here = [node for node in order if levels[node] == level]
        compiled = [node for node in here if node not in placement.host]
        piece = _piece(compiled, placement)
        if piece is not None:
            steps.append(piece)
        steps.extend(node for node in here if node in placement.host)
    return steps


def _needs(order: Sequence[Node], placement: Placement) -> dict[Node, list[Node]]:
    """Return the nodes that each node must come after."""
    needs: dict[Node, list[Node]] = {}
    readers: dict[Node, list[Node]] = {}
    memory: dict[Node, Node] = {}  # PyTorch's view -> the tensor
    binders: dict[str, Node] = {}
    last_effect: Node | None = None
    for node in order:
        inputs = tensor_inputs(node)
        needs[node] = [item for item in inputs if item.op == "call_function"]
        needs[node].extend(
            binders[name] for name in data_symbols(node) if binders.get(name, node) is not node
        )
        binders.update(dict.fromkeys(bindings_of(node), node))
        if node.target is torch.ops.aten.copy_.default:
            needs[node].extend(readers.get(memory.get(node.args[0], node.args[0]), ()))
        for item in inputs:
            readers.setdefault(memory.get(item, item), []).append(node)
        if node in placement.host and inputs and is_view(node):
            memory[node] = memory.get(inputs[0], inputs[0])
        if node in placement.host and has_effects(node):
            if last_effect is not None:
                needs[node].append(last_effect)
            last_effect = node
    return needs


def _piece(nodes: Sequence[Node], placement: Placement) -> Piece | None:
    """Return the program of the nodes' values that others need; None if there are none."""
    inside, mutations, views = set(nodes), placement.mutations, placement.views
    roots = set(views.values())
    outputs = [
        node
        for node in nodes
        if node in mutations or node in roots or (node not in views and _is_needed(node, inside))
    ]
    live = {*outputs, *filter(is_check, nodes)}
    for node in reversed(nodes):
        if node in live:
            live.update(item for item in node.all_input_nodes if item in inside)
    kept = tuple(node for node in nodes if node in live)
    inputs = dict.fromkeys(
        item for node in kept for item in tensor_inputs(node) if item not in inside
    )
    return Piece(kept, tuple(inputs), tuple(outputs), frozenset(live & mutations)) if kept else None


def _is_needed(node: Node, inside: set[Node]) -> bool:
    """Whether a node is a tensor that nodes outside of the piece need."""
    return not is_tuple(node) and any(user not in inside for user in node.users)
