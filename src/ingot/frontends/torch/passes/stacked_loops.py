# SPDX-License-Identifier: Apache-2.0
"""Loops that save the state of each iteration: `expand_stacked_loops(graph)`.

The gradient of `while_loop` needs the carried values of each iteration: PyTorch calls
`while_loop_stack_output`, whose results have a row for each iteration. Here one program counts the
iterations, the count becomes a size, and the next program fills the rows.

Invariant: the loop is run twice; no result depends on a size that is not known before its program.

Example:
    stacks = while_loop_stack_output(cond, body, (i, x), (w,))      f32[u2, 5, 3]
    n = turns(cond, body, (i, x), (w,)); u2 = item(clamp(n, 1))
    stacks = filled_stacks(body, n, u2, (i, x), (w,))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._higher_order_ops.while_loop import while_loop_stack_output_op
from torch._subclasses.fake_tensor import FakeTensor

from ingot.frontends.torch.fx.internal_ops import InternalOp
from ingot.frontends.torch.fx.nodes import Node, arguments, parts

_ATEN: Any = torch.ops.aten

Body = Callable[..., Any]


def _count(condition: Body, body: Body, carried: Sequence[Any], others: Sequence[Any]) -> Any:
    number, state = 0, tuple(carried)
    while condition(*state, *others):
        number, state = number + 1, tuple(body(*state, *others))
    return torch.tensor(number)


def _fill(body: Body, number: Any, rows: int, carried: Sequence[Any], others: Sequence[Any]) -> Any:
    stacks = tuple(x.expand(rows, *x.shape).clone() for x in carried)
    state = tuple(carried)
    for turn in range(int(number)):
        state = tuple(body(*state, *others))
        for stack, value in zip(stacks, state, strict=True):
            stack[turn] = value
    return stacks


TURNS = InternalOp("loop_turns", _count)
"""`(condition, body, carried, others)`: the trip count of a `while_loop`, `i64[]`."""
STACKS = InternalOp("loop_stacks", _fill)
"""`(body, number, rows, carried, others)`: the carried values after each iteration of the loop.

Each result has `rows` rows: `number`, or for a loop without iterations 1, with the initial values.
"""


def expand_stacked_loops(graph: Any) -> None:
    """Replace `while_loop_stack_output` by a count, the size that it is, and a loop of that."""
    for node in list(graph.nodes):
        if node.target is while_loop_stack_output_op and _is_plain(node):
            _expand(graph, node)


def _is_plain(node: Node) -> bool:
    """Whether all carried values are tensors, and the trip count is a new size."""
    carried = [item.meta.get("val") for item in parts(node.args[2])]
    bound: dict[Any, Any] = node.meta.get("unbacked_bindings") or {}
    return len(bound) == 1 and all(isinstance(value, torch.Tensor) for value in carried)


def _expand(graph: Any, node: Node) -> None:
    condition, body, carried, others = node.args
    (symbol,) = node.meta["unbacked_bindings"]
    stacks = node.meta["val"]
    tensors = [x.meta.get("val") for x in arguments(node) if isinstance(x, torch.fx.Node)]
    mode = next(value.fake_mode for value in tensors if isinstance(value, FakeTensor))
    with mode:
        number_value = torch.empty((), dtype=torch.int64)

    def called(target: Any, args: tuple[Any, ...], value: Any) -> Node:
        made = graph.call_function(target, args)
        made.meta.update(val=value, stack_trace=node.meta.get("stack_trace"))
        return made

    with graph.inserting_before(node):
        number = called(TURNS, (condition, body, carried, others), number_value)
        least = called(_ATEN.clamp.default, (number, 1), number_value)
        rows = called(_ATEN._local_scalar_dense.default, (least,), stacks[0].shape[0])
        rows.meta["unbacked_bindings"] = {symbol: ()}
        filled = called(STACKS, (body, number, rows, carried, others), stacks)
    node.replace_all_uses_with(filled)
    graph.erase_node(node)
