# SPDX-License-Identifier: Apache-2.0
"""Which nodes of a graph are compiled, and which PyTorch's own kernels run between programs.

The host runs nodes that draw random numbers (so that they are those of PyTorch's generator, in its
order), nodes with effects outside of tensors, and ops without a rule; the last with a warning once
for each op, or an error in strict mode. It also computes numbers that are not sizes. Sizes run
nowhere: they are expressions of the graph's symbols.

Invariant: a node that is compiled has a rule, and its values have element types that HLO has.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable
from dataclasses import field
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload

from ingot.frontends.torch.fx.layout import layout_of
from ingot.frontends.torch.fx.locations import metadata_of
from ingot.frontends.torch.fx.nodes import (
    WITHOUT_EFFECTS,
    Node,
    has_effects_of_its_own,
    is_graph,
    is_impure,
    is_number,
    is_size,
    tensor_inputs,
    tensors_of,
)
from ingot.frontends.torch.fx.sizes import sizes_of
from ingot.frontends.torch.fx.types import element_of
from ingot.frontends.torch.lowering import rules
from ingot.frontends.torch.lowering.context.symbols import (
    is_read,
    read_in_bodies,
    sizes_of_result,
    with_bodies,
)
from ingot.frontends.torch.lowering.linalg_ops import grouped_products
from ingot.frontends.torch.partitioning.views import offsets_that_data_decides, views_of
from ingot.frontends.torch.passes.random_ops import is_storage_of_draws
from ingot.hlo.dim import symbols_of
from ingot.support.diagnostics import UnsupportedError
from ingot.support.flags import STRICT, IngotWarning
from ingot.support.records import mutable

_warned: set[str] = set()
"""The ops that this process has warned about; there are at most as many as PyTorch has."""


@mutable
class Placement:
    """Where the nodes of one graph run.

    Attributes:
        host: the nodes that PyTorch runs, and why; empty for those that always run there.
        mutations: nodes that write a value into an argument, in place.
        views: nodes that are made as views, with the tensor in memory that each is a view of.
    """

    host: dict[Node, str] = field(default_factory=dict[Node, str])
    mutations: set[Node] = field(default_factory=set[Node])
    views: dict[Node, Node] = field(default_factory=dict[Node, Node])


def placement_of(graph: Any, refused: dict[Node, str], *, reports: bool = True) -> Placement:
    """Return where each node runs.

    Args:
        graph: the `fx.Graph`.
        refused: nodes whose rule does not take their arguments, with the reason.
        reports: whether to warn of ops without a rule; the caller may refuse them instead.

    Raises:
        UnsupportedError: INGOT0373, a node must run on the host, in strict mode.
    """
    found = Placement()
    for node in graph.nodes:
        if node.op != "call_function" or is_size(node):
            continue
        if _is_mutation(node):
            found.mutations.add(node)
            continue
        why = refused.get(node) or _why_on_host(node, found.host)
        if why is not None:
            found.host[node] = why
    found.views = views_of(graph, found.host)
    moved = [item for view in found.views for item in offsets_that_data_decides(view)]
    if moved:
        found.host.update(dict.fromkeys(moved, ""))
        found.views = views_of(graph, found.host)
    if reports:
        _report((node, why) for node, why in found.host.items() if why)
    return found


def _is_mutation(node: Node) -> bool:
    """Whether a node is `copy_` into an argument that is a whole array in memory."""
    if not _is_copy(node):
        return False
    to = node.args[0]
    layout = layout_of(to)
    return to.op == "placeholder" and layout.order is not None and not layout.repeats


def _why_on_host(node: Node, host: dict[Node, str]) -> str | None:
    """Return why a node runs on the host, "" if it always does, None if it is compiled."""
    if node.target is operator.getitem:
        # An element of a result runs where the result does.
        return "" if node.args[0] in host else None
    if is_number(node) or is_impure(node):
        return ""
    if is_storage_of_draws(node) or _is_of_a_library(node.target) or _is_copy(node):
        return ""
    if not rules.has_rule(node.target):
        return "Ingot has no rule for it"
    if grouped_products.is_faster_on_host(node):
        return ""
    if any(is_graph(item) for item in node.all_input_nodes):
        return _why_body_on_host(node)
    try:
        for item in (node, *tensor_inputs(node)):
            for tensor in tensors_of(item):
                _check(tensor)
    except UnsupportedError as error:
        return error.diagnostic.message
    return None


def _is_copy(node: Node) -> bool:
    return node.target is torch.ops.aten.copy_.default


def _is_of_a_library(target: Any) -> bool:
    """Whether an op is of another library (`torch.library`), or writes through one of those."""
    if isinstance(target, HigherOrderOperator):
        return str(target).startswith("auto_functionalized")
    return isinstance(target, OpOverload) and target.namespace not in WITHOUT_EFFECTS


def _why_body_on_host(node: Node) -> str | None:
    """Return why the bodies of a higher-order op cannot be compiled; None if they can."""
    read = read_in_bodies([node])
    for inner in with_bodies([node]):
        if inner is node or inner.op != "call_function" or is_size(inner):
            continue
        if inner.target is operator.getitem:
            continue
        if is_read(inner):
            continue
        if read and read & symbols_of(sizes_of_result(inner)):
            return f"its body calls {inner.target} with a size that the body computes"
        if is_number(inner) or has_effects_of_its_own(inner):
            return f"its body calls {inner.target}, which PyTorch always runs"
        if not rules.has_rule(inner.target):
            return f"its body calls {inner.target}, and Ingot has no rule for that"
    return None


def _check(tensor: torch.Tensor) -> None:
    """Raise UnsupportedError for a tensor that HLO cannot hold."""
    if tensor.layout is not torch.strided or tensor.device.type != "cpu":
        raise UnsupportedError(f"it has a {tensor.layout} tensor on {tensor.device}")
    element_of(tensor.dtype)
    sizes_of(tensor.shape)
    sizes_of(tensor.stride())


def _report(rows: Iterable[tuple[Node, str]]) -> None:
    """Warn once per op, or raise in strict mode."""
    for node, why in rows:
        name, location = str(node.target), metadata_of(node).location
        if STRICT.value():
            raise UnsupportedError(
                f"{name} cannot be compiled: {why}",
                code="INGOT0373",
                op_type=name,
                op_name=node.name,
                location=location,
                hint="unset INGOT_STRICT to let PyTorch run it between compiled programs",
            )
        if name not in _warned:
            _warned.add(name)
            where = f" ({location})" if location else ""
            text = f"{name} is run by PyTorch between compiled programs{where}: {why}"
            warnings.warn(text, IngotWarning, stacklevel=2)
