# SPDX-License-Identifier: Apache-2.0
"""A graph cut at the nodes that the host runs: steps, each a compiled piece or a host node.

Invariants: a step comes after all that it needs; host nodes keep their order, as each may draw from
the generator; a node that writes into an argument comes after everything that reads it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ingot.frontends.torch.nodes import Node, is_size, is_tuple, tensor_inputs
from ingot.frontends.torch.placement import Placement
from ingot.support.levels import assign_levels


@dataclass(frozen=True, slots=True)
class Piece:
    """Nodes that become one program.

    Attributes:
        nodes: what is computed, in order.
        inputs: tensors from outside: arguments, constants, results of other steps.
        outputs: tensors that other steps or the caller need, and writes into arguments.
        mutations: the outputs that are written into an input, which is their first argument.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    mutations: frozenset[Node]


Step = Piece | Node


def partition(graph: Any, placement: Placement) -> list[Step]:
    """Return the steps of a graph in the order in which they run."""
    order = [node for node in graph.nodes if node.op == "call_function" and not is_size(node)]
    levels = assign_levels(order, _needs(order, placement), placement.host, ())
    for node in order:
        # An element of a tuple is where the tuple is.
        if node.target is operator.getitem:
            levels[node] = levels[node.args[0]]
    steps: list[Step] = []
    for level in sorted(set(levels.values())):
        here = [node for node in order if levels[node] == level]
        compiled = [node for node in here if node not in placement.host]
        if compiled:
            steps.append(_piece(compiled, placement.mutations))
        steps.extend(node for node in here if node in placement.host)
    return steps


def _needs(order: Sequence[Node], placement: Placement) -> dict[Node, list[Node]]:
    """Return what each node must come after."""
    needs: dict[Node, list[Node]] = {}
    readers: dict[Node, list[Node]] = {}
    last_host: Node | None = None
    for node in order:
        needs[node] = [item for item in tensor_inputs(node) if item.op == "call_function"]
        if node in placement.mutations:
            needs[node].extend(reader for reader in readers.get(node.args[0], ()))
        for item in tensor_inputs(node):
            readers.setdefault(item, []).append(node)
        if node in placement.host and node.target is not operator.getitem:
            if last_host is not None:
                needs[node].append(last_host)
            last_host = node
    return needs


def _piece(nodes: Sequence[Node], mutations: set[Node]) -> Piece:
    inside = set(nodes)
    inputs = dict.fromkeys(
        item for node in nodes for item in tensor_inputs(node) if item not in inside
    )
    outputs = [node for node in nodes if node in mutations or _is_needed(node, inside)]
    return Piece(tuple(nodes), tuple(inputs), tuple(outputs), frozenset(inside & mutations))


def _is_needed(node: Node, inside: set[Node]) -> bool:
    """Whether a node is a tensor that something outside of the piece needs."""
    return not is_tuple(node) and any(user not in inside for user in node.users)
