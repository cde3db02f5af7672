# SPDX-License-Identifier: Apache-2.0
"""Guards for sizes that attention needs to be equal: `guard_attention(graph)`, before `placement`.

PyTorch traces attention without comparing the sizes of queries, keys and values; its kernel assumes
that they are equal. If keys and values come from a growing cache, their lengths have two names. So
the comparison becomes a guard, which holds in every call and unifies the names.

Invariant: only equalities that PyTorch's kernel relies on are guarded; sizes that differ are left,
    and
the op's lowering refuses them.

Example:
    q: f32[2,1,1,8], k: f32[2,1,s25,8], v: f32[2,1,s81,8]      Eq(s81, s25)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import guard_or_false

from ingot.frontends.torch.nodes import Node

_aten = torch.ops.aten
_FORWARD = _aten._scaled_dot_product_flash_attention_for_cpu.default
_BACKWARD = _aten._scaled_dot_product_flash_attention_for_cpu_backward.default


def guard_attention(graph: Any) -> None:
    """Add the guards of a graph's attentions to PyTorch's."""
    for target, first in ((_FORWARD, 0), (_BACKWARD, 1)):
        for node in graph.find_nodes(op="call_function", target=target):
            query, key, value = (item.meta["val"] for item in node.args[first : first + 3])
            for left, right in _equal_pairs(query, key, value, _mask_of(node)):
                is_equal: Any = left == right
                if isinstance(is_equal, torch.SymBool):
                    guard_or_false(is_equal)


def _mask_of(node: Node) -> Any:
    mask = node.kwargs.get("attn_mask")
    return None if mask is None else mask.meta["val"]


def _equal_pairs(query: Any, key: Any, value: Any, mask: Any) -> Iterator[tuple[Any, Any]]:
    """Yield pairs of sizes that must be equal. The operands are `[batch, heads, rows, depth]`."""
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
