# SPDX-License-Identifier: Apache-2.0
"""Graphs before and after clustering, written under XLA's names for people and TensorBoard.

`--tf_xla_clustering_debug` writes them to the folder `TF_DUMP_GRAPH_PREFIX` (`-`: standard error):
`before_mark_for_compilation.pbtxt`, `mark_for_compilation.pbtxt` (each node of a cluster has the
attribute `_XlaCluster`), `mark_for_compilation_annotated.pbtxt` (its name begins with the
cluster's), and `encapsulate_subgraphs_after.pbtxt`, what TensorFlow runs.

Source: TensorFlow's `core/util/dump_graph.cc`.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ingot.frontends.tensorflow.api.modules import graph_pb2, text_format
from ingot.frontends.tensorflow.clustering.graph import Graph
from ingot.frontends.tensorflow.clustering.placing import Placed

VARIABLE = "TF_DUMP_GRAPH_PREFIX"

_numbers: dict[str, Iterator[int]] = defaultdict(itertools.count)


class GraphWriter:
    """Writes graphs, if that is asked for."""

    def __init__(self, is_on: bool) -> None:
        """Start; without a folder nothing is written."""
        self._folder = os.environ.get(VARIABLE, "") if is_on else ""

    def write(self, name: str, graph_def: Any) -> None:
        """Write a graph to a file of its own: a number tells those of one name apart."""
        if not self._folder:
            return
        text = text_format.MessageToString(graph_def)
        if self._folder == "-":
            sys.stderr.write(text)
            return
        folder = Path(self._folder)
        folder.mkdir(parents=True, exist_ok=True)
        number = next(_numbers[name])
        file = folder / (f"{name}_{number}.pbtxt" if number else f"{name}.pbtxt")
        file.write_text(text, encoding="utf-8")

    def write_clusters(self, graph: Graph, graph_def: Any, placed: Sequence[Placed]) -> None:
        """Write the graph with its clusters marked, and once more with them in the names."""
        if not self._folder:
            return
        names = {number: item.cluster.name for item in placed for number in item.nodes}
        marked = graph_pb2.GraphDef()
        marked.CopyFrom(graph_def)
        for number, cluster in names.items():
            marked.node[number].attr["_XlaCluster"].s = cluster.encode()
        self.write("mark_for_compilation", marked)
        prefixes = [
            names.get(number) or _group_name(node) for number, node in enumerate(graph.nodes)
        ]
        for node in marked.node:
            node.name = f"{prefixes[graph.numbers[node.name]]}/{node.name}"
            inputs = [_prefixed(text, graph, prefixes) for text in node.input]
            del node.input[:]
            node.input.extend(inputs)
        self.write("mark_for_compilation_annotated", marked)


def _group_name(node: Any) -> str:
    return "varhandle" if node.op == "VarHandleOp" else "unclustered"


def _prefixed(text: str, graph: Graph, prefixes: Sequence[str]) -> str:
    sign = "^" if text.startswith("^") else ""
    bare = text.removeprefix("^")
    return f"{sign}{prefixes[graph.tensor(bare).node]}/{bare}"
