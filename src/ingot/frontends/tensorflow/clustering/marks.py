# SPDX-License-Identifier: Apache-2.0
"""The attributes by which a node asks to be clustered, and the one of what clustering made.

Apart from the code that clusters: that is imported for the first graph with a mark.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ingot.frontends.tensorflow.partitioning.placement import is_compiled_alone

XLA_COMPILE = "_XlaCompile"
XLA_SCOPE = "_XlaScope"
XLA_MARKS = (XLA_COMPILE, XLA_SCOPE, "_XlaSeparateCompiledGradients")

CLUSTERED = "_IngotCluster"
"""Attribute of the nodes that clustering made, and of the nodes in the functions of clusters."""


def has_marks(nodes: Iterable[Any]) -> bool:
    """Whether nodes (NodeDefs) hold what the built-in XLA would compile."""
    return any(
        is_compiled_alone(node.op) or any(name in node.attr for name in XLA_MARKS) for node in nodes
    )
