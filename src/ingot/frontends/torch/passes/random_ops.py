# SPDX-License-Identifier: Apache-2.0
"""Random draws of a graph: each by itself (`keeps_draws_apart`), of sizes (`free_draws`).

`keeps_draws_apart` is for the partitioner. It merges equal nodes of a joint graph, and knows only
some draws as such: two `randn_like(x)` would be one, and the second augmentation of a pair the same
as the first.

`free_draws(graph)`, before `partitioning.placement`, makes draws depend on sizes, not values.

PyTorch's kernels draw random numbers between compiled programs, in PyTorch's order. `rand_like(h)`
and functional forms of in-place draws (`h.bernoulli_(p)`) take a tensor of which they only use
sizes, strides and element type. Here they get an empty tensor that they fill, so that all draws run
before the first program, and the rest stays one program.

Invariant: the drawn numbers and their order are unchanged: kernels fill memory in an order that
depends on sizes and strides.

Example:
    h = sin(x); d = bernoulli.p(h, 0.3); y = h * d
    e = empty_strided(...); d = bernoulli_.float(e, 0.3)     the host
    h = sin(x); y = h * d                                    one program
"""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch._functorch.config
from torch._functorch.compile_utils import get_aten_target, rand_ops
from torch._ops import HigherOrderOperator

from ingot.frontends.torch.fx.nodes import Node, is_random
from ingot.frontends.torch.passes.merged_numbers import value_of_call
from ingot.support.records import record

_ATEN: Any = torch.ops.aten
_CONFIG: Any = torch._functorch.config

_IN_PLACE: dict[Any, Any] = {
    _ATEN.bernoulli.p: _ATEN.bernoulli_.float,
    _ATEN.cauchy.default: _ATEN.cauchy_.default,
    _ATEN.exponential.default: _ATEN.exponential_.default,
    _ATEN.geometric.default: _ATEN.geometric_.default,
    _ATEN.log_normal.default: _ATEN.log_normal_.default,
    _ATEN.normal_functional.default: _ATEN.normal_.default,
    _ATEN.random.default: _ATEN.random_.default,
    getattr(_ATEN.random, "from"): getattr(_ATEN.random_, "from"),
    _ATEN.random.to: _ATEN.random_.to,
    _ATEN.uniform.default: _ATEN.uniform_.default,
}
"""Draws that replace the values of a tensor, and the op that fills it in place."""

_LIKE = frozenset(
    {
        _ATEN.rand_like.default,
        _ATEN.randint_like.default,
        _ATEN.randint_like.low_dtype,
        _ATEN.randn_like.default,
    }
)
"""Draws of a new tensor like another one."""

_EMPTY = frozenset({_ATEN.empty_strided.default})


_OPERAND = {"run_and_save_rng_state": 0, "run_with_rng_state": 1}
"""Higher-order ops that draw by an op, and which argument that is: PyTorch draws again with them.

Checkpointed layers do so. The first also returns the state before the draw; the second begins at a
state that it is given.
"""


def keeps_draws_apart(graph: Any) -> AbstractContextManager[None]:
    """Return a context in which the partitioner merges no draws of a joint graph.

    Args:
        graph: the joint graph. The partitioner merges nothing of it if an op that it does not know
            to be random is called more than once; programs merge equal ops themselves.
    """
    draws = Counter(
        node.target
        for node in graph.nodes
        if is_random(node.target) and get_aten_target(node) not in rand_ops
    )
    is_risky = any(count > 1 for count in draws.values())
    return _CONFIG.patch(cse=False) if is_risky else nullcontext()


