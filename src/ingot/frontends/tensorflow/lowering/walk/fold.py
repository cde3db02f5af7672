# SPDX-License-Identifier: Apache-2.0
"""Arithmetic at compile time on small known arrays, symbolic sizes included.

What TensorFlow programs compute from shapes (`tf.shape(x)[0] * 2`, paddings, permutations, the axes
that a gradient is summed over) must be known when the op that needs it is lowered. Everything here
gives a known array from known arrays, or None: then the op is lowered as usual.

Invariant: a fold never decides what depends on a symbolic size, and gives exactly what TensorFlow's
own kernel gives for the same numbers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from ingot.frontends.tensorflow.lowering.context.op import Op
from ingot.frontends.tensorflow.lowering.context.quotients import floor_quotient, floor_remainder
from ingot.frontends.tensorflow.lowering.context.values import (
    Array,
    Known,
    Size,
    Value,
    element_of,
    object_array,
    plain_size,
)
from ingot.frontends.tensorflow.lowering.indexing.strided import Strides
from ingot.hlo import dim as dim_math
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import greatest, least_finite

_MOST_INTEGERS, _MOST_FLOATS = 1024, 16
Fold = Callable[[Op, list[Array]], "Array | tuple[Array, ...] | None"]


def fold(op: Op) -> Value | tuple[Value, ...] | None:
    """Return the node's outputs if they can be known at compile time."""
    found = FOLDS.get(op.node.op)
    if found is None or not op.values:
        return None
    arrays: list[Array] = []
    for value in op.values:
        if not isinstance(value, Known) or not _is_small(value.array):
            return None
        arrays.append(value.array)
    try:
        with np.errstate(all="ignore"):
            made = found(op, arrays)
    except (ValueError, IndexError, OverflowError):  # Operands do not fit: the rule says why.
        return None
    if made is None:
        return None
    parts = [_as_array(part) for part in (made if isinstance(made, tuple) else (made,))]
    if not all(_is_small(part) for part in parts):
        return None
    results = tuple(_known(op, number, part) for number, part in enumerate(parts))
    return results if isinstance(made, tuple) else results[0]


def _known(op: Op, number: int, array: Array) -> Known:
    return Known.of(array, element_of(op.node.outputs[number].dtype))


def _as_array(part: Array) -> Array:
    """NumPy gives a lone object instead of an array of rank 0."""
    return np.asarray(part, dtype=object) if isinstance(part, Dim) else np.asarray(part)


def _is_small(array: Array) -> bool:
    return array.size <= (_MOST_INTEGERS if array.dtype.kind in "iubO" else _MOST_FLOATS)


def _has_negative(array: Array) -> bool:
    return bool((array < 0).any())


def _symbolic(*arrays: Array) -> bool:
    return any(array.dtype == object for array in arrays)


def _arithmetic(function: Callable[[Any, Any], Any], exact: Any = None) -> Fold:
    """Fold a binary op: on arrays as NumPy does, element by element where sizes are symbolic."""

    def folded(op: Op, arrays: list[Array]) -> Array | None:
        left, right = arrays
        if _symbolic(left, right):
            return np.frompyfunc(function, 2, 1)(left.astype(object), right.astype(object))
        return (exact or function)(left, right)

    return folded


def _division(function: Callable[[Any, Any], Any], exact: Any) -> Fold:
    def folded(op: Op, arrays: list[Array]) -> Array | None:
        left, right = arrays
        if any(not isinstance(item, Dim) and item == 0 for item in right.ravel()):
            return None
        if _symbolic(left, right):
            made = np.frompyfunc(function, 2, 1)(left.astype(object), right.astype(object))
            return None if any(item is None for item in np.ravel(made)) else made
        return exact(left, right)

    return folded


def _comparison(compare: Callable[[Any, Any], Any]) -> Fold:
    def folded(op: Op, arrays: list[Array]) -> Array | None:
        left, right = arrays
        if not _symbolic(left, right):
            return compare(left, right)
        difference = np.asarray(left.astype(object) - right.astype(object))
        if any(isinstance(item, Dim) for item in difference.ravel()):
            return None
        return compare(difference.astype(np.int64), 0)

    return folded


