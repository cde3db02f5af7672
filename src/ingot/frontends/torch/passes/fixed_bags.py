# SPDX-License-Identifier: Apache-2.0
"""Embedding bags that all have the same length, as plain lookups and sums: `BAGS`.

`EmbeddingBag` of a matrix of indices flattens it, and makes `offsets = arange(0, n, length)`.
PyTorch's op takes any offsets, so the bag of an index must be searched for, and bags are summed by
a scatter. If the offsets come from such an `arange`, `expansion` replaces the op and its gradients
by the functions here.

Invariant: results are those of PyTorch's op, whose bag indices and sizes must be unused.

Example:
    _embedding_bag(table, indices, arange(0, 1024, 4))
    embedding(table, indices.view(256, 4)).sum(1)
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ingot.frontends.torch.fx.nodes import Node, value_of
from ingot.frontends.torch.fx.sizes import Size, size_of

_ATEN: Any = torch.ops.aten
_SUM, _MEAN, _MAX = range(3)


def is_fixed_bags(node: Node) -> bool:
    """Whether a node looks up bags of one length, and only the bags are used."""
    if node.target not in _FORWARD or _option(node, "mode", _SUM) == _MAX:
        return False
    if _option(node, "include_last_offset", False):
        return False
    users = [user for user in node.users if user.target is operator.getitem]
    if any(user.args[1] != 0 and user.users for user in users):
        return False
    return _has_fixed_offsets(node, node.meta["val"][0].shape[0], node.args[1])


def is_gradient_of_fixed_bags(node: Node) -> bool:
    """Whether a node is a gradient of bags of one length, for their table or their weights."""
    if node.target not in _BACKWARD:
        return False
    if _option(node, "mode", _SUM) == _MAX or _option(node, "sparse", False):
        return False
    indices = node.args[1 if node.target is _ATEN._embedding_bag_backward.default else 2]
    return _has_fixed_offsets(node, node.args[0].meta["val"].shape[0], indices)


def _option(node: Node, name: str, default: Any) -> Any:
    """Return an argument by its name in the schema."""
    names = [argument.name for argument in node.target._schema.arguments]
    number = names.index(name) if name in names else len(node.args)
    return node.args[number] if number < len(node.args) else node.kwargs.get(name, default)


def _has_fixed_offsets(node: Node, bags: Any, indices: Node) -> bool:
    """Whether each bag takes the same number of following indices, up to the last index."""
    offsets = _option(node, "offsets", None)
    if offsets.target is not _ATEN.arange.start_step or len(offsets.args) != 3:
        return False
    start, _, length = map(_size, offsets.args)
    count = size_of(indices.meta["val"].shape[0])
    return start == 0 and size_of(bags) * length == count


def _size(given: Any) -> Size:
    return size_of(value_of(given))


# ---- meanings


def _rows(indices: Tensor, bags: Any) -> Tensor:
    """Return the indices as a matrix, one row for each bag."""
    return indices.view(bags, indices.shape[0] // bags) if bags else indices.view(0, 1)


def _sizes(rows: Tensor, padding_idx: int, kind: torch.dtype) -> Tensor:
    """Return the number of each bag's indices that are not padding, at least 1: `[bags, 1]`."""
    return (rows != padding_idx).sum(1, keepdim=True).clamp(min=1).to(kind)


def _wide(x: Tensor) -> Tensor:
    """Return half floats as f32, in which they are summed and then rounded once."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def _bags(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, None, None, None]:
    del scale_grad_by_freq, sparse, include_last_offset
    rows = _rows(indices, offsets.shape[0])
    found = _wide(_ATEN.embedding(weight, rows))
    if per_sample_weights is not None:
        found = found * per_sample_weights.to(found.dtype).view(rows.shape).unsqueeze(2)
    if padding_idx >= 0:
        found = torch.where((rows == padding_idx).unsqueeze(2), 0, found)
    made = found.sum(1)
    if mode == _MEAN:
        made = made / _sizes(rows, padding_idx, made.dtype)
    return made.to(weight.dtype), None, None, None


def _gradient_of_table(
    gradient: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: Any,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    del offsets, offset2bag, bag_size, maximum_indices, sparse
    rows = _rows(indices, gradient.shape[0])
    dy = _wide(gradient)
    if mode == _MEAN:
        dy = dy / _sizes(rows, padding_idx, dy.dtype)
    each = dy.unsqueeze(1).expand(*rows.shape, dy.shape[1])
    if per_sample_weights is not None:
        each = each * per_sample_weights.to(dy.dtype).view(rows.shape).unsqueeze(2)
    made = _ATEN.embedding_dense_backward(each, rows, num_weights, padding_idx, scale_grad_by_freq)
    return made.to(gradient.dtype)


def _gradient_of_weights(
    gradient: Tensor,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    mode: int,
    padding_idx: int = -1,
) -> Tensor:
    del offsets, offset2bag, mode
    rows = _rows(indices, gradient.shape[0])
    found = _wide(_ATEN.embedding(weight, rows))
    made = (_wide(gradient).unsqueeze(1) * found).sum(2).to(gradient.dtype)
    if padding_idx >= 0:
        made = torch.where(rows == padding_idx, 0, made)
    return made.view(indices.shape)


_FORWARD: dict[Any, Callable[..., Any]] = {
    _ATEN._embedding_bag.default: _bags,
    _ATEN._embedding_bag_forward_only.default: _bags,
}
_BACKWARD: dict[Any, Callable[..., Any]] = {
    _ATEN._embedding_bag_backward.default: _gradient_of_table,
    _ATEN._embedding_bag_per_sample_weights_backward.default: _gradient_of_weights,
}
BAGS = {**_FORWARD, **_BACKWARD}
"""The definition of each op if all bags have the same length."""
