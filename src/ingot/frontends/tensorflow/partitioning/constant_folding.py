# SPDX-License-Identifier: Apache-2.0
"""Nodes that only the host can do, but whose operands are constants: they are done once, now.

    SobolSample(4, 33, 2) -> Const     StringToNumber(Const) -> Const

TensorFlow's kernel computes the node while the function is prepared, as XLA's bridge does, and
what follows from it alone goes with it: a list that a loop over constants fills becomes the array
that is made of the list. The function is then not cut there.

Invariant: only ops without state are folded, and none that calls Python. What is no array of
numbers (strings, lists) is folded only if everything that takes it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ingot.frontends.tensorflow.api.modules import (
    context,
    errors,
    graph_pb2,
    importer,
    node_def_pb2,
    tensor_util,
    tensorflow,
)
from ingot.frontends.tensorflow.graphs.capture import graph_of
from ingot.frontends.tensorflow.graphs.captured import (
    CapturedFunction,
    CapturedNode,
    TensorRef,
    TensorType,
    TypeName,
)
from ingot.frontends.tensorflow.graphs.variables import NOT_NUMBERS, is_stateful
from ingot.frontends.tensorflow.partitioning.placement import calls_python, has_kernel

_MOST_BYTES = 10 * 1024 * 1024
"""TensorFlow's own bound for constants that it folds."""


def fold_on_host(
    function: CapturedFunction, hosted: Mapping[str, frozenset[str]], graph: Any
) -> CapturedFunction:
    """Return a function whose nodes on the host are constants where their operands are.

    Args:
        function: the function, with those that it calls.
        hosted: the nodes on the host, by function (`placement.on_host`).
        graph: the FuncGraph that `function` was captured from.
    """
    made: dict[str, CapturedFunction] = {}
    for name, nodes in hosted.items():
        item = function if name == function.name else function.library[name]
        followers = _followers(item, nodes)
        if followers:
            owner = graph if name == function.name else graph_of(graph, name)
            made[name] = _folded(item, followers, owner)
    if not made:
        return function
    library: dict[str, CapturedFunction] = {}
    for name, item in function.library.items():
        library[name] = replace(made.get(name, item), library=library)
    return replace(made.get(function.name, function), library=library)


def constant_proto(node: CapturedNode) -> Any:
    """Return the NodeDef of a constant that folding has made: TensorFlow's graph has none."""
    value = tensor_util.make_tensor_proto(node.attributes["value"])
    proto = node_def_pb2.NodeDef(name=node.name, op=node.op)
    proto.attr["dtype"].type = value.dtype
    proto.attr["value"].tensor.CopyFrom(value)
    return proto


def _is_number(dtype: str) -> bool:
    """Whether an element is a number, and none of TensorFlow's quantized ones."""
    return dtype not in NOT_NUMBERS and not dtype.startswith("q")


def _followers(function: CapturedFunction, hosted: frozenset[str]) -> frozenset[str]:
    """Return the nodes on the host that take constants alone, and what follows from them alone."""
    constant: set[str] = set()
    found: set[str] = set()
    for node in function.nodes:
        sources = {ref.node for ref in node.inputs}
        if not sources <= constant or node.control_inputs or not _may_fold(node):
            continue
        constant.add(node.name)
        if node.name in hosted or sources & found:
            found.add(node.name)
    return frozenset(found)


def _may_fold(node: CapturedNode) -> bool:
    if node.op == "FakeParam":
        return False  # it stands for a value that nobody uses
    return not is_stateful(node.op) and not calls_python(node.op) and has_kernel(node.op)


def _folded(function: CapturedFunction, followers: frozenset[str], graph: Any) -> CapturedFunction:
    """Return a function without `followers`, whose results are constants."""
    taken = _taken(function, followers)
    types = {
        TensorRef(node.name, at): kind
        for node in function.nodes
        for at, kind in enumerate(node.outputs)
    }
    wanted = [ref for ref in taken if _is_number(types[ref].dtype)]
    values = _computed(wanted, graph)
    constants = {
        ref: CapturedNode(
            name=f"{ref.node}/folded_{ref.output}",
            op="Const",
            inputs=(),
            control_inputs=(),
            attributes={"dtype": TypeName(types[ref].dtype), "value": value},
            outputs=(TensorType(types[ref].dtype, value.shape),),
        )
        for ref, value in values.items()
        if value.nbytes <= _MOST_BYTES
    }
    names = {ref: TensorRef(node.name) for ref, node in constants.items()}
    nodes: list[CapturedNode] = []
    for node in function.nodes:
        nodes.append(replace(node, inputs=tuple(names.get(ref, ref) for ref in node.inputs)))
        if node.name in followers:
            nodes += [made for ref, made in constants.items() if ref.node == node.name]
    outputs = tuple(names.get(ref, ref) for ref in function.outputs)
    return _without_unused(replace(function, nodes=tuple(nodes), outputs=outputs), followers)


def _taken(function: CapturedFunction, followers: frozenset[str]) -> list[TensorRef]:
    """Return the results of `followers` that something else takes."""
    refs = [ref for node in function.nodes if node.name not in followers for ref in node.inputs]
    return list(dict.fromkeys(ref for ref in [*refs, *function.outputs] if ref.node in followers))


def _without_unused(function: CapturedFunction, followers: frozenset[str]) -> CapturedFunction:
    """Return a function without the nodes that only `followers` took."""
    used = {ref.node for ref in function.outputs} | set(function.control_outputs)
    kept: list[CapturedNode] = []
    sources = _ancestors(function, followers)
    for node in reversed(function.nodes):
        if node.name in used or node.name not in sources:
            kept.append(node)
            used.update(ref.node for ref in node.inputs)
            used.update(node.control_inputs)
    return replace(function, nodes=tuple(reversed(kept)))


def _ancestors(function: CapturedFunction, names: frozenset[str]) -> frozenset[str]:
    """Return nodes and what they are made of."""
    found = set(names)
    for node in reversed(function.nodes):
        if node.name in found:
            found.update(ref.node for ref in node.inputs)
    return frozenset(found)


def _computed(wanted: list[TensorRef], graph: Any) -> dict[TensorRef, Any]:
    """Return the values of tensors of a graph that depend on constants alone, by TensorFlow."""
    if not wanted:
        return {}
    tensors = [graph.get_operation_by_name(ref.node).outputs[ref.output] for ref in wanted]
    whole = graph.as_graph_def()
    needed = _needed([tensor.op for tensor in tensors])
    part = graph_pb2.GraphDef(versions=whole.versions, library=whole.library)
    part.node.extend(node for node in whole.node if node.name in needed)
    names = [tensor.name for tensor in tensors]

    def results() -> Any:
        return importer.import_graph_def(part, return_elements=names, name="")

    # A graph of TensorFlow 1 may be around this, which would only get a node.
    outside = tensorflow.Graph().as_default()
    with outside, context.eager_mode(), tensorflow.device("CPU"):
        try:
            found = tensorflow.compat.v1.wrap_function(results, [])()
        except errors.OpError:
            # The node fails in each call, and TensorFlow says so there.
            return {}
    return {ref: value.numpy() for ref, value in zip(wanted, found, strict=True)}


def _needed(operations: list[Any]) -> set[str]:
    found: set[str] = set()
    pending = operations
    while pending:
        operation = pending.pop()
        if operation.name not in found:
            found.add(operation.name)
            pending += [tensor.op for tensor in operation.inputs]
    return found