def _simple(function: Callable[..., Any]) -> Fold:
    """Fold an op by a NumPy function of its operands that only moves elements."""
    return lambda op, arrays: np.asarray(function(*arrays))


def _plain(function: Callable[..., Any]) -> Fold:
    """Fold an op by a NumPy function that needs plain numbers."""
    return lambda op, arrays: None if _symbolic(*arrays) else np.asarray(function(*arrays))


def _cast(op: Op, arrays: list[Array]) -> Array | None:
    (array,) = arrays
    target = element_of(op.node.outputs[0].dtype)
    source = op.dtype(0)
    if _symbolic(array):
        return array if target.is_integer else None
    if source.is_float and target.is_integer:
        # NumPy's answer for a number that the integers do not have is not `convert`'s.
        wide, low, high = array.astype(np.float64), least_finite(target), greatest(target)
        if not ((wide >= float(low)) & (wide < float(high + 1))).all():
            return None
    return array.astype(target.numpy)


def _reduction(function: Callable[[list[Any]], Any]) -> Fold:
    def folded(op: Op, arrays: list[Array]) -> Array | None:
        array, axes = arrays
        if array.dtype.kind == "f" or _symbolic(axes):
            return None
        # Raises for an axis that the array does not have.
        dimensions = set(
            normalize_axis_tuple(axes.ravel().tolist(), array.ndim, allow_duplicate=True)
        )
        if dimensions != set(range(array.ndim)):
            return None
        keep = bool(op.attribute("keep_dims", False))
        total: Any = function([plain_size(item) for item in array.ravel()])
        return np.asarray(total, dtype=object).reshape((1,) * array.ndim if keep else ())

    return folded


def _extreme(pick: Callable[[Size, Size], Size]) -> Callable[[list[Any]], Any]:
    def folded(items: list[Any]) -> Any:
        best = items[0]
        for item in items[1:]:
            best = pick(best, item)
        return best

    return folded


def _concat(op: Op, arrays: list[Array]) -> Array:
    return np.concatenate([np.asarray(a) for a in arrays[:-1]], axis=int(arrays[-1]))


def _concat_first(op: Op, arrays: list[Array]) -> Array:
    return np.concatenate(arrays[1:], axis=int(arrays[0]))


def _pack(op: Op, arrays: list[Array]) -> Array:
    if _symbolic(*arrays):
        arrays = [array.astype(object) for array in arrays]
    return np.stack(arrays, axis=int(op.attribute("axis", 0)))


def _unpack(op: Op, arrays: list[Array]) -> tuple[Array, ...]:
    axis = int(op.attribute("axis", 0))
    parts = np.moveaxis(arrays[0], axis, 0)
    return tuple(np.asarray(part, dtype=arrays[0].dtype) for part in parts)


def _split(op: Op, arrays: list[Array]) -> tuple[Array, ...] | None:
    """Axis, array: equal parts."""
    count, axis = int(op.attribute("num_split")), int(arrays[0])
    if arrays[1].shape[axis] % count:
        return None
    return tuple(np.split(arrays[1], count, axis))


def _split_v(op: Op, arrays: list[Array]) -> tuple[Array, ...] | None:
    """Array, sizes of the parts, axis."""
    if _symbolic(arrays[1]) or _has_negative(arrays[1]):
        return None
    axis, ends = int(arrays[2].ravel()[0]), np.cumsum(arrays[1])
    if not ends.size or ends.size != op.attribute("num_split") or ends[-1] != arrays[0].shape[axis]:
        return None
    return tuple(np.split(arrays[0], ends[:-1], axis))


def _gather(op: Op, arrays: list[Array]) -> Array | None:
    params, indices = arrays[:2]
    axis = int(arrays[2]) if len(arrays) > 2 else 0
    if _symbolic(indices) or op.attribute("batch_dims", 0) or _has_negative(indices):
        return None
    return np.asarray(np.take(params, indices, axis=axis))


def _reshape(op: Op, arrays: list[Array]) -> Array | None:
    if _symbolic(arrays[1]) or _has_negative(arrays[1] + 1):
        return None
    wanted = [int(n) for n in arrays[1].ravel()]
    # NumPy does not say what -1 stands for beside a 0.
    return None if 0 in wanted and -1 in wanted else arrays[0].reshape(wanted)


