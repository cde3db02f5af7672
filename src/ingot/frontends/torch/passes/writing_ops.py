# SPDX-License-Identifier: Apache-2.0
"""Ops of libraries that write into their arguments (`torch.library`, `mutates_args`).

AOTAutograd calls such an op through `auto_functionalized_v2`, which copies what the op writes and
returns the copies as results. Here a copy is left out where nobody needs the old value: the op then
writes into the argument of the graph, as it does without compilation (a cache of keys and values),
or into what was computed for it alone. `write_in_place` finds these, and a `WritingOp` is called in
the place of PyTorch's function, whose arguments it reads once and not in every call.

Invariant: what an op writes without a copy has no other reader, neither before nor after the op.

Source: torch/_higher_order_ops/auto_functionalize.py, torch/_inductor/fx_passes/reinplace.py.

Example:
    cache_write(cache, x)      the graph's last step is no copy of the new cache into the old one
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import _prims_common
from torch._higher_order_ops.auto_functionalize import (
    auto_functionalized_v2,
    auto_functionalized_v2_dense,
    get_mutable_args,
)
from torch._library.utils import is_out, is_tensorlist_like_type
from torch._ops import OpOverload

from ingot.frontends.torch.fx.layout import layout_of
from ingot.frontends.torch.fx.nodes import Node

_aten = torch.ops.aten

_IN_PLACE = "ingot_in_place"
"""The key in a node's `meta` of the numbers of the tensors that its op writes without a copy."""

View = Callable[[Any, dict[str, Any]], Any]
"""Returns a view of a tensor; takes the arguments that say which view out of a dictionary."""


def is_writing_op(node: Node) -> bool:
    """Whether a node calls an op of a library that writes into its arguments."""
    return (
        node.target is auto_functionalized_v2
        and isinstance(node.args[0], OpOverload)
        and not is_out(node.args[0])
    )


def write_in_place(graph: Any) -> None:
    """Note which tensors of a graph's ops are written without a copy, and drop their copies."""
    for node in graph.nodes:
        if not is_writing_op(node):
            continue
        op: Any = node.args[0]
        results = len(op._schema.returns) or 1
        found: list[int] = []
        for number, base in enumerate(node.kwargs["_all_bases"]):
            if base is None:
                continue
            others = [user for user in base.users if user is not node]
            if not others and _is_fresh(base):
                found.append(number)
            elif len(others) == 1 and _is_copy_back(others[0], base, node, results + number):
                graph.erase_node(others[0])
                found.append(number)
        node.meta[_IN_PLACE] = tuple(found)


def _is_fresh(base: Node) -> bool:
    """Whether an op made a tensor of its own."""
    target: Any = base.target
    if not isinstance(target, OpOverload) or target.namespace != "aten":
        return False
    return torch.Tag.pointwise in target.tags or target.name().partition(".")[0] in _MAKERS


_MAKERS = frozenset({"aten::empty", "aten::full", "aten::clone", "aten::new_empty", "aten::mm"})
"""Ops that make a tensor of their own, besides pointwise ones."""


def _is_copy_back(user: Node, base: Node, node: Node, number: int) -> bool:
    """Whether a node copies result `number` of an op into the argument that the op wrote."""
    if base.op != "placeholder" or user.target is not _aten.copy_.default or user.users:
        return False
    to, value = user.args[:2]
    is_result = value.target is operator.getitem and value.args == (node, number)
    return to is base and is_result


class WritingOp:
    """Calls an op that writes into its arguments; takes the arguments of `auto_functionalized_v2`.

    Only tensors that are written are copied before, and only those which `write_in_place` did not
    find.
    """

    __slots__ = ("_copies", "_views")

    def __init__(self, node: Node) -> None:
        """Read how the arguments of a node say what is written."""
        in_place: Sequence[int] = node.meta.get(_IN_PLACE, ())
        self._copies: list[tuple[int, Callable[[Any], Any]]] = []
        for number, base in enumerate(node.kwargs["_all_bases"]):
            if base is not None and number not in in_place:
                self._copies.append((number, _copy_of(base)))
        names, _ = get_mutable_args(node.args[0])
        self._views = [(name, *_view(f"_{name}", node.kwargs)) for name in names]

    def __call__(self, op: Any, **given: Any) -> tuple[Any, ...]:
        """Return the op's results, then the written tensors."""
        bases = list(given.pop("_all_bases"))
        for number, copy in self._copies:
            bases[number] = copy(bases[number])
        for name, key, view in self._views:
            number = given.pop(key)
            given[name] = None if number is None else view(bases[number], given)
        out: Any = op(**given)
        results: tuple[Any, ...] = cast("Any", out) if isinstance(out, tuple) else (out,)
        return (*results, *bases)


def calling(node: Node) -> Callable[..., Any]:
    """Return what a program calls for a node of which `is_writing_op` holds."""
    names, types = get_mutable_args(node.args[0])
    if names and any(map(is_tensorlist_like_type, types)):
        in_place: Sequence[int] = node.meta.get(_IN_PLACE, ())
        copied = tuple(n for n in range(len(node.kwargs["_all_bases"])) if n not in in_place)
        return partial(auto_functionalized_v2_dense, _only_clone_these_bases=copied)
    return WritingOp(node)


def _copy_of(base: Node) -> Callable[[Any], Any]:
    """Return what copies a tensor with its strides."""
    layout = layout_of(base)
    is_whole = layout.order is not None and not layout.repeats
    module = cast("Any", _prims_common)
    return cast("Any", torch.Tensor.clone) if is_whole else module.clone_preserve_strides


def _view(prefix: str, given: dict[str, Any]) -> tuple[str, View]:
    """Return the argument with the number of the tensor, and what makes the view of it."""
    view: View = _whole
    if f"{prefix}_alias" in given:
        view = partial(_without, f"{prefix}_alias")
    elif f"{prefix}_storage_offset" in given:
        view = partial(_strided, prefix)
    elif f"{prefix}_slice_dim" in given:
        view = partial(_sliced, prefix)
    return f"{prefix}_base_index", view


def _whole(base: Any, given: dict[str, Any]) -> Any:
    del given
    return base


def _without(key: str, base: Any, given: dict[str, Any]) -> Any:
    del given[key]
    return base


def _strided(prefix: str, base: Any, given: dict[str, Any]) -> Any:
    return base.as_strided(
        *(given.pop(f"{prefix}_{key}") for key in ("size", "stride", "storage_offset"))
    )


def _sliced(prefix: str, base: Any, given: dict[str, Any]) -> Any:
    bounds = (given.pop(f"{prefix}_slice_{key}") for key in ("dim", "start", "end"))
    return _aten.slice.Tensor(base, *bounds)
