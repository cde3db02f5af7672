# SPDX-License-Identifier: Apache-2.0
"""One cluster as a captured function, which a launch compiles when it is asked to.

The function is made when the cluster is compiled, not before: TensorFlow infers its shapes from
those of the inputs, which takes longer than clustering.

Invariant: a cluster has no effects and keeps no state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ingot.frontends.tensorflow.api.modules import func_graph, graph_pb2, importer
from ingot.frontends.tensorflow.clustering.candidates import called_functions
from ingot.frontends.tensorflow.clustering.fused_ops import is_fused, parts_of
from ingot.frontends.tensorflow.compiler import Compiler, FunctionCompiler
from ingot.frontends.tensorflow.graphs.binding import Binding, Parameter, Result
from ingot.frontends.tensorflow.graphs.capture import capture
from ingot.frontends.tensorflow.graphs.captured import CapturedFunction
from ingot.frontends.tensorflow.launches.body import type_number
from ingot.frontends.tensorflow.launches.launch import Compiled
from ingot.frontends.tensorflow.variants.specialisation import CallArguments, Key, Sizes
from ingot.support.records import record


@record
class ClusterInput:
    """A tensor that a cluster takes: what its nodes call it, its type and its shape (a proto)."""

    text: str
    dtype: str
    shape: Any


@record
class Cluster:
    """Nodes that are compiled together.

    Attributes:
        name: `cluster_0`.
        nodes: the NodeDefs, each after what it needs, with copies of the constants.
        inputs: what they take from outside.
        outputs: what others take from them: texts and element types.
        library: the functions of the graph, by name.
    """

    name: str
    nodes: tuple[Any, ...]
    inputs: tuple[ClusterInput, ...]
    outputs: tuple[tuple[str, str], ...]
    library: Mapping[str, Any]

    @property
    def binding(self) -> Binding:
        """Every input is a parameter, every output a result."""
        parameters = tuple(Parameter(index) for index in range(len(self.inputs)))
        return Binding(parameters, tuple(Result(output=at) for at in range(len(self.outputs))))

    def capture(self) -> CapturedFunction:
        """Return the cluster as the lowering reads it."""
        graph_def = graph_pb2.GraphDef()
        renamed: dict[str, str] = {}
        for index, item in enumerate(self.inputs):
            node = graph_def.node.add(name=f"{self.name}/input_{index}", op="Placeholder")
            node.attr["dtype"].type = type_number(item.dtype)
            if item.shape is not None:
                node.attr["shape"].shape.CopyFrom(item.shape)
            renamed[item.text] = node.name
        names = {node.name for node in self.nodes}
        for node in self.nodes:
            for part in parts_of(node) or () if is_fused(node.op) else (node,):
                copy = graph_def.node.add()
                copy.CopyFrom(part)
                copy.device = ""
                del copy.input[:]
                copy.input.extend(renamed.get(text, text) for text in _data(part))
                copy.input.extend(_inner_controls(part, names))
                _drop_hints(copy)
        graph_def.library.function.extend(_called(self.nodes, self.library))
        graph = func_graph.FuncGraph(self.name)
        with graph.as_default():
            importer.import_graph_def_for_function(graph_def, name="")
        graph.inputs = [graph.get_tensor_by_name(f"{name}:0") for name in renamed.values()]
        texts = [text if ":" in text else f"{text}:0" for text, _ in self.outputs]
        graph.outputs = [graph.get_tensor_by_name(text) for text in texts]
        return capture(self.name, graph)


class ClusterCompiler:
    """Compiles a cluster when it is asked to: a `LaunchCompiler`."""

    def __init__(self, cluster: Cluster, compiler: Compiler) -> None:
        """Remember the cluster."""
        self._state: Cluster | FunctionCompiler = cluster
        self._compiler = compiler

    def check(self, sizes: Sizes) -> None:
        """Raise IngotError if inputs of these sizes do not fit the cluster."""
        self._ready().check(sizes)

    def compile(self, arguments: CallArguments) -> tuple[Compiled, Key]:
        """Return the cluster compiled for a call, and which calls the result is for."""
        state = self._ready()
        compiled, key = state.compile(arguments)
        # Clusters live long, and nobody calls them with other shapes than those of their graph.
        state.forget_if_done(compiled, key)
        return compiled, key

    def _ready(self) -> FunctionCompiler:
        if isinstance(self._state, Cluster):
            captured, binding = self._state.capture(), self._state.binding
            self._state = FunctionCompiler(captured, binding, self._compiler)
        return self._state


def _data(node: Any) -> list[str]:
    return [_normal(text) for text in node.input if not text.startswith("^")]


def _normal(text: str) -> str:
    return text.removesuffix(":0")


def _inner_controls(node: Any, names: set[str]) -> list[str]:
    return [text for text in node.input if text.startswith("^") and text[1:] in names]


def _drop_hints(node: Any) -> None:
    """Leave out attributes of TensorFlow's runtime; one may name a node that is not here."""
    for name in [name for name in node.attr if name.startswith("_")]:
        del node.attr[name]


def _called(nodes: Sequence[Any], library: Mapping[str, Any]) -> list[Any]:
    """Return the functions that nodes call, and those that these call."""
    found: dict[str, Any] = {}
    pending = list(nodes)
    while pending:
        for name in called_functions(pending.pop(), library):
            if name in library and name not in found:
                found[name] = library[name]
                pending.extend(library[name].node_def)
    return list(found.values())
