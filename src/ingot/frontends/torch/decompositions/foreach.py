# SPDX-License-Identifier: Apache-2.0
"""Ops on lists of tensors (`_foreach_add`, what optimizers call) as ops on each tensor.

`decompositions` gives PyTorch's tracer a function for each of them, so the backend gets plain ops,
which fuse.

Example: `_foreach_addcdiv.Scalar(params, grads, squares, -0.1)` becomes
`addcdiv(param, grad, square, value=-0.1)` of each parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import torch

_PREFIX = "_foreach_"
_NAMED = ("alpha", "value")
"""Arguments that the op of one tensor takes by name only."""
_WITH_VALUE = ("addcmul", "addcdiv")
_OF_NUMBERS = {"maximum": "clamp_min", "minimum": "clamp_max"}
"""Functions that take a number, for names whose op takes tensors only."""

_TORCH: Any = torch
_ATEN = _TORCH.ops.aten


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return a function for each overload of a functional list op."""
    return {op: _each(op) for op in _list_ops()}


def _list_ops() -> Iterator[Any]:
    names: list[str] = _TORCH._C._dispatch_get_all_op_names()
    for full in sorted(names):
        name, _, overload = full.removeprefix("aten::").partition(".")
        if not full.startswith(f"aten::{_PREFIX}") or name.endswith("_"):
            continue
        op = getattr(getattr(_ATEN, name), overload or "default")
        arguments = op._schema.arguments
        if not any(argument.is_out for argument in arguments) and _target(op) is not None:
            yield op


def _target(op: Any) -> Callable[..., Any] | None:
    """Return the function of one tensor, None if there is none."""
    name = op._schema.name.removeprefix(f"aten::{_PREFIX}")
    overload = op._overloadname
    if name == "norm":
        return _norm
    if name == "zero":
        return torch.zeros_like
    if name in _WITH_VALUE and overload == "Tensor":
        return None  # one tensor with the factors of all, whose values are data
    if overload not in ("List", "default"):
        name = _OF_NUMBERS.get(name, name)
    return getattr(_ATEN, name, None)


def _norm(x: Any, ord: Any = 2, dtype: Any = None) -> Any:
    return _TORCH.linalg.vector_norm(x, ord, dtype=dtype)


def _each(op: Any) -> Callable[..., list[Any]]:
    """Return the function that calls the op of one tensor for each of a list."""
    target = _target(op)
    assert target is not None
    names = [argument.name for argument in op._schema.arguments]
    takes_value = any(name in op._schema.name for name in _WITH_VALUE)

    def apply(*args: Any, **kwargs: Any) -> list[Any]:
        given = dict(zip(names, args, strict=False)) | kwargs
        if takes_value and "scalars" in given:
            given["value"] = given.pop("scalars")
        count = next(len(value) for value in map(_items, given.values()) if value is not None)
        return [_call(target, given, number) for number in range(count)]

    return apply


def _items(value: Any) -> list[Any] | None:
    """Return the items of a list or tuple, None for anything else."""
    return list(cast("Iterable[Any]", value)) if isinstance(value, list | tuple) else None


def _call(target: Callable[..., Any], given: dict[str, Any], number: int) -> Any:
    def item(value: Any) -> Any:
        items = _items(value)
        return value if items is None else items[number]

    positional = [item(value) for name, value in given.items() if name not in _NAMED]
    named = {name: item(value) for name, value in given.items() if name in _NAMED}
    return target(*positional, **named)
