# SPDX-License-Identifier: Apache-2.0
"""Questions about nodes of PyTorch's graphs (`torch.fx`), whose values are fake tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import torch

Node = Any
"""An `fx.Node`; the package's types do not say what `meta` holds."""


def parts(value: object) -> list[Any]:
    """Return the items of a list or tuple, or what is neither as the only item."""
    return list(cast("Iterable[Any]", value)) if isinstance(value, tuple | list) else [value]


def flat(items: Iterable[object]) -> list[Any]:
    """Return items, with those of lists and tuples in their place.

    Example:
        >>> flat((1, [2, 3]))
        [1, 2, 3]
    """
    return [part for item in items for part in parts(item)]


def arguments(node: Node) -> list[Any]:
    """Return what a node is called with, lists taken apart."""
    return flat((*node.args, *node.kwargs.values()))


def tensors_of(node: Node) -> list[torch.Tensor]:
    """Return the fake tensors that a node gives."""
    return [value for value in parts(node.meta.get("val")) if isinstance(value, torch.Tensor)]


def is_tuple(node: Node) -> bool:
    """Whether a node gives several values."""
    return isinstance(node.meta.get("val"), tuple | list)


def is_size(node: Node) -> bool:
    """Whether a node is a size or another number that symbols decide."""
    return isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool)


def tensor_inputs(node: Node) -> list[Node]:
    """Return the nodes that a node takes, but for sizes."""
    return [item for item in node.all_input_nodes if not is_size(item)]


def is_random(target: Any) -> bool:
    """Whether an op draws from a generator."""
    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())
