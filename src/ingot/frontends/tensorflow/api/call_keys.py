# SPDX-License-Identifier: Apache-2.0
"""What the arguments of an eager call say about which concrete function it is for.

    f({"x": tensor}, array, training=True) -> key, [tensor, array]

The key has the types and sizes of tensors and NumPy arrays, the values of plain Python arguments,
and the structure that they are in. Two calls with equal keys are equal to `tf.function`: it traces
for nothing that is not in the key.

Invariant: what is not known here (variables, objects, other tensors and containers) has no key.
Source: TensorFlow's `core/function/trace_type/trace_type_builder.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from ingot.frontends.tensorflow.api.modules import ops, tensorflow

_EAGER_TENSOR: Any = ops.EagerTensor
_PLAIN = frozenset((bool, int, float, str, type(None)))
_SEQUENCES = frozenset((tuple, list))
_NUMBERS = "biufc"
"""Kinds of NumPy's types that tensors have."""


class _UnknownError(Exception):
    """An argument has no key."""


def key_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Sequence[Any]] | None:
    """Return the key of a call and its tensors and arrays, in order; None if it has no key.

    They are `args` itself where there is nothing but tensors.
    """
    if not kwargs:
        # Most calls are like this, and this is the fastest way to find that out.
        try:
            return tuple([(item._datatype_enum(), item._shape_tuple()) for item in args]), args
        except AttributeError:
            pass
    leaves: list[Any] = []
    try:
        key = tuple([_key(item, leaves) for item in args])
        if kwargs:
            key = (key, tuple([(name, _key(item, leaves)) for name, item in kwargs.items()]))
    except _UnknownError:
        return None
    return key, leaves


def _key(item: Any, leaves: list[Any]) -> Any:
    kind = cast("Any", type(item))
    if kind is _EAGER_TENSOR:
        leaves.append(item)
        return item._datatype_enum(), item._shape_tuple()
    if kind in _PLAIN:
        return kind, item
    if kind in _SEQUENCES or _is_named(kind):
        return kind, tuple([_key(element, leaves) for element in item])
    if kind is dict:
        return kind, tuple([(name, _key(element, leaves)) for name, element in item.items()])
    # TensorFlow takes a NumPy scalar for an array too.
    if (kind is np.ndarray or issubclass(kind, np.generic)) and item.dtype.kind in _NUMBERS:
        leaves.append(item)
        return np.ndarray, item.dtype, item.shape
    raise _UnknownError


def _is_named(kind: Any) -> bool:
    """Whether a type is a named tuple."""
    return hasattr(kind, "_fields") and tuple in kind.__mro__


def as_tensors(leaves: Sequence[Any]) -> list[Any]:
    """Return the leaves of a call as EagerTensors."""
    convert = tensorflow.constant
    return [item if type(item) is _EAGER_TENSOR else convert(item) for item in leaves]


def with_leaves(
    args: Sequence[Any], kwargs: Mapping[str, Any], leaves: Sequence[Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call with other tensors and arrays in place of its own."""
    rest = iter(leaves)
    return [_replaced(item, rest) for item in args], {
        name: _replaced(item, rest) for name, item in kwargs.items()
    }


def _replaced(item: Any, rest: Any) -> Any:
    kind = cast("Any", type(item))
    if kind in _PLAIN:
        return item
    if _is_named(kind):
        return kind._make([_replaced(element, rest) for element in item])
    if kind in _SEQUENCES:
        made: Any = [_replaced(element, rest) for element in item]
        return made if kind is list else tuple(made)
    if kind is dict:
        return {name: _replaced(element, rest) for name, element in item.items()}
    return next(rest)
