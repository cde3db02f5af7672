# SPDX-License-Identifier: Apache-2.0
"""Ops whose results have a size that data decides, in programs: `expand_data_sizes(graph)`.

One program computes the size (the true elements of a mask, the greatest number to count, the sum of
repeats, the runs of equal elements), a number of the wrapper becomes the size, and the next program
makes a result of that size. What the size is computed from fuses with it. It runs before
`partitioning.placement`.

Invariant: the elements and their order are PyTorch's.

Example:
    y = index(x, [mask])                                f32[u0]
    u0 = item(sum(mask)); i = mask_indices(mask, u0); y = index(x, [i])
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ingot.frontends.torch.fx.internal_ops import InternalOp
from ingot.frontends.torch.fx.nodes import Node, parts

_ATEN: Any = torch.ops.aten


def _indices(mask: Any, size: int) -> tuple[Any, ...]:
    del size
    return torch.nonzero(mask, as_tuple=True)


def _coordinates(mask: Any, size: int) -> Any:
    del size
    return torch.nonzero(mask)


def _count_size(numbers: Any, least: int) -> Any:
    most = numbers.max().to(torch.int64) + 1 if numbers.numel() else torch.tensor(0)
    return most.clamp(min=least)


def _counts(numbers: Any, weights: Any, size: int) -> Any:
    return torch.bincount(numbers, weights, size)


def _slices_first(x: Any, dim: int | None) -> Any:
    return x.flatten() if dim is None else x.movedim(dim, 0)


def _sorted(x: Any, dim: int | None) -> tuple[Any, ...]:
    values = _slices_first(x, dim)
    order = torch.arange(len(values))
    for column in reversed(values.reshape(len(values), -1).unbind(1)):
        order = order[column[order].sort(stable=True)[1]]
    return values[order].movedim(0, dim or 0), order


def _starts(x: Any, dim: int | None) -> Any:
    values = _slices_first(x, dim)
    columns = values.reshape(len(values), -1)
    starts = torch.ones(len(values), dtype=torch.bool)
    starts[1:] = (columns[1:] != columns[:-1]).any(1)
    return starts


def _distinct(x: Any, order: Any, starts: Any, size: int, dim: int | None) -> tuple[Any, ...]:
    del size
    values = _slices_first(x, dim)
    numbers = starts.cumsum(0) - 1
    inverse = numbers
    if order is not None:
        inverse = torch.empty_like(order)
        inverse[order] = numbers
    return values[starts].movedim(0, dim or 0), inverse, numbers.bincount()


INDICES = InternalOp("mask_indices", _indices)
"""`(mask, size)`: the indices of the true elements, `s64[size]` for each dimension of the mask."""
COORDINATES = InternalOp("mask_coordinates", _coordinates)
"""`(mask, size)`: the indices of the true elements, as `s64[size, rank]`."""
COUNT_SIZE = InternalOp("count_size", _count_size)
"""`(numbers, least)`: one more than the greatest number, at least `least`, as s64."""
COUNTS = InternalOp("counts", _counts)
"""`(numbers, weights, size)`: how often each number below `size` occurs, or its weights' sum."""

SORTED = InternalOp("sorted", _sorted)
"""`(x, dim)`: the elements in a row, or the slices along `dim` where they are; their indices."""
STARTS = InternalOp("starts", _starts)
"""`(x, dim)`: where a run of equal elements, or slices along `dim`, begins."""
DISTINCT = InternalOp("distinct", _distinct)
"""`(x, order, starts, size, dim)` of runs: one element or slice of each, the run of each element
before the sort (`order` is None if there was none), and how long each is; those two are empty if
they are not wanted."""


def expand_data_sizes(graph: Any) -> None:
    """Replace the ops of an ATen graph whose results have a size that a program can compute."""
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in _EXPANSIONS and _defines_one_size(node):
            _EXPANSIONS[node.target](_Expansion(graph, node), *node.args, **node.kwargs)


def _sizes(value: Any) -> list[str]:
    return [str(size) for size in value.shape]


def _defines_one_size(node: Node) -> bool:
    bound: dict[Any, Any] = node.meta.get("unbacked_bindings") or {}
    first = parts(node.meta.get("val"))[0]
    return len(bound) == 1 and isinstance(first, FakeTensor)


def _is_mask(mask: Node) -> bool:
    """Whether a mask has dimensions and may have elements."""
    return mask.meta["val"].dim() > 0 and _may_have_elements(mask)


def _may_have_elements(x: Node) -> bool:
    """Whether no size of a tensor is known to be 0."""
    value = x.meta["val"]
    return isinstance(value, FakeTensor) and 0 not in _known_sizes(value)


def _known_sizes(value: Any) -> list[int]:
    return [size for size in value.shape if isinstance(size, int)]


