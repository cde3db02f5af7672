# SPDX-License-Identifier: Apache-2.0
"""Elements beyond the sizes of dynamic arrays: each is the first part of an array at its bound.

An array of shape `f32[<=8]` is stored at its bound, and some ops read beyond its size: a slice of
one element, a gather, a size that grows again. They find the same elements as on XLA:CPU. Ops on
whole arrays compute them from the elements beyond the sizes of their operands, with the masks of
the table `semantics/dynamic_sizes`; ops that move elements across the border of a size leave zeros.

Invariant: elements inside the sizes come from the evaluation at those sizes (`dynamic`), which uses
no masks; only those beyond the sizes come from here.

Source: xla/service/dynamic_padder.cc, as it behaves.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingot.evaluator.registry import Array, Context, Rule, Value
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.shape import Shape
from ingot.semantics.dynamic_sizes import (
    LEAST,
    OUTSIDE,
    ZERO,
    Mask,
    Sizes,
    is_elementwise,
    rule_of,
    stays_in_order,
)
from ingot.support.records import record

_READS = ops_with(Trait.SUBSET_EXTRACTION)
"""Ops that read elements inside and beyond a size."""


class Stored(np.ndarray[Any, np.dtype[Any]]):
    """An array of dynamic size: the part of an array at its bound that is inside its sizes.

    Attributes:
        storage: the whole array; None of an array that NumPy made from this one.
    """

    storage: Array | None = None


def stored(storage: Array, dims: Sequence[int]) -> Array:
    """Return the part of `storage` that is inside the sizes."""
    inside = storage[tuple(slice(size) for size in dims)].view(Stored)
    inside.storage = storage
    return inside


def storage_of(value: Array, dims: Sequence[int]) -> Array:
    """Return the array at its bounds that a value is part of; zeros if it has no storage."""
    if isinstance(value, Stored) and value.storage is not None:
        return value.storage
    if value.shape == tuple(dims):
        return np.asarray(value)
    return with_inside(np.zeros(dims, value.dtype), value)


def with_inside(storage: Array, value: Array) -> Array:
    """Return a copy of `storage` with `value` as its first part."""
    whole = np.array(storage)
    whole[tuple(map(slice, value.shape))] = value
    return whole


def plain(value: Value) -> Value:
    """Return a value without the elements beyond the sizes of its arrays."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return np.asarray(value)


def sizes_of(shape: Shape, value: Any) -> Sizes:
    """Return the dynamic dimensions of an array."""
    return {n: value.shape[n] for n, flag in enumerate(shape.bounded) if flag}


def with_storage(
    op: Instruction, operands: Sequence[Any], value: Value, context: Context, evaluate: Rule
) -> Value:
    """Return the value of an op on dynamic arrays, with the elements beyond its sizes.

    Args:
        op: the op.
        operands: its operands' values.
        value: its value at the actual sizes.
        context: the context of the rule.
        evaluate: the op's rule.
    """
    rule = rule_of(op)
    if rule is None or op.opcode == "custom-call" or any(isinstance(v, tuple) for v in operands):
        return value
    masks = list(rule.masks(op))
    given = [sizes_of(o.shape, v) for o, v in zip(op.operands, operands, strict=True)]
    storages = [
        storage_of(v, context.dims(o.shape)) for o, v in zip(op.operands, operands, strict=True)
    ]
    move = _MOVES.get(op.opcode)
    case = _Evaluated(op, storages, given, value, context, evaluate)
    whole = move(case) if move is not None else None
    if whole is None:
        if is_elementwise(op):
            storages = _repeated(storages, operands, given)
        whole = evaluate(_at_bounds(op), _masked(storages, given, masks, context), context)
    return _joined(op.shape, value, whole, not masks, op.opcode in _READS)


def _joined(shape: Shape, value: Any, whole: Any, is_raw: bool, reads: bool) -> Value:
    if shape.is_tuple:
        rows = zip(shape.elements, value, whole, strict=True)
        return tuple(_joined(*row, is_raw, reads) for row in rows)
    if not any(shape.bounded):
        return np.asarray(whole) if is_raw else value
    storage = np.asarray(whole)
    return stored(storage if reads else with_inside(storage, value), value.shape)


def _at_bounds(op: Instruction) -> Instruction:
    found = copy.copy(op)
    found.shape = _without_bounds(op.shape)
    return found


def _without_bounds(shape: Shape) -> Shape:
    if shape.is_tuple:
        return Shape.tuple(tuple(map(_without_bounds, shape.elements)))
    return Shape.array(shape.dtype, shape.dims)


