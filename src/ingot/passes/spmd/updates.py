# SPDX-License-Identifier: Apache-2.0
"""Updates of boxes at constant indices become selects, which devices do on their parts.

`u.at[1:-1].set(v)` is a scatter of one window or a dynamic-update-slice. Where it spans parts of
`u`, each device needs another part of `v`: that of `v` in a frame of zeros (a pad, which only moves
elements), wherever the index is inside the box.

    dynamic-update-slice(u, v, i)  =>  select(i <= index < i + size, pad(v), u)
    scatter(u, i, v, fold)  =>  select(i <= index < i + size, map(u, pad(v), fold), u)
"""

from __future__ import annotations

import numpy as np

from ingot.evaluator import evaluate_instruction, evaluated_opcodes
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import PRED
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.opset.indexing import ScatterAttributes
from ingot.hlo.rewrite.rule import RuleBuilder
from ingot.passes.spmd.annotations import Known, is_resharded, replace_value
from ingot.passes.spmd.reshard import between
from ingot.passes.spmd.sharding import Sharding
from ingot.support.records import record

_POINTWISE = ops_with(Trait.LEAF, Trait.ELEMENTWISE)
_MOST_OPS, _MOST_ELEMENTS = 16, 64
"""Of the constants that an index is computed from."""


@record
class _Update:
    """An update of a box.

    Attributes:
        target: the array.
        update: the box's new elements.
        starts: the least index of the box in each dimension.
        fold: combines an old element with a new one; None if the new one replaces it.
    """

    target: Instruction
    update: Instruction
    starts: tuple[int, ...]
    fold: Computation | None = None

    @property
    def spans(self) -> list[tuple[int, int, int]]:
        """For each dimension the first index, the limit, and the size of the array."""
        sizes = zip(self.starts, self.update.shape.static_dims, strict=True)
        sized = zip(sizes, self.target.shape.static_dims, strict=True)
        return [(start, start + size, whole) for (start, size), whole in sized]


def select_updates(module: Module, known: Known) -> None:
    """Rewrite the updates at constant indices that span several parts of a divided array."""
    for computation in module.post_order():
        for op in computation.post_order():
            found = _update_of(op) if op.opcode in _READERS else None
            sharding = _sharding(op, found, known) if found is not None else None
            if found is not None and sharding is not None and _spans_parts(found, sharding):
                made = _selected(op, found, sharding)
                made.extra["sharding"] = sharding.text()
                replace_value(op, made)


def _sharding(op: Instruction, update: _Update, known: Known) -> Sharding | None:
    """Return how the result is divided, or its users ask for, or else the array."""
    values = (op, *filter(is_resharded, op.users), _source(update.target))
    found = next(filter(None, map(known.of, values)), None)
    return found if found is not None and found.fits(op.shape.static_dims) else None


def _spans_parts(update: _Update, sharding: Sharding) -> bool:
    spans = zip(update.spans, sharding.tiles, strict=True)
    return any(
        tiles > 1 and (begin, limit) != (0, size) and limit - begin > size // tiles
        for (begin, limit, size), tiles in spans
    )


def _source(value: Instruction) -> Instruction:
    """Return a value without its annotations."""
    while is_resharded(value):
        (value,) = value.operands
    return value


def _selected(op: Instruction, update: _Update, sharding: Sharding) -> Instruction:
    """Return the update as a select. Pads along dimensions that are not divided come first."""
    build = RuleBuilder(op.computation, op.metadata)
    target, framed = _source(update.target), _source(update.update)
    moved = [axis for axis, span in enumerate(update.spans) if span[:2] != (0, span[2])]
    moved.sort(key=lambda axis: sharding.tiles[axis] > 1)
    zero = build.constant(0, framed.shape.dtype)
    inside: Instruction | None = None
    for axis in moved:
        begin, limit, size = update.spans[axis]
        framed = build.pad_along(framed, axis, (begin, size - limit, 0), zero)
        index = build.index_along(op.shape.static_dims, axis)
        here = between(build, index, begin, limit)
        inside = here if inside is None else build.and_(inside, here)
    if update.fold is not None:
        axes = tuple(range(op.shape.rank))
        framed = build.map(target, framed, dimensions=axes, to_apply=update.fold)
    return framed if inside is None else build.select(inside, framed, target)


def _update_of(op: Instruction) -> _Update | None:
    return _READERS[op.opcode](op) if op.shape.is_array and op.shape.is_static else None


def _update_slice(op: Instruction) -> _Update | None:
    target, update, *indices = op.operands
    values = [_constant(index) for index in indices]
    if any(value is None for value in values):
        return None
    sizes = zip(target.shape.static_dims, update.shape.static_dims, strict=True)
    starts = [
        min(max(int(value.item()), 0), size - taken)
        for value, (size, taken) in zip(values, sizes, strict=True)
        if value is not None
    ]
    return _Update(target, update, tuple(starts))


def _scatter(op: Instruction) -> _Update | None:
    """A scatter of one window that drops no dimension of the operand."""
    given = op.as_(ScatterAttributes)
    if len(op.operands) != 3 or given.inserted_window_dims or given.input_batching_dims:
        return None
    target, indices, update = op.operands
    fold = given.to_apply
    is_pure = all(item.opcode in _POINTWISE for item in fold.post_order())
    if not is_pure or update.shape.rank != target.shape.rank:
        return None
    values = _constant(indices)
    if values is None or values.size != len(given.scatter_dims_to_operand_dims):
        return None
    starts = [0] * target.shape.rank
    for dim, value in zip(given.scatter_dims_to_operand_dims, values.reshape(-1), strict=True):
        starts[dim] = int(value)
    replaces = fold.root is fold.parameters[1]
    found = _Update(target, update, tuple(starts), None if replaces else fold)
    is_inside = all(begin >= 0 and limit <= size for begin, limit, size in found.spans)
    return found if is_inside else None


_READERS = {"dynamic-update-slice": _update_slice, "scatter": _scatter}


def _constant(value: Instruction, budget: list[int] | None = None) -> np.ndarray | None:
    """Return the value of a small array that is computed from constants alone."""
    budget = [_MOST_OPS] if budget is None else budget
    budget[0] -= 1
    shape = value.shape
    if budget[0] < 0 or not shape.is_array or not shape.is_static or shape.dtype is PRED:
        return None
    if value.opcode == "constant":
        return value.attributes.literal.array
    size = int(np.prod(shape.static_dims))
    is_plain = value.opcode in evaluated_opcodes() and not value.has(Trait.SIDE_EFFECT)
    if size > _MOST_ELEMENTS or value.opcode == "parameter" or not is_plain:
        return None
    operands = [_constant(operand, budget) for operand in value.operands]
    if any(operand is None for operand in operands):
        return None
    return np.asarray(evaluate_instruction(value, [o for o in operands if o is not None]))
