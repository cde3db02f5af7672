# SPDX-License-Identifier: Apache-2.0
"""What is computed from an argument that the program writes is saved: `saves_written(forward)`.

PyTorch's partitioner lets the backward pass compute again what is cheap, from arguments. If the
forward pass has written such an argument meanwhile, as a module's counter, the backward pass would
read the new value. Where the partitioner chose so, the readers of the old value are marked as not
to be computed again (`mark_readers`), and the graph is partitioned anew.

Invariant: of what the backward pass gets, nothing is an argument that the forward pass writes, or a
view of one, unless the backward pass reads that itself, which eager refuses.

Example:
    self.count += 1; return x / self.count
    saved: count + 1, not count
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.checkpoint import CheckpointPolicy

from ingot.frontends.torch.fx.nodes import Node, is_tuple, is_view


def saves_written(forward: Any, results: int) -> bool:
    """Whether a forward graph gives the backward pass an argument that it writes, or a view of one.

    Args:
        forward: the graph.
        results: how many of its outputs are not for the backward pass.
    """
    written = set(_written(forward))
    (output,) = forward.find_nodes(op="output")
    return any(
        _viewed(item) in written
        for item in output.args[0][results:]
        if isinstance(item, torch.fx.Node)
    )


def mark_readers(graph: Any) -> None:
    """Mark nodes of a joint graph that read an argument which the graph writes."""
    for written in _written(graph):
        for reader in _readers(written):
            reader.meta["recompute"] = CheckpointPolicy.MUST_SAVE
            if is_tuple(reader):
                # Its elements are saved; a layer under a checkpoint has them computed again.
                for element in reader.users:
                    element.meta.pop("recompute", None)


def _written(graph: Any) -> list[Node]:
    copies = graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    return [node.args[0] for node in copies if node.args[0].op == "placeholder"]


def _viewed(node: Node) -> Node:
    """Return the tensor that a node is a view of; the node itself if it is none."""
    while node.op == "call_function" and is_view(node):
        node = node.args[0]
    return node


def _readers(written: Node) -> Iterator[Node]:
    """Yield the nodes that read a tensor, or a view of it."""
    waiting = [written]
    while waiting:
        for user in waiting.pop().users:
            if user.op != "call_function" or user.target is torch.ops.aten.copy_.default:
                continue
            if is_view(user):
                waiting.append(user)
            else:
                yield user
