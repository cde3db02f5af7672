# SPDX-License-Identifier: Apache-2.0
"""Guards for sizes that PyTorch's kernels need to be equal: `guard_kernel_sizes(graph)`.

PyTorch traces some ops without comparing all sizes of their operands; their kernels raise an error
if the sizes differ. If keys and values come from a growing cache, their lengths have two names. So
the comparison becomes a guard, which holds in every call and unifies the names. It runs before
`partitioning.placement`.

Invariant: only equalities that PyTorch's kernel relies on are guarded; sizes that differ are left,
and the op's lowering refuses them.

Example:
    q: f32[2,1,1,8], k: f32[2,1,s25,8], v: f32[2,1,s81,8]      Eq(s81, s25)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import guard_or_false

from ingot.frontends.torch.fx.nodes import Node, value_of

_aten = torch.ops.aten

Pairs = Iterator[tuple[Any, Any]]
"""Sizes that must be equal."""


def guard_kernel_sizes(graph: Any) -> None:
    """Add the guards of a graph's ops to PyTorch's."""
    for target, pairs in _PAIRS.items():
        for node in graph.find_nodes(op="call_function", target=target):
            for left, right in pairs(node):
                is_equal: Any = left == right
                if isinstance(is_equal, torch.SymBool):
                    guard_or_false(is_equal)


def _values(node: Node, first: int, count: int) -> list[Any]:
    return [item.meta["val"] for item in node.args[first : first + count]]


def _attention(node: Node) -> Pairs:
    return _attention_pairs(_values(node, 0, 3), _mask_of(node))


def _attention_gradient(node: Node) -> Pairs:
    return _attention_pairs(_values(node, 1, 3), _mask_of(node))


def _mask_of(node: Node) -> Any:
    mask = node.kwargs.get("attn_mask")
    return None if mask is None else mask.meta["val"]


def _attention_pairs(operands: list[Any], mask: Any) -> Pairs:
    """Yield the pairs of attention. The operands are `[batch, heads, rows, depth]`."""
    query, key, value = operands
    yield query.shape[0], key.shape[0]
    yield query.shape[0], value.shape[0]
    yield key.shape[1], value.shape[1]
    yield key.shape[2], value.shape[2]
    yield query.shape[3], key.shape[3]
    if mask is None:
        return
    scores = (*query.shape[:3], key.shape[2])
    for have, want in zip(reversed(mask.shape), reversed(scores), strict=False):
        # A mask's dimension of size 1 holds for all.
        if not (isinstance(have, int) and have == 1):
            yield have, want


def _encoder_layer(node: Node) -> Pairs:
    """The width of the input is that of the packed weights."""
    x, weight = node.args[0].meta["val"], node.args[3].meta["val"]
    yield x.shape[-1], weight.shape[1]


def _convolution_gradient(node: Node) -> Pairs:
    """The gradient has the batch of the input, and both have the filter's channels."""
    gradient, x, weight = _values(node, 0, 3)
    is_transposed, groups = node.args[7], value_of(node.args[9])
    yield gradient.shape[0], x.shape[0]
    outer, inner = (x, gradient) if is_transposed else (gradient, x)
    yield outer.shape[1], weight.shape[0]
    yield inner.shape[1], weight.shape[1] * groups


_PAIRS: dict[Any, Callable[[Node], Pairs]] = {
    _aten._scaled_dot_product_flash_attention_for_cpu.default: _attention,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward.default: _attention_gradient,
    _aten._transformer_encoder_layer_fwd.default: _encoder_layer,
    _aten.convolution_backward.default: _convolution_gradient,
}
