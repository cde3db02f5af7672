# SPDX-License-Identifier: Apache-2.0
"""Expanding nodes into their definitions: `expand_attention(graph_module)` and `expand_bags`.

For `flex_attention` that is PyTorch's own definition (scores, `score_mod` and `mask_mod` over all
of them, softmax, product); for an embedding bag the one in `fixed_bags`. The definition is traced
for the operands of each node, and replaces the node, before `partitioning.placement`.

Invariant: the graph computes the same.

Example:
    flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j))
    bmm, add, softmax, bmm ...: one program
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, cast

import torch
from torch._higher_order_ops.flex_attention import (
    flex_attention,
    sdpa_dense,  # pyright: ignore[reportUnknownVariableType]
)
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from ingot.frontends.torch.decompositions.decompose import decompositions
from ingot.frontends.torch.fx.nodes import Node, attribute_of, is_graph
from ingot.frontends.torch.passes.fixed_bags import BAGS, is_fixed_bags, is_gradient_of_fixed_bags

_OF_THE_PLACE = ("stack_trace", "seq_nr", "nn_module_stack", "partitioner_tag")
"""The fields of a node's `meta` that the nodes replacing it get."""


def expand_attention(graph_module: Any) -> None:
    """Replace the nodes of a graph that call `flex_attention`.

    PyTorch refuses its gradient on CPU, so there are no nodes for gradients.
    """
    found = [node for node in graph_module.graph.nodes if node.target is flex_attention]
    for node in found:
        _expand(graph_module, node, cast("Any", sdpa_dense))
    if found:
        graph_module.graph.eliminate_dead_code()


def expand_bags(graph_module: Any) -> None:
    """Replace the nodes of a graph for embedding bags of one length, and for their gradients.

    The graph must still have both, before the partitioner: later the length is lost.
    """
    for node in list(graph_module.graph.nodes):
        # Gradients come after their bags; without them the bag of each index is not needed.
        if is_gradient_of_fixed_bags(node):
            _expand(graph_module, node, BAGS[node.target])
            graph_module.graph.erase_node(node)
    found = [node for node in graph_module.graph.nodes if is_fixed_bags(node)]
    for node in found:
        _expand(graph_module, node, BAGS[node.target])
    if found:
        graph_module.graph.eliminate_dead_code()


def _expand(graph_module: Any, node: Node, meaning: Callable[..., Any]) -> None:
    leaves, structure = tree_flatten((node.args, node.kwargs))
    nodes = [leaf for leaf in leaves if isinstance(leaf, torch.fx.Node)]
    inputs = [leaf for leaf in nodes if not is_graph(leaf)]
    known = {leaf: attribute_of(leaf) for leaf in nodes if is_graph(leaf)}

    def called(*given: Any) -> Any:
        values = {**known, **dict(zip(inputs, given, strict=True))}
        filled = [values[x] if isinstance(x, torch.fx.Node) else x for x in leaves]
        args, kwargs = tree_unflatten(filled, structure)
        return meaning(*args, **kwargs)

    mode = next(
        item.meta["val"].fake_mode
        for item in inputs
        if isinstance(item.meta.get("val"), FakeTensor)
    )
    functional = torch.func.functionalize(called, remove="mutations")
    with mode:
        traced = make_fx(functional, decomposition_table=decompositions())(
            *(item.meta["val"] for item in inputs)
        )
    _replace(node, _inlined(graph_module, node, traced, inputs))


def _inlined(graph_module: Any, before: Node, traced: Any, inputs: list[Node]) -> Any:
    """Copy the nodes of a traced function in front of a node; return its results."""
    graph, given = graph_module.graph, iter(inputs)
    copies: dict[Node, Node] = {}
    results: Any = None
    with graph.inserting_before(before):
        for node in traced.graph.nodes:
            if node.op == "placeholder":
                copies[node] = next(given)
            elif node.op == "output":
                leaves, structure = tree_flatten(node.args[0])
                held = [copies[x] if isinstance(x, torch.fx.Node) else x for x in leaves]
                results = tree_unflatten(held, structure)
            else:
                copies[node] = graph.node_copy(node, copies.__getitem__)
                copies[node].meta.update(
                    (key, before.meta[key]) for key in _OF_THE_PLACE if key in before.meta
                )
            if node.op == "get_attr":
                _adopt(graph_module, copies[node], attribute_of(node))
    return results


def _adopt(graph_module: Any, node: Node, value: Any) -> None:
    """Give the graph module an attribute, which a node gets."""
    node.target = f"_expanded_{node.name}"
    with unset_fake_temporarily():
        setattr(graph_module, node.target, value)
    if isinstance(value, torch.Tensor):
        node.meta["val"] = value


def _replace(node: Node, results: Any) -> None:
    """Let the users of a node's results, and of tuples in them, use others."""
    if isinstance(results, torch.fx.Node):
        node.replace_all_uses_with(results)
        return
    waiting: list[tuple[Node, Any]] = [(node, results)]
    while waiting:
        old, new = waiting.pop()
        for user in list(old.users):
            if user.target is not operator.getitem:
                continue
            item = new[user.args[1]]
            if isinstance(item, torch.fx.Node) or item is None:
                user.replace_all_uses_with(item)
            else:
                waiting.append((user, item))
