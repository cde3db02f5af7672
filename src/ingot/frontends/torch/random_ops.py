# SPDX-License-Identifier: Apache-2.0
"""Making random draws depend on sizes, not values: `free_draws(graph)`, before `placement`.

PyTorch's kernels draw random numbers between compiled programs, in PyTorch's order. `rand_like(h)`
and functional forms of in-place draws (`h.bernoulli_(p)`) take a tensor of which they only use
sizes, strides and element type. Here they get an empty tensor that they fill, so that all draws run
before the first program, and the rest stays one program.

Invariant: the drawn numbers and their order are unchanged: kernels fill memory in an order that
depends on sizes and strides.

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
    """Make the draws of an ATen graph depend on sizes alone."""
    for node in list(graph.nodes):
        if node.target is _ATEN.native_dropout.default and node.args[2] is not False:
            _expand_dropout(graph, node)
            continue
        if node.op != "call_function" or not (node.target in _IN_PLACE or node.target in _LIKE):
            continue
        like = node.args[0]
        if node.target in _LIKE and like.op == "placeholder":
            continue  # It is there already.
        with graph.inserting_before(node):
            # The filled tensor has the strides of the result: PyTorch would copy `like`.
            kind = like if node.target in _LIKE else node
            storage = _empty_like(graph, kind.meta["val"], kind)
        node.args = (storage, *node.args[1:])
        node.target = _IN_PLACE.get(node.target, node.target)
    graph.eliminate_dead_code()


def _empty_like(graph: Any, value: Any, origin: Node) -> Node:
    """Add an empty tensor of the sizes, strides and type of a fake one."""
    kind = {"dtype": value.dtype, "device": value.device}
    storage = graph.call_function(_ATEN.empty_strided.default, ((), ()), kind)
    # Set after its creation, since sizes may be symbols that are not nodes here.
    storage.args = (list(value.shape), list(value.stride()))
    storage.meta["val"] = value
    storage.meta["stack_trace"] = origin.meta.get("stack_trace")
    return storage


def _expand_dropout(graph: Any, node: Node) -> None:
    """Replace `native_dropout` by the mask, which is drawn, and products with it.

    It follows PyTorch's kernel, `aten/src/ATen/native/Dropout.cpp`.
    """
    x, kept = node.args[0], 1.0 - node.args[1]
    getters = {user.args[1]: user for user in node.users}
    with graph.inserting_before(node):
        storage = _empty_like(graph, node.meta["val"][1], node)
        mask = graph.call_function(_ATEN.bernoulli_.float, (storage, kept))
        chosen = graph.call_function(_ATEN.mul.Tensor, (x, mask))
        scaled = graph.call_function(_ATEN.mul.Tensor, (chosen, 1.0 / kept if kept else 0.0))
    mask.meta["val"] = storage.meta["val"]
    for made in (chosen, scaled):
        made.meta["val"] = node.meta["val"][0]
        made.meta["stack_trace"] = node.meta.get("stack_trace")
    for number, replacement in enumerate((scaled, mask)):
        if number in getters:
            getters[number].replace_all_uses_with(replacement)
            graph.erase_node(getters[number])
    graph.erase_node(node)


def is_storage_of_draws(node: Node) -> bool:
    """Whether a node is an empty tensor that only draws use; the host allocates it."""
    return node.target in _EMPTY and all(
        user.target in _LIKE or user.target in _IN_PLACE.values() for user in node.users
    )