@record
class _Draw:
    """A node that draws.

    Attributes:
        node: the node.
        op: the op that draws, which may be an argument of the node.
        args: what the op is called with.
        before: the arguments of the node before the op.
    """

    node: Node
    op: Any
    args: tuple[Any, ...]
    before: tuple[Any, ...] | None = None

    @classmethod
    def of(cls, node: Node) -> _Draw:
        name = node.target.name() if isinstance(node.target, HigherOrderOperator) else ""
        if name not in _OPERAND:
            return cls(node, node.target, node.args)
        number = _OPERAND[name]
        return cls(node, node.args[number], node.args[number + 1 :], node.args[:number])

    def replace(self, op: Any, *args: Any) -> None:
        """Let the node draw by another op."""
        if self.before is None:
            self.node.target, self.node.args = op, args
        else:
            self.node.args = (*self.before, op, *args)

    @property
    def drawn(self) -> Node:
        """The node of what is drawn: the second part of a pair whose first one is the state."""
        if self.before == ():
            return next(user for user in self.node.users if user.args[1] == 1)
        return self.node


def free_draws(graph: Any) -> None:
    """Make the draws of an ATen graph depend on sizes alone."""
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        draw = _Draw.of(node)
        if draw.before and "val" not in node.meta:  # PyTorch leaves it out.
            node.meta["val"] = value_of_call(draw.op, draw.args, node.kwargs)
        if draw.op is _ATEN.native_dropout.default and draw.args[2] is not False:
            _expand_dropout(graph, draw)
        elif draw.op in _IN_PLACE or draw.op in _LIKE:
            like = draw.args[0]
            if draw.op in _LIKE and like.op == "placeholder":
                continue  # It is there already.
            with graph.inserting_before(node):
                # The filled tensor has the strides of the result: PyTorch would copy `like`.
                value = like.meta["val"] if draw.op in _LIKE else draw.drawn.meta["val"]
                storage = _empty_like(graph, value, node)
            draw.replace(_IN_PLACE.get(draw.op, draw.op), storage, *draw.args[1:])
    graph.eliminate_dead_code()


def _empty_like(graph: Any, value: Any, origin: Node) -> Node:
    """Add an empty tensor of the sizes, strides and type of a fake one."""
    kind = {"dtype": value.dtype, "device": value.device}
    storage = graph.call_function(_ATEN.empty_strided.default, ((), ()), kind)
    # Set after its creation, since sizes may be symbols that are not nodes here.
    storage.args = (list(value.shape), list(value.stride()))
    storage.meta["val"] = value
    storage.meta["stack_trace"] = origin.meta.get("stack_trace")
    return storage


def _expand_dropout(graph: Any, draw: _Draw) -> None:
    """Replace `native_dropout` by the mask, which is drawn, and products with it.

    As PyTorch's kernel and its gradient do, the scale is rounded to the type of the values.
    """
    node, x, kept = draw.node, draw.args[0], 1.0 - draw.args[1]
    mask = draw.drawn
    value, mask.meta["val"] = mask.meta["val"]
    getters = {user.args[1]: user for user in mask.users}
    with graph.inserting_before(node):
        storage = _empty_like(graph, mask.meta["val"], mask)
    draw.replace(_ATEN.bernoulli_.float, storage, kept)
    with graph.inserting_before(mask.next):
        chosen = graph.call_function(_ATEN._to_copy.default, (mask,), {"dtype": value.dtype})
        factor = graph.call_function(_ATEN.mul.Tensor, (chosen, 1.0 / kept if kept else 0.0))
        scaled = graph.call_function(_ATEN.mul.Tensor, (x, factor))
    for made in (chosen, factor, scaled):
        made.meta["val"] = value
        made.meta["stack_trace"] = mask.meta.get("stack_trace")
    for number, replacement in enumerate((scaled, mask)):
        if number in getters:
            getters[number].replace_all_uses_with(replacement)
            graph.erase_node(getters[number])


def is_storage_of_draws(node: Node) -> bool:
    """Whether a node is an empty tensor that only draws use; the host allocates it."""
    if node.target not in _EMPTY:
        return False
    ops = [_Draw.of(user).op for user in node.users]
    return all(op in _LIKE or op in _IN_PLACE.values() for op in ops)