def _repeated(
    storages: list[Array], operands: Sequence[Array], given: Sequence[Sizes]
) -> list[Array]:
    """Return the operands of an elementwise op; a single element is repeated as needed."""
    found: list[Array] = []
    for storage, value, sizes in zip(storages, operands, given, strict=True):
        for dim in sizes:
            most = max(s.shape[dim] for s, own in zip(operands, given, strict=True) if dim in own)
            if value.shape[dim] == 1 < most:
                first = storage[(slice(None),) * dim + (slice(1),)]
                storage = np.repeat(first, storage.shape[dim], axis=dim)
        found.append(storage)
    return found


def _masked(
    storages: list[Array], given: Sequence[Sizes], masks: Sequence[Mask], context: Context
) -> list[Array]:
    found = list(storages)
    for mask in masks:
        value = found[mask.operand]
        inside: Array = np.ones(value.shape, np.bool_)
        for dim, size in given[mask.operand].items():
            if dim in mask.dimensions:
                inside[(slice(None),) * dim + (slice(context.number(size), None),)] = False
        if isinstance(mask.neutral, int):
            neutral = storages[mask.neutral]
        else:
            value = value.astype(np.int32) if mask.neutral == OUTSIDE else value
            neutral = _neutral(mask.neutral, value.dtype)
        found[mask.operand] = np.where(inside, value, neutral).astype(value.dtype)
    return found


def _neutral(name: str, element: np.dtype[Any]) -> Array:
    if name == ZERO:
        return np.zeros((), element)
    if name == OUTSIDE:
        return np.array(-1, element)
    if element.kind in "iu":
        limits = np.iinfo(element)
        return np.array(limits.min if name == LEAST else limits.max, element)
    return np.array(-np.inf if name == LEAST else np.inf).astype(element)


# ---- ops that move elements across the border of a size


@record
class _Evaluated:
    """An op whose value at the actual sizes is known.

    Attributes:
        op: the op.
        storages: its operands at their bounds.
        given: the dynamic sizes of each operand.
        value: its value at the actual sizes.
        context: the context of the rule.
        evaluate: the op's rule.
    """

    op: Instruction
    storages: list[Array]
    given: Sequence[Sizes]
    value: Value
    context: Context
    evaluate: Rule

    def zeros(self) -> Array:
        """Return zeros for the elements beyond the sizes of the result."""
        return np.zeros(self.context.dims(self.op.shape), self.op.shape.dtype.numpy)


Move = Callable[[_Evaluated], "Value | None"]


def _reverse(this: _Evaluated) -> Value | None:
    return this.zeros() if this.given[0].keys() & set(this.op.attributes.dimensions) else None


def _reshape(this: _Evaluated) -> Value | None:
    after = sizes_of(this.op.shape, this.value)
    if stays_in_order(this.op.operands[0].shape, this.op.shape, this.given[0], after):
        return None
    return this.zeros()


def _concatenate(this: _Evaluated) -> Value | None:
    """Operands at their bounds, each written over the rest of the previous one."""
    dim: int = this.op.attributes.dimensions[0]
    if not any(dim in sizes for sizes in this.given):
        return None
    whole, start = this.zeros(), 0
    for storage, sizes in zip(this.storages, this.given, strict=True):
        length = storage.shape[dim]
        whole[(slice(None),) * dim + (slice(start, start + length),)] = storage
        start += this.context.number(sizes[dim]) if dim in sizes else length
    return whole


def _sort(this: _Evaluated) -> Value | None:
    """Elements inside the size are sorted; the others stay where they are."""
    dim: int = this.op.attributes.dimensions[0]
    sizes = [this.context.number(own[dim]) for own in this.given if dim in own]
    if not sizes:
        return None
    inside = (slice(None),) * dim + (slice(min(sizes)),)
    parts = [storage[inside] for storage in this.storages]
    found = this.evaluate(_at_bounds(this.op), parts, this.context)
    results = found if isinstance(found, tuple) else (found,)
    pairs = zip(this.storages, results, strict=True)
    wholes = tuple(with_inside(storage, np.asarray(part)) for storage, part in pairs)
    return wholes if this.op.shape.is_tuple else wholes[0]


def _dynamic_update_slice(this: _Evaluated) -> Value | None:
    """An update of part of a dimension writes its elements; beyond its size the base stays."""
    base, update, *starts = this.storages
    given = this.given[1]
    sizes = [
        this.context.number(given[n]) if n in given and size != base.shape[n] else size
        for n, size in enumerate(update.shape)
    ]
    whole = np.array(base)
    first = [
        min(max(int(start), 0), have - size)
        for start, have, size in zip(starts, base.shape, update.shape, strict=True)
    ]
    box = tuple(slice(at, at + size) for at, size in zip(first, sizes, strict=True))
    whole[box] = update[tuple(map(slice, sizes))]
    return whole


_MOVES: dict[str, Move] = {
    "concatenate": _concatenate,
    "dynamic-update-slice": _dynamic_update_slice,
    "reshape": _reshape,
    "reverse": _reverse,
    "sort": _sort,
}
"""None for an op that crosses no border after all."""
