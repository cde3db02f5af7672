# SPDX-License-Identifier: Apache-2.0
"""`InternalOp`: an op by which a pass of Ingot replaces ops of PyTorch in a graph.

It has a rule like PyTorch's ops (`RuleTable("ingot")`), and a definition in PyTorch's ops in case
the rule does not support its arguments.

Invariant: it draws nothing, writes nothing, and its results alias nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class InternalOp:
    """An op; `str(op)` is the name of its rule, `ingot.name.default`.

    Attributes:
        name: its name.
    """

    __slots__ = ("__name__", "_eager", "name")

    def __init__(self, name: str, eager: Callable[..., Any]) -> None:
        """Name an op that `eager` computes from tensors and numbers."""
        self.name = self.__name__ = name
        self._eager = eager

    def __call__(self, *args: Any) -> Any:
        """Compute the op with PyTorch."""
        return self._eager(*args)

    def __str__(self) -> str:
        return f"ingot.{self.name}.default"
