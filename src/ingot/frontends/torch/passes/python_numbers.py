# SPDX-License-Identifier: Apache-2.0
"""Floats that Python's `random` draws as a program runs: `full_precision(graph_module, inputs)`.

TorchDynamo turns such a float into a tensor without dimensions. It traces with f32 but passes f64
when the program runs. Here the argument is f64 from the start, and it is converted where the traced
result has another element type: a float of Python does not change element types.

Example:
    y = x * random_value        x: f32, random_value: f32 in the graph, f64 in the call
    r = random_value.to(f32); y = x * r
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._dynamo.source import RandomValueSource


def full_precision(graph_module: Any, inputs: Sequence[Any]) -> list[Any]:
    """Give drawn floats of a graph of TorchDynamo the element type that calls pass.

    Args:
        graph_module: the graph; it is changed.
        inputs: its arguments, in the order of its placeholders.

    Returns:
        The arguments, with f64 tensors for drawn floats.
    """
    graph, made = graph_module.graph, list(inputs)
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    for number, node in enumerate(placeholders):
        value = made[number]
        drawn = isinstance(getattr(node.meta.get("grapharg"), "source", None), RandomValueSource)
        if not drawn or not value.is_floating_point() or value.dtype == torch.float64:
            continue
        made[number] = value.to(torch.float64)
        users = [user for user in node.users if not _is_f64(user)]
        with graph.inserting_after(placeholders[-1]):
            narrow = graph.call_method("to", (node, value.dtype))
        for user in users:
            user.replace_input_with(node, narrow)
        graph_module.recompile()
    return made


def _is_f64(node: Any) -> bool:
    value = node.meta.get("example_value")
    return isinstance(value, torch.Tensor) and value.dtype == torch.float64
