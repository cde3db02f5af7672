# SPDX-License-Identifier: Apache-2.0
"""Checks of what is known when a graph is compiled: `drop_metadata_checks(graph)`.

`torch.export` notes the element type and device of each tensor that a program converts, as a call
of `_assert_tensor_metadata` with no results. The fake tensors of the graph have both, so what they
fulfil needs no kernel.

Invariant: a check that fails, or that names sizes or strides, stays in the graph.

Example:
    _assert_tensor_metadata(x, None, None, torch.float32, device=cpu, layout=torch.strided)
"""

from __future__ import annotations

from typing import Any

import torch

from ingot.frontends.torch.fx.nodes import Node

_CHECK: Any = torch.ops.aten._assert_tensor_metadata.default


def drop_metadata_checks(graph: Any) -> None:
    """Erase the checks of an ATen graph that its fake tensors fulfil."""
    for node in list(graph.nodes):
        if node.target is _CHECK and _holds(node):
            graph.erase_node(node)


def _holds(node: Node) -> bool:
    value = node.args[0].meta["val"]
    names = ("size", "stride", "dtype")
    given = {**dict(zip(names, node.args[1:], strict=False)), **node.kwargs}
    wanted = {name: item for name, item in given.items() if item is not None}
    found = {"dtype": value.dtype, "device": value.device, "layout": value.layout}
    return all(found.get(name) == item for name, item in wanted.items())
