# SPDX-License-Identifier: Apache-2.0
"""`Piece`: the nodes of a graph that become one program, from `partitioning` to `lowering`.

Invariant: nodes are in order, and each takes only inputs and earlier nodes of the piece.
"""

from __future__ import annotations

from ingot.frontends.torch.fx.nodes import Node
from ingot.support.records import record


@record
class Piece:
    """Nodes that become one program.

    Attributes:
        nodes: the nodes that are computed, in order.
        inputs: tensors from outside: arguments, constants, results of other steps.
        outputs: tensors that other steps or the caller need, and writes into arguments.
        mutations: the outputs that are written into an input, which is their first argument.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    mutations: frozenset[Node]
