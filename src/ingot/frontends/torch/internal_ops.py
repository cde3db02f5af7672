# SPDX-License-Identifier: Apache-2.0
"""`InternalOp`: an op that a pass of Ingot puts into a graph in the place of PyTorch's.

It has a rule as PyTorch's ops have (`RuleTable("ingot")`), and a definition in PyTorch's ops for
where the rule does not take its arguments.

Invariant: it draws nothing, writes nothing, and its results alias nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class InternalOp:
    """An op; `str(op)` is the name of its rule, `ingot.name.default`.

    Attributes:
        name: what it does.
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
