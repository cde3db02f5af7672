# SPDX-License-Identifier: Apache-2.0
"""A cluster in its graph: what goes in, what comes out, which constants it has copies of.

Invariant: a cluster waits for what its nodes wait for, and for what the constants that they take
wait for, so it runs when they would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ingot.frontends.tensorflow.clustering.candidates import NUMBERS
from ingot.frontends.tensorflow.clustering.cluster_function import Cluster, ClusterInput
from ingot.frontends.tensorflow.clustering.graph import CONST, Graph, Tensor
from ingot.support.records import record

ShapeOf = Callable[[str, int], Any]


@record
class Placed:
    """A cluster in its graph: the function, the constants it has copies of, what it waits for."""

    cluster: Cluster
    nodes: tuple[int, ...]
    outputs: tuple[Tensor, ...]
    waits_for: tuple[int, ...]
    device: str


def place(
    graph: Graph, name: str, members: Sequence[int], kept: frozenset[str], shape_of: ShapeOf
) -> Placed | None:
    """Return a cluster of the nodes `members`; None if nobody needs what they compute.

    Args:
        graph: the graph.
        name: of the cluster.
        members: its nodes.
        kept: names of the nodes that are fetched.
        shape_of: the shape of an output of a node, as a proto, if it is known.
    """
    own = set(members)
    constants = dict.fromkeys(
        item.node
        for number in members
        for item in graph.inputs[number]
        if _is_number_constant(graph, item)
    )
    inside = own | set(constants)
    sources = dict.fromkeys(
        item for number in members for item in graph.inputs[number] if item.node not in inside
    )
    outputs = _needed_outputs(graph, members, own, kept)
    if not outputs:
        return None
    waits = dict.fromkeys(
        item
        for number in (*constants, *members)
        for item in graph.controls[number]
        if item not in own
    )
    inputs = [
        ClusterInput(
            graph.text(item),
            graph.type_of(item) or "",
            shape_of(graph.nodes[item.node].name, item.port),
        )
        for item in sources
    ]
    cluster = Cluster(
        name=name,
        nodes=tuple(graph.nodes[number] for number in (*constants, *members)),
        inputs=tuple(inputs),
        outputs=tuple((graph.text(item), graph.type_of(item) or "") for item in outputs),
        library=graph.library,
    )
    device = graph.nodes[members[0]].device
    return Placed(cluster, tuple(members), tuple(outputs), tuple(waits), device)


def _is_number_constant(graph: Graph, tensor: Tensor) -> bool:
    return graph.nodes[tensor.node].op == CONST and graph.type_of(tensor) in NUMBERS


def _needed_outputs(
    graph: Graph, members: Sequence[int], own: set[int], kept: frozenset[str]
) -> list[Tensor]:
    """Return the tensors that others read; what is only waited for gives its first output."""
    found: dict[Tensor, None] = {}
    for number in members:
        for reader in graph.readers[number]:
            if reader not in own:
                read = (item for item in graph.inputs[reader] if item.node == number)
                found.update(dict.fromkeys(read))
        if graph.nodes[number].name in kept:
            count = len(graph.types[number] or ())
            found.update(dict.fromkeys(Tensor(number, port) for port in range(count)))
    if not found:
        waited = (item for item in members if set(graph.followers[item]) - own)
        found.update(dict.fromkeys(Tensor(item, 0) for item in list(waited)[:1]))
    return sorted(found)
