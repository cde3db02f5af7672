# SPDX-License-Identifier: Apache-2.0
"""What is computed from an argument that the program writes is saved: `save_before_writes(graph)`.

PyTorch's partitioner lets the backward pass compute again what is cheap, from arguments. If the
forward pass has written such an argument meanwhile, as a module's counter, the backward pass would
read the new value. So the readers of the old value are marked as not to be computed again.

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

from ingot.frontends.torch.nodes import Node, is_view


def save_before_writes(graph: Any) -> None:
    """Mark nodes of a joint graph that read an argument which the graph writes."""
    for node in graph.nodes:
        if node.op == "call_function" and node.target is torch.ops.aten.copy_.default:
            written = node.args[0]
            if written.op == "placeholder":
                for reader in _readers(written):
                    reader.meta["recompute"] = CheckpointPolicy.MUST_SAVE


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
