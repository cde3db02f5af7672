# SPDX-License-Identifier: Apache-2.0
"""Rows of a `scan` that are the same in each step: `share_invariants(joint_module)`.

PyTorch's gradient of `scan` keeps what each step's gradient needs as a stack with a row for each
step. What a step makes of the operands that do not change alone, as the transposed weight of a
linear layer, would be kept as many times as there are steps. Here such a row is computed once,
before the loop, and the scan of the gradient takes it as an operand that does not change.

Must run on the joint graph: what is saved between the two passes is decided after it. The stacks
that nothing reads any more are dropped with the loop's state (`while-loop-simplifier`).

Example:
    scan(body, init, [x], (w,))     body: (h, x, w) -> h', t_copy(w)
    stack = getitem(scan, 1); scan(gradient, ..., [flip(stack)], ())
becomes
    t = t_copy(w); scan(gradient, ..., [], (t,))
"""

from __future__ import annotations

import copy
import operator
from typing import Any

import torch
from torch._higher_order_ops.scan import scan_op

from ingot.frontends.torch.fx.nodes import Node, attribute_of, has_effects

_ATEN: Any = torch.ops.aten


def share_invariants(joint_module: Any) -> None:
    """Compute rows that are the same in each step of a scan once; mends the graph in place."""
    graph = joint_module.graph
    shared: dict[Node, Node] = {}
    for node in [node for node in graph.nodes if node.target is scan_op]:
        _take_shared(joint_module, node, shared)
        shared.update(_hoisted(joint_module, node))
    if shared:
        graph.eliminate_dead_code()
        joint_module.recompile()


def _hoisted(module: Any, node: Node) -> dict[Node, Node]:
    """Copy invariant rows in front of a scan; return each stack of such rows, with its row."""
    body = attribute_of(node.args[0]).graph
    _, init, xs, others = node.args
    given = body.find_nodes(op="placeholder")
    copies: dict[Node, Node] = dict(zip(given[len(init) + len(xs) :], others, strict=True))
    (rows,) = body.output_node().args
    found: dict[Node, Node] = {}
    for user in [user for user in node.users if user.target is operator.getitem]:
        row = rows[user.args[1]]
        if user.args[1] < len(init) or not isinstance(row, torch.fx.Node):
            continue
        needed = _invariant_cone(row, set(copies))
        if needed is None:
            continue
        with module.graph.inserting_before(node):
            for inner in needed:
                copies[inner] = module.graph.node_copy(inner, copies.__getitem__)
        found[user] = copies[row]
    return found


def _invariant_cone(row: Node, known: set[Node]) -> list[Node] | None:
    """Return the nodes that compute `row` from `known` ones, in order; None if it needs others."""
    inner, needed = [row], set[Node]()
    while inner:
        node = inner.pop()
        if node in known or node in needed:
            continue
        if node.op != "call_function" or has_effects(node):
            return None
        needed.add(node)
        inner.extend(node.all_input_nodes)
    return [node for node in row.graph.nodes if node in needed]


def _take_shared(module: Any, node: Node, shared: dict[Node, Node]) -> None:
    """Let a scan take rows that are the same in each step as operands that do not change."""
    graph, init, xs, others = node.args
    rows = {n: shared[stack] for n, x in enumerate(xs) if (stack := _unflipped(x)) in shared}
    # Without any stack there is no number of steps.
    if not rows or len(rows) == len(xs):
        return
    body = copy.deepcopy(attribute_of(graph))
    given = body.graph.find_nodes(op="placeholder")
    last = given[-1]
    for number in rows:
        last.append(given[len(init) + number])
        last = given[len(init) + number]
    body.recompile()
    name = f"_shared_rows_{node.name}"
    setattr(module, name, body)
    with module.graph.inserting_before(node):
        held = module.graph.get_attr(name)
    left = [x for n, x in enumerate(xs) if n not in rows]
    node.args = (held, init, left, (*others, *rows.values()))


def _unflipped(node: Node) -> Node:
    """Return the stack whose rows a node has, in the one or the other order."""
    while node.target is _ATEN.flip.default and list(node.args[1]) == [0]:
        node = node.args[0]
    return node
