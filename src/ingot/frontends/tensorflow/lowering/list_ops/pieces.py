# SPDX-License-Identifier: Apache-2.0
"""TensorLists and the tensor that their elements make end to end: `TensorArray.split`, `concat`.

A list's elements lie in one buffer, so they have one shape: pieces of equal lengths.
Source: TensorFlow's `kernels/list_kernels.h`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import (
    Known,
    Size,
    TensorList,
    Value,
    plain_size,
)
from ingot.frontends.tensorflow.lowering.indexing.index_checks import dims_text
from ingot.frontends.tensorflow.lowering.list_ops.tensor_lists import elements_of
from ingot.hlo.dtype import S64
from ingot.hlo.shape import Shape


def _split(op: Op) -> Value:
    """tensor, element shape, lengths."""
    tensor = op.tensor(0)
    if tensor.shape.rank == 0:
        raise op.mistake("Tensor must be at least a vector, but saw shape: []")
    if op.rank(2) != 1:
        shape = dims_text(op.dims(2))
        raise op.mistake(f"Expected lengths to be a vector, received shape: [{shape}]")
    lengths = op.integers(2, "lengths of the pieces")
    size, *rest = tensor.shape.dims
    _check_lengths(op, lengths, size)
    if len(set(lengths)) != 1:
        raise op.error("a tensor is split into pieces of different lengths")
    count, length = len(lengths), lengths[0]
    dims = (length, *rest)
    buffer = op.b.reshape_to(tensor, (count, *dims))
    return TensorList(buffer, count, tensor.shape.dtype, dims)


def _check_lengths(op: Op, lengths: Sequence[int], size: Size) -> None:
    """Refuse lengths of pieces that are not all of a dimension of this size."""
    end = 0
    for length in lengths:
        start, end = end, end + length
        if length < 0:
            raise op.mistake(f"Invalid value in lengths: {length}")
        if isinstance(size, int) and end > size:
            text = f"Attempting to slice [{start}, {end}] from tensor with length {size}"
            raise op.mistake(text)
    if not op.b.same(size, end):
        text = f"Unused values in tensor. Length of tensor: {size} Values used: {end}"
        raise op.mistake(text)


def _concat(op: Op) -> tuple[Value, ...]:
    """List, element shape, lengths for what has no value yet."""
    found = op.list(0)
    if found.buffer is None:
        raise op.error("a list whose elements are not known is put end to end")
    elements = elements_of(op, found)
    count, *dims = elements.shape.dims
    if not dims:
        raise op.error("Concat requires elements to be at least vectors, found scalars instead.")
    length, *rest = dims
    if len(op) > 2 and not _are_all(op, length):
        raise op.error("a list is put end to end whose elements may have different lengths")
    whole = op.b.reshape_to(elements, (count * length, *rest))
    if isinstance(count, int):
        return whole, Known.sizes([length] * count, S64)
    return whole, op.b.like(length, Shape.array(S64, (count,)))


def _are_all(op: Op, length: Size) -> bool:
    """Whether the given lengths are surely this one; there are none if all elements have values."""
    if op.dims(2) == (0,):
        return True
    given = op.known_or_computed(2, "lengths of elements that have no value")
    return given is not None and all(op.b.same(plain_size(item), length) for item in given.ravel())


RULES: dict[str, Rule] = {
    "TensorListConcat": _concat,
    "TensorListConcatV2": _concat,
    "TensorListSplit": _split,
}
