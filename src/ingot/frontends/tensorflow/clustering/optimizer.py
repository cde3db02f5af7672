# SPDX-License-Identifier: Apache-2.0
"""What happens to a graph: clusters are found, named, given launches and written in their place.

Invariant: the graph that comes back computes what the given one does; marks of `jit_scope` are
gone from it, so that the built-in XLA finds nothing to compile.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Protocol

from ingot.frontends.tensorflow.api.modules import config, dtypes, graph_pb2
from ingot.frontends.tensorflow.api.xla_flags import ClusteringFlags
from ingot.frontends.tensorflow.clustering.background import requester_of
from ingot.frontends.tensorflow.clustering.cluster_function import Cluster, ClusterCompiler
from ingot.frontends.tensorflow.clustering.clusters import Fuel, find_clusters
from ingot.frontends.tensorflow.clustering.debug_graphs import GraphWriter
from ingot.frontends.tensorflow.clustering.graph import Graph
from ingot.frontends.tensorflow.clustering.marks import (
    CLUSTERED,
    XLA_COMPILE,
    XLA_MARKS,
    has_marks,
)
from ingot.frontends.tensorflow.clustering.old_functions import complete
from ingot.frontends.tensorflow.clustering.placing import Placed, place
from ingot.frontends.tensorflow.clustering.rewriting import Rewriter
from ingot.frontends.tensorflow.compiler import Compiler
from ingot.frontends.tensorflow.launches.body import type_number
from ingot.frontends.tensorflow.launches.launch import Launch
from ingot.frontends.tensorflow.partitioning.placement import is_compiled_alone
from ingot.support.tracing import Level, log

AT_ONCE, BACKGROUND, NEVER, REQUIRED = "at_once", "background", "never", "required"
"""When a cluster is compiled: at its first run, later, never; at its first run without fallback."""


class Item(Protocol):
    """What is asked about a graph."""

    def fetched(self) -> frozenset[str]:
        """Return the names of the nodes whose outputs the caller wants."""
        ...

    def kept(self) -> frozenset[str]:
        """Return the names of the nodes that must stay."""
        ...

    def shapes(self, node: str) -> tuple[Any, ...]:
        """Return the shapes of a node's outputs, as protos."""
        ...


class ClusterOptimizer:
    """Clusters graphs, with what all graphs of the process share: names, fuel, launches."""

    def __init__(self, flags: ClusteringFlags, compiler: Compiler) -> None:
        """Start with the flags in force."""
        self._flags, self._compiler = flags, compiler
        self._fuel = Fuel(flags.clustering_fuel)
        self._numbers: dict[str, Iterator[int]] = defaultdict(itertools.count)

    def optimize(self, data: bytes, item: Item, is_global: bool) -> bytes | None:
        """Return the GraphDef `data` with its clusters replaced; None if nothing changes.

        Args:
            data: the GraphDef.
            item: what Grappler knows of it.
            is_global: clustering is asked for all of it, not only for what is marked.
        """
        graph_def = graph_pb2.GraphDef.FromString(data)
        is_marked = has_marks(graph_def.node)
        is_done = any(CLUSTERED in node.attr for node in graph_def.node)
        if is_done or not (is_global or is_marked):
            return self._unmarked(graph_def) if is_marked else None
        complete(graph_def)
        graph = Graph(graph_def)
        fetched = item.fetched()
        kept = item.kept() - fetched

        def is_kept(number: int) -> bool:
            return graph.nodes[number].name in kept

        writer = GraphWriter(self._flags.clustering_debug)
        writer.write("before_mark_for_compilation", graph_def)
        found = find_clusters(graph, self._flags, is_global, self._fuel, is_kept)
        prefix = self._prefix(graph_def)
        rewriter = Rewriter(graph, graph_def, fetched)
        placed: list[Placed] = []
        for members in found:
            name = f"{prefix}{next(self._numbers[prefix])}"
            made = place(graph, name, members, fetched, _shape_of(item))
            if made is not None:
                placed.append(made)
        writer.write_clusters(graph, graph_def, placed)
        for made in placed:
            mode = self._mode(made.cluster)
            rewriter.replace(made, self._launch(made.cluster, mode), with_kernels=mode != REQUIRED)
            log(Level.COMPILATION, "cluster", name=made.cluster.name, nodes=len(made.nodes))
        if not placed:
            return self._unmarked(graph_def) if is_marked else None
        result = rewriter.finish()
        writer.write("encapsulate_subgraphs_after", result)
        return self._unmarked(result)

    def _prefix(self, graph_def: Any) -> str:
        if not self._flags.deterministic_cluster_names:
            return "cluster_"
        text = sorted(f"{node.name} {node.op} {list(node.input)}" for node in graph_def.node)
        return f"cluster_{hashlib.sha256(repr(text).encode()).hexdigest()[:16]}_"

    def _launch(self, cluster: Cluster, mode: str) -> Launch:
        types = [type_number(dtype) for _, dtype in cluster.outputs]
        compiles = ClusterCompiler(cluster, self._compiler)
        launch = Launch(cluster.name, len(cluster.inputs), types, compiles)
        arrays = [dtypes.as_dtype(item.dtype).as_numpy_dtype for item in cluster.inputs]
        if mode != REQUIRED:
            requester_of(launch, len(cluster.nodes), arrays, mode)
        _launches.append(launch)
        return launch

    def _mode(self, cluster: Cluster) -> str:
        flags = self._flags
        if any(is_compiled_alone(item.op) for item in cluster.nodes):
            return REQUIRED
        if flags.always_defer_compilation:
            return NEVER
        if not flags.enable_lazy_compilation:
            return REQUIRED
        # A program that wants the same bits in every run cannot change kernels while it runs.
        if flags.async_compilation is False or config.is_op_determinism_enabled():
            return AT_ONCE
        is_marked = any(item.attr[XLA_COMPILE].b for item in cluster.nodes)
        return AT_ONCE if is_marked and not flags.async_compilation else BACKGROUND

    def _unmarked(self, graph_def: Any) -> bytes:
        functions = (node for item in graph_def.library.function for node in item.node_def)
        for node in itertools.chain(graph_def.node, functions):
            for name in XLA_MARKS:
                if name in node.attr:
                    del node.attr[name]
        return bytes(graph_def.SerializeToString())


_launches: list[Launch] = []


def clusters() -> list[Launch]:
    """Return the launches of all clusters of the process."""
    return list(_launches)


def _shape_of(item: Item) -> Any:
    def shape(node: str, port: int) -> Any:
        found = item.shapes(node)
        return found[port] if port < len(found) else None

    return shape