class _Expansion:
    """The nodes that replace one node, if it can have elements."""

    def __init__(self, graph: Any, node: Node) -> None:
        self.graph, self.node = graph, node

    def nonzero(self, x: Node) -> None:
        if not _is_mask(x):
            return
        with self.graph.inserting_before(self.node):
            mask, size = self._mask(x, self.node.meta["val"].shape[0])
            self._replace(self._called(COORDINATES, (mask, size), self.node.meta["val"]))

    def indexed(self, x: Node, indices: Sequence[Node | None]) -> None:
        """Expand an index that is one mask."""
        masks = [item for item in indices if item is not None]
        is_mask = len(masks) == 1 and masks[0].meta["val"].dtype is torch.bool
        if is_mask and _is_mask(masks[0]):
            self.chosen(x, list(indices).index(masks[0]), masks[0])

    def selected(self, x: Node, mask: Node) -> None:
        """Expand `masked_select`, which broadcasts; equal sizes are the common case."""
        if _sizes(x.meta["val"]) == _sizes(mask.meta["val"]) and _is_mask(mask):
            self.chosen(x, 0, mask)

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

    def repeated(self, repeats: Node, output_size: Any = None) -> None:
        """Sum the repeats, and give the sum to the op."""
        if output_size:
            return
        count = self.node.meta["val"].shape[0]
        with self.graph.inserting_before(self.node):
            size = self._size(_ATEN.sum.default, (repeats,), count)
            made = self._called(self.node.target, (repeats,), self.node.meta["val"])
        made.kwargs = {**self.node.kwargs, "output_size": size}
        self._replace(made)

    def counted(self, numbers: Node, weights: Node | None = None, minlength: Any = 0) -> None:
        """Find the greatest number, and count into that many elements."""
        count = self.node.meta["val"].shape[0]
        with self.graph.inserting_before(self.node):
            size = self._size(COUNT_SIZE, (numbers, minlength), count)
            given = (numbers, weights, size)
            self._replace(self._called(COUNTS, given, self.node.meta["val"]))

    def unique(self, x: Node, *given: bool, **named: bool) -> None:
        """Expand `_unique2`; what is wanted of its results follows from their sizes."""
        del given, named
        self._distinct(x, True)

    def unique_slices(self, x: Node, dim: int, is_sorted: bool = True, *given: bool) -> None:
        """Expand `unique_dim`, whose results are sorted anyway."""
        del is_sorted, given
        self._distinct(x, True, dim)

    def consecutive(
        self, x: Node, inverse: bool = False, counts: bool = False, dim: int | None = None
    ) -> None:
        """Expand `unique_consecutive` of elements, or of slices along a dimension."""
        del inverse, counts
        self._distinct(x, False, dim)

    def _distinct(self, x: Node, is_sorted: bool, dim: int | None = None) -> None:
        """Find the runs of equal elements or slices, and make one of each."""
        value, given = self.node.meta["val"], x.meta["val"]
        if not _may_have_elements(x) or (dim is not None and not given.dim()):
            return
        if dim is not None:
            dim %= given.dim()
        count = given.numel() if dim is None else given.shape[dim]
        with self.graph.inserting_before(self.node):
            order = None
            if is_sorted:
                x, order = self._sorted(x, dim)
            flags = self._fake(x, lambda: torch.empty(count, dtype=torch.bool))
            starts = self._called(STARTS, (x, dim), flags)
            size = self._size(_ATEN.sum.default, (starts,), value[0].shape[dim or 0])
            self._replace(self._called(DISTINCT, (x, order, starts, size, dim), value))

    def _sorted(self, x: Node, dim: int | None) -> tuple[Node, Node]:
        """Return the elements of a tensor, or its slices along a dimension, in order; indices."""
        given = x.meta["val"]
        sizes = (given.numel(),) if dim is None else tuple(given.shape)
        shapes = ((sizes, given.dtype), ((sizes[dim or 0],), torch.int64))
        fakes = tuple(self._fake(x, partial(torch.empty, n, dtype=kind)) for n, kind in shapes)
        made = self._called(SORTED, (x, dim), fakes)
        values, order = (
            self._called(operator.getitem, (made, number), fake)
            for number, fake in enumerate(fakes)
        )
        return values, order

    def _mask(self, x: Node, count: Any) -> tuple[Node, Node]:
        """Return the mask of nonzero elements, and the size that it defines."""
        value, mask = x.meta["val"], x
        if value.dtype is not torch.bool:
            flags = self._fake(x, lambda: torch.empty(value.shape, dtype=torch.bool))
            mask = self._called(_ATEN.ne.Scalar, (x, 0), flags)
        return mask, self._size(_ATEN.sum.default, (mask,), count)

    def _size(self, target: Any, args: Sequence[Any], count: Any) -> Node:
        """Return the size `count` as the number that `target(*args)` is, an s64 scalar."""
        scalar = self._fake(args[0], lambda: torch.empty((), dtype=torch.int64))
        total = self._called(target, args, scalar)
        size = self._called(_ATEN._local_scalar_dense.default, (total,), count)
        (symbol,) = self.node.meta["unbacked_bindings"]
        size.meta["unbacked_bindings"] = {symbol: ()}
        return size

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


_EXPANSIONS: dict[Any, Callable[..., None]] = {
    _ATEN.nonzero.default: _Expansion.nonzero,
    _ATEN.index.Tensor: _Expansion.indexed,
    _ATEN.masked_select.default: _Expansion.selected,
    _ATEN.repeat_interleave.Tensor: _Expansion.repeated,
    _ATEN.bincount.default: _Expansion.counted,
    _ATEN._unique2.default: _Expansion.unique,
    _ATEN.unique_dim.default: _Expansion.unique_slices,
    _ATEN.unique_consecutive.default: _Expansion.consecutive,
}
"""What expands each op, called with its arguments."""
