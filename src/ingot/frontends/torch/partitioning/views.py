# SPDX-License-Identifier: Apache-2.0
"""Views that leave a graph: `views_of(graph, host)`, between `placement` and `partition`.

A result of the graph, or an argument of a host node, that is only a view of a tensor in memory (an
argument of the graph, a result of PyTorch's kernels, another result) is not computed. Nor is a view
with gaps, or one of several views of the same tensor: their root becomes a result of its program.
The wrapper makes the views with `as_strided`. PyTorch requires that, too: it reads the offset of a
result that is a view of an argument.

Invariant: a view and its root share their storage in PyTorch's own trace and have one element type,
and nothing writes into the root.

Example:
    def f(x): y = x * 2; return y, y.t(), x[1:]     y is computed; y.t() and x[1:] are views
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Collection
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from ingot.frontends.torch.fx.layout import layout_of
from ingot.frontends.torch.fx.nodes import Node, bindings_of, is_size, is_view


def views_of(graph: Any, host: Collection[Node]) -> dict[Node, Node]:
    """Return the views that need not be computed, and the root of each: a tensor in memory.

    Args:
        graph: an ATen graph.
        host: the nodes that PyTorch runs.
    """
    leaving = _leaving(graph, host)
    copies = graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    written, new_values = ({node.args[number] for node in copies} for number in range(2))
    results = _results(graph)
    seen = Counter(_root_of(node, host) for node in results)
    found: dict[Node, Node] = {}
    for node in leaving:
        root = _root_of(node, host)
        if root is node or node in host or root in written or is_size(node):
            continue
        if not _is_plain_view(node.meta["val"], root.meta.get("val")):
            continue
        in_memory = root.op != "call_function" or root in host or root in leaving
        # A write into one result is visible in the other views of the same tensor. For views of an
        # argument PyTorch reads the offset, and makes the view of the argument itself.
        is_shared = node in results and (seen[root] > 1 or root in new_values)
        # For a tensor with gaps, a view of its root is cheaper than a copy.
        if in_memory or is_shared or layout_of(node).order is None:
            found[node] = root
    return found


def _root_of(node: Node, host: Collection[Node]) -> Node:
    """Return the tensor that a node is a view of, through views of views; else the node.

    A view that the host makes is a root, since its offset may be unknown before.
    """
    while node.op == "call_function" and node not in host:
        source = node.args[0] if node.target is operator.getitem else node
        if source.target is operator.getitem or source.op != "call_function":
            break
        if not is_view(source):
            break
        node = source.args[0]
    return node


def offsets_that_data_decides(view: Node) -> list[Node]:
    """Return the views that a view is made through if the offset of one is data-dependent.

    For `x[n.item()]` only PyTorch's own view op computes the offset, so the host makes these.
    """
    root, chain = _root_of(view, ()), list[Node]()
    while view is not root:
        chain.append(view)
        view = view.args[0]
    return chain if any(bindings_of(node) for node in chain) else []


def _leaving(graph: Any, host: Collection[Node]) -> dict[Node, None]:
    """Return the tensors of programs that the caller or a host node gets."""
    found = dict.fromkeys(item for node in host for item in node.all_input_nodes)
    found.update(dict.fromkeys(_results(graph)))
    return {node: None for node in found if node.op == "call_function"}


def _results(graph: Any) -> list[Node]:
    (output,) = graph.find_nodes(op="output")
    return output.all_input_nodes


def _is_plain_view(view: object, root: object) -> bool:
    if not isinstance(view, torch.Tensor) or not isinstance(root, torch.Tensor):
        return False
    if any(item.layout is not torch.strided for item in (view, root)):
        return False
    kinds = [(item.dtype, item.is_conj(), item.is_neg()) for item in (view, root)]
    storages: list[Any] = [StorageWeakRef(item.untyped_storage()) for item in (view, root)]
    return kinds[0] == kinds[1] and bool(storages[0] == storages[1])