def _expand(op: Op, arrays: list[Array]) -> Array:
    return np.expand_dims(arrays[0], int(arrays[1].ravel()[0]))


def _squeeze(op: Op, arrays: list[Array]) -> Array:
    axes = op.attribute("squeeze_dims", ())
    return np.squeeze(arrays[0], axis=tuple(axes) if axes else None)


def _strided_slice(op: Op, arrays: list[Array]) -> Array | None:
    if _symbolic(*arrays[1:]):
        return None
    return np.asarray(arrays[0][Strides.of(op).as_index()], dtype=arrays[0].dtype)


def _slice(op: Op, arrays: list[Array]) -> Array | None:
    array, begin, size = arrays
    if _symbolic(begin, size):
        return None
    ends = [
        whole if s == -1 else int(b) + int(s)
        for b, s, whole in zip(begin, size, array.shape, strict=True)
    ]
    if not all(
        0 <= b <= end <= whole for b, end, whole in zip(begin, ends, array.shape, strict=True)
    ):
        return None
    return array[tuple(slice(int(b), end) for b, end in zip(begin, ends, strict=True))]


def _range(op: Op, arrays: list[Array]) -> Array | None:
    if _symbolic(*arrays) or arrays[0].dtype.kind == "f":
        return None
    start, limit, delta = (int(a) for a in arrays)
    if delta == 0 or (limit - start) * delta < 0:
        return None
    if abs(limit - start) // abs(delta) > _MOST_INTEGERS:
        return None
    return np.arange(start, limit, delta)


def _fill(op: Op, arrays: list[Array]) -> Array | None:
    dims, value = arrays
    if _symbolic(dims) or math.prod(dims.tolist()) > _MOST_INTEGERS:
        return None
    return np.full([int(n) for n in dims], value[()], dtype=value.dtype)


def _tile(op: Op, arrays: list[Array]) -> Array | None:
    array, repeats = arrays
    if _symbolic(repeats) or array.size * math.prod(repeats.tolist()) > _MOST_INTEGERS:
        return None
    return np.tile(array, [int(n) for n in repeats])


def _transpose(op: Op, arrays: list[Array]) -> Array | None:
    array, order = arrays
    return None if _symbolic(order) else np.transpose(array, [int(n) for n in order])


def _reverse(op: Op, arrays: list[Array]) -> Array | None:
    array, axes = arrays
    return None if _symbolic(axes) else np.flip(array, tuple(int(axis) for axis in axes))


def _inverse(op: Op, arrays: list[Array]) -> Array | None:
    (order,) = arrays
    if _symbolic(order) or not np.array_equal(np.sort(order), np.arange(order.size)):
        return None
    return np.argsort(order)


def _list_diff(op: Op, arrays: list[Array]) -> tuple[Array, ...] | None:
    if _symbolic(*arrays):
        return None
    kept = [n for n, item in enumerate(arrays[0]) if item not in arrays[1]]
    return arrays[0][kept], np.asarray(kept, np.int64)


def _dynamic_stitch(op: Op, arrays: list[Array]) -> Array | None:
    half = len(arrays) // 2
    indices, data = arrays[:half], arrays[half:]
    if (
        _symbolic(*indices)
        or any(map(_has_negative, indices))
        or any(part.ndim != index.ndim for part, index in zip(data, indices, strict=True))
    ):
        return None
    count = max((int(index.max()) + 1 for index in indices if index.size), default=0)
    merged = object_array([0] * count)
    for index, part in zip(indices, data, strict=True):
        for row, item in zip(index.ravel(), part.ravel(), strict=True):
            merged[int(row)] = plain_size(item)
    return merged


def _concat_offset(op: Op, arrays: list[Array]) -> tuple[Array, ...]:
    axis = op.axis_of(int(arrays[0]), len(arrays[1]))
    start: Size = 0
    offsets: list[Array] = []
    for shape in arrays[1:]:
        if not _fit(arrays[1], shape, axis):
            raise op.mistake(f"shapes {list(arrays[1])} and {list(shape)} cannot be concatenated")
        offset = object_array([0] * len(shape))
        offset[axis] = start
        offsets.append(offset)
        start = start + plain_size(shape[axis])
    return tuple(offsets)


