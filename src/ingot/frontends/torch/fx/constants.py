# SPDX-License-Identifier: Apache-2.0
"""Tensors that a graph holds itself, as arrays that are known when a program is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import (
    _disable_current_modes,  # pyright: ignore[reportPrivateUsage]
)

from ingot.frontends.torch.fx.nodes import Node, attribute_of
from ingot.frontends.torch.fx.types import element_of

MOST_ELEMENTS = 64
"""Most elements of a tensor that becomes a constant of the program; larger ones are arguments."""


Constants = Mapping[Node, np.ndarray[Any, Any]]
"""The elements of nodes that are known when a program is compiled, row-major."""
NO_CONSTANTS: Constants = MappingProxyType({})


def array_of(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Return the elements of a tensor, row-major, as an array that shares its memory if it can."""
    with _disable_current_modes():
        dense = tensor.detach().resolve_conj().resolve_neg().contiguous()
        storage = element_of(dense.dtype).numpy
        words = dense.reshape(-1).view(torch.uint8).numpy()
        return words.view(storage).reshape(tuple(dense.shape))


def small_constants(graph: Any) -> Constants:
    """Return the small tensors among the attributes of a graph module, by their `get_attr` nodes.

    They never change, since AOTAutograd has made the graph functional.
    """
    found: dict[Node, np.ndarray[Any, Any]] = {}
    for node in graph.nodes:
        if node.op == "get_attr":
            value = attribute_of(node)
            if isinstance(value, torch.Tensor) and value.numel() <= MOST_ELEMENTS:
                found[node] = array_of(value)
    return found
