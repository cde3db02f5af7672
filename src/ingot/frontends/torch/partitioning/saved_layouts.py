# SPDX-License-Identifier: Apache-2.0
"""Layouts of tensors that the forward program saves for the backward one: `saved_layouts`.

Only the two programs use such a tensor, so its layout is free. Convolutions compute with channels
last (`passes.simplify.convolutions`): their results, and those of following ops without a layout of
their own, are saved in that layout. With PyTorch's layout, channels first, each would be transposed
twice.

PyTorch's `TracingContext` takes the strides of the forward program's results and passes them to the
backward compiler, as it does for inductor (`torch/_functorch/_aot_autograd/graph_compile.py`).

Invariant: results that the caller gets, views, their roots, and arguments of PyTorch's kernels have
the strides that PyTorch traced.

Example:
    y = conv2d(x, w); z = y.relu()      z is kept for the gradient, with strides (h*w*c, 1, w*c, c)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import torch
from torch._guards import TracingContext

from ingot.frontends.torch.fx.layout import MemoryLayout, layout_of
from ingot.frontends.torch.fx.nodes import Node, tensor_inputs, tensors_of
from ingot.frontends.torch.fx.sizes import Size, Sizes, sizes_of
from ingot.frontends.torch.partitioning.placement import Placement
from ingot.support.records import record

_aten = torch.ops.aten

_KEEPS_LAYOUT = frozenset(
    {
        _aten._native_batch_norm_legit.default,
        _aten._native_batch_norm_legit.no_stats,
        _aten._native_batch_norm_legit_functional.default,
        _aten._native_batch_norm_legit_no_training.default,
        _aten._to_copy.default,
        _aten.alias.default,
        _aten.avg_pool1d.default,
        _aten.avg_pool2d.default,
        _aten.avg_pool3d.default,
        _aten.cat.default,
        _aten.clone.default,
        _aten.constant_pad_nd.default,
        _aten.detach.default,
        _aten.max_pool2d_with_indices.default,
        _aten.max_pool3d_with_indices.default,
        _aten.native_batch_norm.default,
        _aten.native_group_norm.default,
        _aten.upsample_bilinear2d.vec,
        _aten.upsample_nearest2d.vec,
    }
)
"""Ops on images that support any layout, besides pointwise ones."""


@record
class Layouts:
    """Layouts of tensors that differ from those that PyTorch traced.

    Attributes:
        chosen: the layout of each such tensor.
        restored: arguments among them that are copied to the traced layout when a call begins.
    """

    chosen: dict[Node, MemoryLayout] = field(default_factory=dict[Node, MemoryLayout])
    restored: frozenset[Node] = frozenset()

    def of(self, node: Node) -> MemoryLayout:
        """Return the layout in which programs take or return a node's tensor."""
        found = None if node in self.restored else self.chosen.get(node)
        return layout_of(node) if found is None else found


def saved_layouts(graph: Any, placement: Placement) -> Layouts:
    """Return the layouts of the tensors that a forward graph saves for the backward one.

    Args:
        graph: the forward graph.
        placement: where its nodes run.
    """
    results = _results(graph)
    fixed = {item for node in placement.host for item in node.all_input_nodes}
    fixed.update(placement.host, placement.views, placement.views.values(), placement.mutations)
    imagelike = _channels_last(graph)
    chosen: dict[Node, MemoryLayout] = {}
    for node in results[_saved()]:
        is_computed = isinstance(node, torch.fx.Node) and node.op == "call_function"
        if is_computed and node in imagelike and node not in fixed and results.count(node) == 1:
            strides = _channels_last_strides(sizes_of(node.meta["val"].shape))
            # PyTorch takes numbers.
            if strides != sizes_of(node.meta["val"].stride()) and _are_numbers(strides):
                chosen[node] = MemoryLayout.of(sizes_of(node.meta["val"].shape), strides)
    return Layouts(chosen)


def argument_layouts(graph: Any, placement: Placement, arguments: Sequence[Any]) -> Layouts:
    """Return the layouts of arguments that differ from the traced ones.

    Args:
        graph: the graph, whose placeholders were traced.
        placement: where its nodes run.
        arguments: the value of each placeholder, with its strides in memory.
    """
    placeholders = graph.find_nodes(op="placeholder")
    chosen: dict[Node, MemoryLayout] = {}
    for node, given in zip(placeholders, arguments, strict=True):
        traced = node.meta.get("val")
        if not _is_array(traced) or not _is_array(given):
            continue
        strides = sizes_of(given.stride())
        if strides != sizes_of(traced.stride()):
            chosen[node] = MemoryLayout.of(sizes_of(traced.shape), strides)
    as_traced = {item for node in placement.host for item in node.all_input_nodes}
    as_traced.update(placement.views.values(), _results(graph))
    as_traced.update(node.args[0] for node in placement.mutations)
    return Layouts(chosen, frozenset(as_traced & chosen.keys()))


def report_strides(graph: Any, layout_of_result: Callable[[Node], MemoryLayout | None]) -> None:
    """Tell PyTorch the strides of those results of a forward graph that were chosen."""
    context = TracingContext.try_get()
    if context is None or context.output_strides is None:
        return
    for node in _results(graph):
        layout = layout_of_result(node) if isinstance(node, torch.fx.Node) else None
        strides: Any = None if layout is None else layout.strides
        context.output_strides.append(strides)


def _saved() -> slice:
    """Return the results of the forward graph that the backward one gets; none if unknown."""
    context = TracingContext.try_get()
    if context is None or context.output_strides is None or context.fw_metadata is None:
        return slice(0)
    return context.fw_metadata.tensors_saved_for_backwards_slice


def _channels_last(graph: Any) -> set[Node]:
    """Return the tensors that are computed with their channels last in memory."""
    found: set[Node] = set()
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        if node.target is _aten.convolution.default:
            found.add(node)
        elif node.target is operator.getitem:
            if node.args[0] in found and _is_image(node.meta["val"]):
                found.add(node)
        elif _preserves_layout(node):
            first = tensors_of(node)[:1]
            like = [item for item in tensor_inputs(node) if item in found]
            ranks = {tensors_of(item)[0].dim() for item in like}
            if first and first[0].dim() in ranks:
                found.add(node)
    return found


def _preserves_layout(node: Node) -> bool:
    is_pointwise = torch.Tag.pointwise in getattr(node.target, "tags", ())
    return is_pointwise or node.target in _KEEPS_LAYOUT


def _is_image(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() > 2


def _channels_last_strides(sizes: Sizes) -> tuple[Size, ...]:
    """Return the strides of an image whose channels, its second dimension, are innermost."""
    strides: list[Size] = [0] * len(sizes)
    step: Size = 1
    for axis in (1, *range(len(sizes) - 1, 1, -1), 0):
        strides[axis] = step
        step = step * sizes[axis]
    return tuple(strides)


def _are_numbers(strides: Sequence[Size]) -> bool:
    return all(isinstance(step, int) for step in strides)


def _is_array(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def _results(graph: Any) -> list[Any]:
    (output,) = graph.find_nodes(op="output")
    return list(output.args[0])
