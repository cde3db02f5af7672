# SPDX-License-Identifier: Apache-2.0
"""Masks and `nonzero` in programs: `expand_masks(graph)`, before `placement`.

The number of elements that a mask selects is a data-dependent size. One program counts them, the
count becomes the size, and the next program writes the indices of that many elements. It is a few
times as fast as PyTorch's kernel, and the computation of the mask fuses with the count.

Invariant: the elements and their order are PyTorch's: ascending, row-major. Masks of symbolic sizes
are left to PyTorch, since a scan of those takes several passes.

Example:
    y = index(x, [mask])                                f32[u0]
    u0 = item(sum(mask)); i = mask_indices(mask, u0); y = index(x, [i])
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ingot.frontends.torch.errors import TorchIndexError
from ingot.frontends.torch.internal_ops import InternalOp
from ingot.frontends.torch.locations import metadata_of
from ingot.frontends.torch.lowering.index_checks import mask_message
from ingot.frontends.torch.nodes import Node
from ingot.frontends.torch.sizes import Sizes, sizes_of

_ATEN: Any = torch.ops.aten


def _indices(mask: Any, size: int) -> tuple[Any, ...]:
    del size
    return torch.nonzero(mask, as_tuple=True)


def _coordinates(mask: Any, size: int) -> Any:
    del size
    return torch.nonzero(mask)


INDICES = InternalOp("mask_indices", _indices)
"""`(mask, size)`: the indices of the true elements, `s64[size]` for each dimension of the mask."""
COORDINATES = InternalOp("mask_coordinates", _coordinates)
"""`(mask, size)`: the indices of the true elements, as `s64[size, rank]`."""


def expand_masks(graph: Any) -> None:
    """Replace the ops of an ATen graph whose results have the size of a mask's count."""
    for node in list(graph.nodes):
        if node.target is _ATEN.nonzero.default and _is_open(node, node.args[0]):
            _Expansion(graph, node).nonzero(node.args[0])
        elif node.target is _ATEN.index.Tensor:
            masks = [item for item in node.args[1] if item is not None]
            is_mask = len(masks) == 1 and masks[0].meta["val"].dtype is torch.bool
            if is_mask and _is_open(node, masks[0]):
                _Expansion(graph, node).chosen(node.args[0], node.args[1].index(masks[0]), masks[0])
        elif node.target is _ATEN.masked_select.default:
            values = [item.meta["val"] for item in node.args]
            # PyTorch broadcasts; equal sizes are the common case.
            if _sizes(values[0]) == _sizes(values[1]) and _is_open(node, node.args[1]):
                _Expansion(graph, node).chosen(node.args[0], 0, node.args[1])


def _sizes(value: Any) -> list[str]:
    return [str(size) for size in value.shape]


def _is_open(node: Node, mask: Node) -> bool:
    """Whether a node defines one size, and its mask has known sizes and some elements."""
    bound: dict[Any, Any] = node.meta.get("unbacked_bindings") or {}
    value = mask.meta["val"]
    has_sizes = all(isinstance(size, int) and size > 0 for size in value.shape)
    return len(bound) == 1 and has_sizes and value.dim() > 0 and isinstance(value, FakeTensor)


@dataclass(frozen=True, slots=True)
class OpenMask:
    """The mask of a write whose sizes can be compared with the tensor's only in a call.

    Attributes:
        node: the op.
        mask: the sizes of the mask.
        sizes: those of the tensor.
        begin: the dimension of the tensor at which those of the mask begin.
    """

    node: Node
    mask: Sizes
    sizes: Sizes
    begin: int

    def refuse(self, mask: tuple[int, ...], sizes: tuple[int, ...]) -> None:
        """Raise the error for a call in which the sizes differ.

        Raises:
            TorchIndexError: INGOT0505, always.
        """
        pairs = enumerate(zip(mask, sizes[self.begin :], strict=False))
        axis = next(number for number, (have, want) in pairs if have != want)
        raise TorchIndexError(
            mask_message(mask, axis, sizes, self.begin + axis),
            code="INGOT0505",
            op_type=str(self.node.target),
            op_name=self.node.name,
            location=metadata_of(self.node).location,
        )


def open_masks(nodes: Iterable[Node]) -> list[OpenMask]:
    """Return the masks of `index_put` whose sizes only a call can check."""
    found: list[OpenMask] = []
    for node in nodes:
        if node.target is not _ATEN.index_put.default:
            continue
        sizes = sizes_of(node.args[0].meta["val"].shape)
        for begin, index in enumerate(node.args[1]):
            if index is None or index.meta["val"].dtype not in (torch.bool, torch.uint8):
                continue
            mask = sizes_of(index.meta["val"].shape)
            if mask != sizes[begin : begin + len(mask)]:
                found.append(OpenMask(node, mask, sizes, begin))
    return found


class _Expansion:
    """The nodes that replace one node."""

    def __init__(self, graph: Any, node: Node) -> None:
        self.graph, self.node = graph, node

    def nonzero(self, x: Node) -> None:
        with self.graph.inserting_before(self.node):
            mask, size = self._mask(x, self.node.meta["val"].shape[0])
            self._replace(self._called(COORDINATES, (mask, size), self.node.meta["val"]))

    def chosen(self, x: Node, axis: int, mask: Node) -> None:
        """Take the elements of x that a mask over its dimensions from `axis` on selects."""
        count = self.node.meta["val"].shape[axis]
        rank = mask.meta["val"].dim()
        with self.graph.inserting_before(self.node):
            flags, size = self._mask(mask, count)
            column = self._fake(mask, lambda: torch.empty((count,), dtype=torch.int64))
            indices = self._called(INDICES, (flags, size), (column,) * rank)
            columns = [
                self._called(operator.getitem, (indices, number), column) for number in range(rank)
            ]
            given = [*[None] * axis, *columns]
            self._replace(self._called(_ATEN.index.Tensor, (x, given), self.node.meta["val"]))

    def _mask(self, x: Node, count: Any) -> tuple[Node, Node]:
        """Return the mask of nonzero elements, and the size that it defines."""
        value, mask = x.meta["val"], x
        if value.dtype is not torch.bool:
            flags = self._fake(x, lambda: torch.empty(value.shape, dtype=torch.bool))
            mask = self._called(_ATEN.ne.Scalar, (x, 0), flags)
        scalar = self._fake(x, lambda: torch.empty((), dtype=torch.int64))
        total = self._called(_ATEN.sum.default, (mask,), scalar)
        size = self._called(_ATEN._local_scalar_dense.default, (total,), count)
        (symbol,) = self.node.meta["unbacked_bindings"]
        size.meta["unbacked_bindings"] = {symbol: ()}
        return mask, size

    def _called(self, target: Any, args: Sequence[Any], value: Any) -> Node:
        made = self.graph.call_function(target, tuple(args))
        made.meta.update(val=value, stack_trace=self.node.meta.get("stack_trace"))
        return made

    @staticmethod
    def _fake(like: Node, make: Callable[[], Any]) -> Any:
        with like.meta["val"].fake_mode:
            return make()

    def _replace(self, made: Node) -> None:
        self.node.replace_all_uses_with(made)
        self.graph.erase_node(self.node)
