# SPDX-License-Identifier: Apache-2.0
"""A GraphDef as clustering sees it: nodes by number, what they take, and who takes from them.

Invariants: edges refer to nodes of the same graph; nodes are numbered in the order of the GraphDef,
which the plug-in keeps, so everything that follows from the numbers is deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ingot.frontends.tensorflow.api.modules import op_def_registry
from ingot.frontends.tensorflow.graphs.capture import op_output_types
from ingot.frontends.tensorflow.graphs.captured import Attribute
from ingot.frontends.tensorflow.graphs.proto_values import read_attribute

CONST = "Const"


class Tensor(NamedTuple):
    """Output `port` of a node."""

    node: int
    port: int


class _Attributes(Mapping[str, Attribute]):
    """A node's attributes, each read when it is asked for."""

    def __init__(self, node: Any) -> None:
        self._node = node

    def __getitem__(self, name: str) -> Attribute:
        if name not in self._node.attr:
            raise KeyError(name)
        return read_attribute(self._node.attr[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._node.attr)

    def __len__(self) -> int:
        return len(self._node.attr)


class Graph:
    """The nodes of a GraphDef and their edges.

    Attributes:
        nodes: the NodeDefs.
        inputs: per node its data inputs.
        controls: per node the nodes that must have run before.
        readers: per node the nodes that take one of its outputs.
        followers: per node those that it controls.
        types: per node the element types of its outputs; None where TensorFlow has no such op.
        library: functions by name.
    """

    def __init__(self, graph_def: Any) -> None:
        """Read `graph_def`; every input must name a node of it."""
        self.nodes: list[Any] = list(graph_def.node)
        self.numbers = {node.name: number for number, node in enumerate(self.nodes)}
        self.inputs: list[tuple[Tensor, ...]] = []
        self.controls: list[tuple[int, ...]] = []
        self.readers: list[list[int]] = [[] for _ in self.nodes]
        self.followers: list[list[int]] = [[] for _ in self.nodes]
        for number, node in enumerate(self.nodes):
            data = tuple(self.tensor(name) for name in node.input if not name.startswith("^"))
            before = tuple(self.numbers[name[1:]] for name in node.input if name.startswith("^"))
            self.inputs.append(data)
            self.controls.append(before)
            for source in dict.fromkeys(item.node for item in data):
                self.readers[source].append(number)
            for source in dict.fromkeys(before):
                self.followers[source].append(number)
        self.library: dict[str, Any] = {
            item.signature.name: item for item in graph_def.library.function
        }
        self.types = [output_types(node) for node in self.nodes]

    def __len__(self) -> int:
        return len(self.nodes)

    def tensor(self, text: str) -> Tensor:
        """Return what an input's text, `node` or `node:port`, refers to."""
        name, _, port = text.partition(":")
        return Tensor(self.numbers[name], int(port or 0))

    def text(self, tensor: Tensor) -> str:
        """Return how a NodeDef refers to a tensor."""
        name = self.nodes[tensor.node].name
        return f"{name}:{tensor.port}" if tensor.port else name

    def type_of(self, tensor: Tensor) -> str | None:
        """Return the element type of a tensor, None if it is not known."""
        types = self.types[tensor.node]
        return None if types is None or tensor.port >= len(types) else types[tensor.port]

    def is_reference(self, tensor: Tensor) -> bool:
        """Whether a tensor is a reference to a variable of TensorFlow 1."""
        definition = op_def_registry.get(self.nodes[tensor.node].op)
        return definition is not None and any(item.is_ref for item in definition.output_arg)

    def predecessors(self, number: int) -> list[int]:
        """Return the nodes that must have run before a node, each once."""
        data = [item.node for item in self.inputs[number]]
        return list(dict.fromkeys((*data, *self.controls[number])))


def output_types(node: Any) -> tuple[str, ...] | None:
    """Return the element types of a node's outputs; None where they are not known."""
    if op_def_registry.get(node.op) is None:
        return None
    try:
        return tuple(op_output_types(node.op, _Attributes(node)))
    except (KeyError, TypeError):
        return None
