# SPDX-License-Identifier: Apache-2.0
"""Which nodes are compiled together: TensorFlow's algorithm on the nodes that can be compiled.

Each candidate starts as a cluster of its own; edges between clusters are contracted in post-order
as long as that closes no cycle: first those to ops that look at shapes only, then the rest.
(TensorFlow's phase between them is for variables and `NoOp`s, which are in no cluster here.) A
cluster is kept if it is large enough or somebody marked one of its ops (`jit_scope`). An op that
only XLA has is a cluster of its own.

Invariant: nodes of one cluster run under the same conditions, in the same frame, on the same
device; what a cluster computes needs nothing that in turn needs the cluster.
Source: TensorFlow's `compiler/jit/mark_for_compilation_pass.cc`.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.frontends.tensorflow.api.xla_flags import ClusteringFlags
from ingot.frontends.tensorflow.clustering.candidates import Candidates
from ingot.frontends.tensorflow.clustering.cycles import CycleGraph
from ingot.frontends.tensorflow.clustering.graph import Graph
from ingot.frontends.tensorflow.clustering.liveness import (
    MERGES,
    NEXT,
    Conditions,
    Liveness,
)
from ingot.frontends.tensorflow.clustering.marks import XLA_COMPILE, XLA_SCOPE
from ingot.frontends.tensorflow.partitioning.placement import is_compiled_alone
from ingot.support.records import mutable

_SHAPE_OPS = frozenset({"Shape", "ShapeN", "Rank", "Size"})
_UNCOUNTED = frozenset({"Identity", "Const"})
_FUNCTIONAL = frozenset({"While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase"})


@mutable
class _Cluster:
    """What a set of nodes has in common, and what decides whether it is kept."""

    number: int
    nodes: list[int]
    effective: int
    conditions: Conditions
    device: str
    scope: str
    is_marked: bool
    is_alone: bool
    has_control_flow: bool


@mutable
class Fuel:
    """How many more nodes may be clustered in this process."""

    left: int


def find_clusters(
    graph: Graph,
    flags: ClusteringFlags,
    is_global: bool,
    fuel: Fuel,
    is_kept: Callable[[int], bool],
) -> list[list[int]]:
    """Return the nodes of each cluster, in the graph's order.

    Args:
        graph: the graph.
        flags: sizes and limits.
        is_global: clustering is asked for the whole graph, not only for what is marked.
        fuel: is used up by candidates.
        is_kept: whether a node must stay because the caller feeds it.
    """
    return _Clustering(graph, flags, is_global).run(fuel, is_kept)


class _Clustering:
    def __init__(self, graph: Graph, flags: ClusteringFlags, is_global: bool) -> None:
        self._graph, self._flags, self._is_global = graph, flags, is_global
        self._liveness = Liveness(graph)
        self._ignores_liveness = flags.disable_deadness_safety_checks_for_debugging
        self._clusters: dict[int, _Cluster] = {}

    def run(self, fuel: Fuel, is_kept: Callable[[int], bool]) -> list[list[int]]:
        candidates = Candidates(self._graph, self._flags)
        for number in range(len(self._graph)):
            if fuel.left <= 0:
                break
            if not is_kept(number) and candidates.accepts(number):
                self._clusters[number] = self._single(number)
                fuel.left -= 1
        if not self._clusters:
            return []
        self._cycles = self._cycle_graph()
        # An op that reads only the shape of a large tensor belongs to what computes the tensor.
        self._each_edge(lambda _, target: self._is_only(target, _SHAPE_OPS))
        self._each_edge(lambda _source, _target: True)
        distinct = {id(item): item for item in self._clusters.values()}
        return [sorted(item.nodes) for item in distinct.values() if self._is_wanted(item)]

    def _single(self, number: int) -> _Cluster:
        node = self._graph.nodes[number]
        is_alone = is_compiled_alone(node.op)
        return _Cluster(
            number=number,
            nodes=[number],
            effective=int(node.op not in _UNCOUNTED),
            conditions=self._liveness.conditions[number],
            device=node.device,
            scope="" if self._is_global else node.attr[XLA_SCOPE].s.decode(),
            is_marked=is_alone or (XLA_COMPILE in node.attr and node.attr[XLA_COMPILE].b),
            is_alone=is_alone,
            has_control_flow=node.op in _FUNCTIONAL,
        )

    def _cycle_graph(self) -> CycleGraph:
        """Return the graph without what goes back to the next iteration; loops have a node each."""
        graph, frames = self._graph, self._liveness.frames
        cycles = CycleGraph(len(graph) + len(frames), self._liveness.order)
        for number in self._liveness.order:
            back = graph.nodes[number].op in MERGES
            for source in graph.predecessors(number):
                if not (back and graph.nodes[source].op in NEXT):
                    cycles.add_edge(source, number)
        for frame, (enters, exits) in enumerate(frames.values(), len(graph)):
            for number in enters:
                cycles.add_edge(number, frame)
            for number in exits:
                cycles.add_edge(frame, number)
        return cycles

    def _each_edge(self, wanted: Callable[[_Cluster, _Cluster], bool]) -> None:
        for number in self._cycles.post_order():
            source = self._clusters.get(number)
            if source is None:
                continue
            for other in self._cycles.successors(source.number):
                target = self._clusters.get(other)
                if target is None or target is source:
                    continue
                if wanted(source, target):
                    self._contract(source, target)

    def _contract(self, source: _Cluster, target: _Cluster) -> None:
        if not self._may_join(source, target):
            return
        if not self._cycles.contract(source.number, target.number):
            return
        source.nodes.extend(target.nodes)
        source.effective += target.effective
        source.scope = source.scope or target.scope
        source.is_marked |= target.is_marked
        source.has_control_flow |= target.has_control_flow
        for number in target.nodes:
            self._clusters[number] = source

    def _may_join(self, source: _Cluster, target: _Cluster) -> bool:
        if source.conditions != target.conditions and not self._ignores_liveness:
            return False
        if source.is_alone or target.is_alone or source.device != target.device:
            return False
        if source.scope and target.scope and source.scope != target.scope:
            return False
        return len(source.nodes) + len(target.nodes) <= self._flags.max_cluster_size

    def _is_only(self, cluster: _Cluster, ops: frozenset[str]) -> bool:
        return len(cluster.nodes) == 1 and self._op(cluster) in ops

    def _op(self, cluster: _Cluster) -> str:
        return str(self._graph.nodes[cluster.nodes[0]].op)

    def _is_wanted(self, cluster: _Cluster) -> bool:
        if cluster.is_marked:
            return cluster.effective > 0
        if not self._is_global:
            return False
        return cluster.effective >= self._flags.min_cluster_size or cluster.has_control_flow
