# SPDX-License-Identifier: Apache-2.0
"""Puts a launch in the place of each cluster of a graph.

    inputs -> xla_compile -> Switch -> (ready)     xla_run         -> Merge -> outputs
                                    -> (not ready) the nodes       ->

`xla_compile` (the op `Ingot_XlaCompile`) says whether a program for these inputs is at hand; until
one is, the cluster's own nodes run. Those that take nothing from others of the cluster wait for
"not ready"; once the program is ready they are dead, and with them the rest. Names are those that
TensorFlow gives to such nodes. A cluster that must be compiled is the launch alone.

Invariant: what read an output of a cluster's node, or waited for it, reads or waits for what took
its place; a node that the caller fetches by name stays as an Identity of that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingot.frontends.tensorflow.api.modules import graph_pb2, node_def_pb2
from ingot.frontends.tensorflow.clustering.graph import Graph, Tensor
from ingot.frontends.tensorflow.clustering.marks import CLUSTERED
from ingot.frontends.tensorflow.clustering.placing import Placed
from ingot.frontends.tensorflow.launches.body import type_number
from ingot.frontends.tensorflow.launches.launch import Launch
from ingot.frontends.tensorflow.launches.launch_op import CLUSTER_LAUNCH_OP, PROCESS_MARK, READY_OP


class Rewriter:
    """Writes a graph with launches in place of clusters."""

    def __init__(self, graph: Graph, graph_def: Any, kept: frozenset[str]) -> None:
        """Start with the whole graph; `kept` are the names of the nodes that are fetched."""
        self._graph = graph
        self._graph_def = graph_def
        self._kept = kept
        self._new_nodes: list[Any] = []
        self._outputs: dict[Tensor, str] = {}
        self._cluster_of: dict[int, str] = {}
        self._after: dict[str, str] = {}
        self._before: dict[str, str] = {}

    def replace(self, placed: Placed, launch: Launch, *, with_kernels: bool) -> None:
        """Put `launch` in the place of a cluster, with TensorFlow's kernels beside it or not."""
        name, count = placed.cluster.name, len(placed.outputs)
        run = f"{name}/xla_run"
        inputs = [item.text for item in placed.cluster.inputs]
        waits = [f"^{self._graph.nodes[item].name}" for item in placed.waits_for]
        made = [_port(run, at) for at in range(count)]
        if with_kernels:
            yes, self._before[name] = self._choice(placed, inputs + waits, launch)
            self._launch(placed, run, [*inputs, f"^{yes}"], launch)
            made = [self._merge(placed, at, item) for at, item in enumerate(made)]
        else:
            self._launch(placed, run, inputs + waits, launch)
        self._outputs.update(zip(placed.outputs, made, strict=True))
        self._after[name] = made[0].partition(":")[0]
        self._cluster_of.update(dict.fromkeys(placed.nodes, name))
        for number in placed.nodes:
            if self._graph.nodes[number].name in self._kept:
                self._keep_name(number, placed)

    def finish(self) -> Any:
        """Return the GraphDef."""
        result = graph_pb2.GraphDef()
        result.versions.CopyFrom(self._graph_def.versions)
        result.library.CopyFrom(self._graph_def.library)
        for number, node in enumerate(self._graph.nodes):
            cluster = self._cluster_of.get(number, "")
            if cluster and cluster not in self._before:
                continue
            copy = result.node.add()
            copy.CopyFrom(node)
            self._rewire(copy, cluster)
            if cluster:
                self._make_fallback(copy, number, cluster)
        for node in self._new_nodes:
            self._rewire(node, "")
            result.node.add().CopyFrom(node)
        return result

    def _make_fallback(self, node: Any, number: int, cluster: str) -> None:
        """Let a node run only while the program of its cluster is not ready."""
        node.name = self._own_name(number, cluster)
        node.attr[CLUSTERED].s = cluster.encode()
        sources = self._graph.inputs[number]
        if not any(self._cluster_of.get(item.node) == cluster for item in sources):
            node.input.append(f"^{self._before[cluster]}")

    def _own_name(self, number: int, cluster: str) -> str:
        name = str(self._graph.nodes[number].name)
        return f"{cluster}/{name}" if name in self._kept else name

    def _node(self, name: str, op: str, inputs: Sequence[str], placed: Placed) -> Any:
        node = node_def_pb2.NodeDef(name=name, op=op, input=inputs, device=placed.device)
        node.attr[CLUSTERED].s = placed.cluster.name.encode()
        self._new_nodes.append(node)
        return node

    def _launch(self, placed: Placed, name: str, inputs: Sequence[str], launch: Launch) -> None:
        node = self._node(name, CLUSTER_LAUNCH_OP, inputs, placed)
        _set_types(node, "Tin", [item.dtype for item in placed.cluster.inputs])
        _set_types(node, "Tout", [dtype for _, dtype in placed.cluster.outputs])
        node.attr["launch"].i = launch.address
        node.attr["process"].i = PROCESS_MARK

    def _choice(self, placed: Placed, inputs: Sequence[str], launch: Launch) -> tuple[str, str]:
        """Write what says whether the program is ready; return the nodes that run then or not."""
        name = placed.cluster.name
        ready = self._node(f"{name}/xla_compile", READY_OP, inputs, placed)
        _set_types(ready, "Tin", [item.dtype for item in placed.cluster.inputs])
        ready.attr["launch"].i = launch.address
        ready.attr["process"].i = PROCESS_MARK
        key = f"{name}/predicated_compilation_key"
        switch = self._node(key, "Switch", [ready.name, ready.name], placed)
        switch.attr["T"].type = type_number("bool")
        for port, suffix in ((1, "ready"), (0, "not_ready")):
            branch = self._node(f"{name}/{suffix}", "Identity", [_port(key, port)], placed)
            branch.attr["T"].type = type_number("bool")
        return f"{name}/ready", f"{name}/not_ready"

    def _merge(self, placed: Placed, index: int, launched: str) -> str:
        name = f"{placed.cluster.name}/merge_oidx_{index}"
        tensor = placed.outputs[index]
        original = _port(self._own_name(tensor.node, placed.cluster.name), tensor.port)
        node = node_def_pb2.NodeDef(name=name, op="Merge", device=placed.device)
        node.input.extend([f"{_ORIGINAL}{original}", launched])
        node.attr[CLUSTERED].s = placed.cluster.name.encode()
        node.attr["T"].type = type_number(placed.cluster.outputs[index][1])
        node.attr["N"].i = 2
        self._new_nodes.append(node)
        return name

    def _keep_name(self, number: int, placed: Placed) -> None:
        types = list(self._graph.types[number] or ())
        inputs = [self._outputs[Tensor(number, port)] for port in range(len(types))]
        op = "Identity" if len(types) == 1 else "IdentityN"
        node = self._node(self._graph.nodes[number].name, op, inputs, placed)
        if op == "Identity":
            node.attr["T"].type = type_number(types[0])
        else:
            _set_types(node, "T", types)

    def _rewire(self, node: Any, cluster: str) -> None:
        """Let a node, of a cluster or of none, take what took the place of its inputs."""
        texts = [self._text(item, cluster) for item in node.input]
        data = [item for item in texts if not item.startswith("^")]
        controls = dict.fromkeys(item for item in texts if item.startswith("^"))
        del node.input[:]
        node.input.extend([*data, *controls])

    def _text(self, text: str, cluster: str) -> str:
        if text.startswith(_ORIGINAL):
            return text.removeprefix(_ORIGINAL)
        is_control = text.startswith("^")
        bare = text.removeprefix("^")
        if bare.partition(":")[0] not in self._graph.numbers:
            return text
        tensor = self._graph.tensor(bare)
        maker = self._cluster_of.get(tensor.node)
        if maker is None:
            return text
        if is_control:
            name = self._own_name(tensor.node, maker) if maker == cluster else self._after[maker]
            return f"^{name}"
        if maker == cluster:
            return _port(self._own_name(tensor.node, maker), tensor.port)
        return self._outputs[tensor]


_ORIGINAL = "="
"""Before the text of a tensor that is meant as it is; no name of TensorFlow begins so."""


def _port(name: str, port: int) -> str:
    return f"{name}:{port}" if port else name


def _set_types(node: Any, attribute: str, types: Sequence[str]) -> None:
    node.attr[attribute].list.SetInParent()
    node.attr[attribute].list.type.extend(type_number(item) for item in types)