def _fit(first: Array, second: Array, axis: int) -> bool:
    """Whether shapes may be equal but for the size of an axis: sizes that are not known may."""
    known = [
        at
        for at, pair in enumerate(zip(first, second, strict=False))
        if at != axis and not any(isinstance(size, Dim) for size in pair)
    ]
    return len(first) == len(second) and all(first[at] == second[at] for at in known)


def _broadcast_args(op: Op, arrays: list[Array]) -> Array | None:
    dims = op.b.broadcast_dims(tuple(map(plain_size, arrays[0])), tuple(map(plain_size, arrays[1])))
    return None if dims is None else object_array(list(dims))


def _broadcast_gradient_args(op: Op, arrays: list[Array]) -> tuple[Array, ...]:
    """Which axes of the broadcast result each operand's gradient is summed over."""
    shapes = [tuple(map(plain_size, array)) for array in arrays]
    dims = op.b.broadcast_dims(*shapes)
    if dims is None:
        raise op.mismatch(0, 1)
    rank = len(dims)
    return tuple(
        np.asarray(
            [
                axis
                for axis in range(rank)
                if axis < rank - len(shape) or shape[axis - (rank - len(shape))] == 1
            ],
            np.int64,
        )
        for shape in shapes
    )


FOLDS: dict[str, Fold] = {
    "Add": _arithmetic(operator.add),
    "AddV2": _arithmetic(operator.add),
    "Sub": _arithmetic(operator.sub),
    "Mul": _arithmetic(operator.mul),
    "Maximum": _arithmetic(dim_math.maximum, np.maximum),
    "Minimum": _arithmetic(dim_math.minimum, np.minimum),
    "FloorDiv": _division(floor_quotient, np.floor_divide),
    "FloorMod": _division(floor_remainder, np.mod),
    "RealDiv": _plain(np.divide),
    "Neg": _simple(operator.neg),
    "Floor": _plain(np.floor),
    "Ceil": _plain(np.ceil),
    "Equal": _comparison(operator.eq),
    "NotEqual": _comparison(operator.ne),
    "Less": _comparison(operator.lt),
    "LessEqual": _comparison(operator.le),
    "Greater": _comparison(operator.gt),
    "GreaterEqual": _comparison(operator.ge),
    "LogicalAnd": _plain(np.logical_and),
    "LogicalOr": _plain(np.logical_or),
    "LogicalNot": _plain(np.logical_not),
    "All": _reduction(all),
    "Any": _reduction(any),
    "Prod": _reduction(dim_math.product),
    "Sum": _reduction(lambda items: sum(items, 0)),
    "Max": _reduction(_extreme(dim_math.maximum)),
    "Min": _reduction(_extreme(dim_math.minimum)),
    "Cast": _cast,
    "Identity": lambda op, arrays: arrays[0],
    "Pack": _pack,
    "Split": _split,
    "SplitV": _split_v,
    "Unpack": _unpack,
    "ConcatV2": _concat,
    "Concat": _concat_first,
    "Gather": _gather,
    "GatherV2": _gather,
    "Reshape": _reshape,
    "ExpandDims": _expand,
    "Squeeze": _squeeze,
    "Slice": _slice,
    "StridedSlice": _strided_slice,
    "Range": _range,
    "Fill": _fill,
    "Tile": _tile,
    "Transpose": _transpose,
    "ReverseV2": _reverse,
    "ZerosLike": lambda op, arrays: np.zeros(arrays[0].shape, np.int64),
    "OnesLike": lambda op, arrays: np.ones(arrays[0].shape, np.int64),
    "Select": _plain(np.where),
    "SelectV2": _plain(np.where),
    "InvertPermutation": _inverse,
    "ListDiff": _list_diff,
    "BroadcastArgs": _broadcast_args,
    "ConcatOffset": _concat_offset,
    "DynamicStitch": _dynamic_stitch,
    "BroadcastGradientArgs": _broadcast_gradient_args,
}
