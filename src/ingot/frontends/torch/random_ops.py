# SPDX-License-Identifier: Apache-2.0
"""Random draws need sizes, not values: `free_draws(graph)`, a pass before `placement`.

PyTorch's kernels draw random numbers between compiled programs, in PyTorch's order. `rand_like(h)`
and functional forms of in-place draws (`h.bernoulli_(p)`) take a tensor of which they only use
sizes, strides and element type. Here they get an empty tensor that they fill, so that all draws run
before the first program, and the rest stays one program.

Invariant: which numbers are drawn, and in which order, is as before: kernels fill memory in an
order that sizes and strides decide.

Example:
    h = sin(x); d = bernoulli.p(h, 0.3); y = h * d
    e = empty_strided(...); d = bernoulli_.float(e, 0.3)     the host
    h = sin(x); y = h * d                                    one program
"""

from __future__ import annotations

from typing import Any

import torch

from ingot.frontends.torch.nodes import Node

_ATEN: Any = torch.ops.aten

_IN_PLACE: dict[Any, Any] = {
    _ATEN.bernoulli.p: _ATEN.bernoulli_.float,
    _ATEN.cauchy.default: _ATEN.cauchy_.default,
    _ATEN.exponential.default: _ATEN.exponential_.default,
    _ATEN.geometric.default: _ATEN.geometric_.default,
    _ATEN.log_normal.default: _ATEN.log_normal_.default,
    _ATEN.normal_functional.default: _ATEN.normal_.default,
    _ATEN.random.default: _ATEN.random_.default,
    getattr(_ATEN.random, "from"): getattr(_ATEN.random_, "from"),
    _ATEN.random.to: _ATEN.random_.to,
    _ATEN.uniform.default: _ATEN.uniform_.default,
}
"""Draws that replace the values of a tensor, and the op that fills it in place."""

_LIKE = frozenset(
    {
        _ATEN.rand_like.default,
        _ATEN.randint_like.default,
        _ATEN.randint_like.low_dtype,
        _ATEN.randn_like.default,
    }
)
"""Draws of a new tensor like another one."""

_EMPTY = frozenset({_ATEN.empty_strided.default})


def free_draws(graph: Any) -> None:
    """Let the draws of an ATen graph depend on sizes alone."""
    for node in list(graph.nodes):
        if node.op != "call_function" or not (node.target in _IN_PLACE or node.target in _LIKE):
            continue
        like = node.args[0]
        if node.target in _LIKE and like.op == "placeholder":
            continue  # It is there already.
        with graph.inserting_before(node):
            # What a draw in place fills has the strides of its result: PyTorch would copy `like`.
            storage = _empty(graph, like if node.target in _LIKE else node)
        node.args = (storage, *node.args[1:])
        node.target = _IN_PLACE.get(node.target, node.target)
    graph.eliminate_dead_code()


def _empty(graph: Any, like: Node) -> Node:
    """Add an empty tensor of the sizes, strides and type of another one."""
    value = like.meta["val"]
    storage = graph.call_function(
        _ATEN.empty_strided.default,
        (list(value.shape), list(value.stride())),
        {"dtype": value.dtype, "device": value.device},
    )
    storage.meta["val"] = value
    storage.meta["stack_trace"] = like.meta.get("stack_trace")
    return storage


def is_storage_of_draws(node: Node) -> bool:
    """Whether a node is an empty tensor that only draws look at; the host allocates it."""
    return node.target in _EMPTY and all(
        user.target in _LIKE or user.target in _IN_PLACE.values() for user in node.users
    )
