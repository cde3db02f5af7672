# SPDX-License-Identifier: Apache-2.0
"""Recomputing the values of nodes that have an undefined symbol: `renew_values(graph)`.

If a tensor's number is read twice, each read defines a symbol. The partitioner of AOTAutograd
merges equal nodes and removes the second read, but nodes that used it still have its symbol in
`meta["val"]`. Such values are computed again, from those of the node's arguments.

Invariant: afterwards an argument or an earlier node defines every data-dependent symbol.

Example:
    a = item(t)                          a: u0
    b = split(x, [a])                    b: f32[u1], of a merged item(t); now f32[u0]
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from torch._guards import detect_fake_mode
from torch.utils._pytree import tree_map

from ingot.frontends.torch.fx.nodes import bindings_of, is_graph, symbols_of_value, value_of


def renew_values(graph: Any) -> None:
    """Recompute the values that have a symbol that nothing before them defines."""
    known: set[str] = set()
    for node in graph.nodes:
        if node.op == "placeholder":
            known |= symbols_of_value(node)
        elif node.op == "call_function":
            known.update(bindings_of(node))
            # Without such a symbol in an argument or a number, no value has one.
            if (
                known
                and symbols_of_value(node) - known
                and not any(map(is_graph, node.all_input_nodes))
            ):
                node.meta["val"] = value_of_call(node.target, node.args, node.kwargs)


def value_of_call(target: Any, args: Any, kwargs: Any) -> Any:
    """Return the value of a call, as fake tensors and numbers, from the values of its arguments."""
    args, kwargs = tree_map(value_of, (args, kwargs))
    with detect_fake_mode((args, kwargs)) or nullcontext():
        return target(*args, **kwargs)
