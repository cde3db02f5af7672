# SPDX-License-Identifier: Apache-2.0
"""Factors: which dimensions of an op's operands and results run together.

If every dimension that a factor runs along is divided alike, each device can compute its part of
the op from its parts of the operands. A factor that no result has is a sum (or another fold) over
the devices. A dimension without factor must be whole. `ij,jk->ik` has the factors i, j and k.

Invariant: with no factor divided, the op is what it was. Ops without a rule have no factors: they
work on whole values.

Source: shardy/dialect/sdy/transforms/propagation/op_sharding_rule_registry.cc.

Example:
    >>> from ingot.hlo.builder import Builder
    >>> b = Builder("f")
    >>> turned = b.transpose(b.parameter(0, "f32[2,3]"), dimensions=(1, 0))
    >>> factors_of(turned, [turned.operands[0].shape])
    Factors(operands=((0, 1),), results=((1, 0),), fold='')
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension
from ingot.passes.simplify.reducers import is_identity, reducer_opcode
from ingot.passes.spmd.index_factors import indexed_places

Places = tuple[int | None, ...]
"""The factor of each dimension of a value; None where the dimension must be whole."""


@dataclass(frozen=True, slots=True)
class Factors:
    """How an op can be divided.

    Attributes:
        operands: the factors of each operand's dimensions.
        results: the factors of each result's dimensions.
        fold: opcode that combines what devices have when a factor is in no result; "" for none.
    """

    operands: tuple[Places, ...]
    results: tuple[Places, ...]
    fold: str = ""


def factors_of(op: Instruction, shapes: Sequence[Shape]) -> Factors | None:
    """Return the factors of an op on operands of whole `shapes`; None if it takes whole ones."""
    if op.has(Trait.ELEMENTWISE):
        return _elementwise(op, shapes)
    rule = _RULES.get(op.opcode)
    return rule(op, shapes) if rule is not None else None


def _counted(rank: int) -> Places:
    return tuple(range(rank))


def _where(free: Iterable[bool]) -> Places:
    """Return a factor for each dimension that is free."""
    return tuple(axis if found else None for axis, found in enumerate(free))


def _whole(shape: Shape) -> Places:
    return (None,) * shape.rank


def _all_whole(shapes: Sequence[Shape]) -> tuple[Places, ...]:
    return tuple(map(_whole, shapes))


def _elementwise(op: Instruction, shapes: Sequence[Shape]) -> Factors | None:
    if not op.shape.is_array:
        return None
    operands = tuple(_counted(shape.rank) for shape in shapes)
    return Factors(operands, (_counted(op.shape.rank),))


def _broadcast(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    return Factors((tuple(op.attributes.dimensions),), (_counted(op.shape.rank),))


def _transpose(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    return Factors((_counted(op.shape.rank),), (tuple(op.attributes.dimensions),))


def _reshape(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    """Dimensions that begin at the same place in memory: equal parts of one are parts of both."""
    (source,) = shapes
    begins = {before: axis for axis, before in enumerate(_before(source)) if before}
    operand: list[int | None] = [None] * source.rank
    result: list[int | None] = [None] * op.shape.rank
    for axis, before in enumerate(_before(op.shape)):
        if before in begins:
            operand[begins[before]] = result[axis] = axis
    return Factors((tuple(operand),), (tuple(result),))


def _before(shape: Shape) -> list[int]:
    """Return the elements per step of what is before each dimension; 0 for dimensions of 1."""
    sizes = [size if isinstance(size, int) else 0 for size in shape.dims]
    return [math.prod(sizes[:axis]) if sizes[axis] > 1 else 0 for axis in range(len(sizes))]


def _dot(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    given, (lhs, rhs) = op.attributes, shapes
    places: tuple[list[int | None], list[int | None]] = ([None] * lhs.rank, [None] * rhs.rank)
    batch = len(given.lhs_batch_dims)
    left, right = given.lhs_free_dims(lhs.rank), given.rhs_free_dims(rhs.rank)
    for side, axes in enumerate((given.lhs_batch_dims, given.rhs_batch_dims)):
        for number, axis in enumerate(axes):
            places[side][axis] = number
    for number, axis in enumerate(left):
        places[0][axis] = batch + number
    for number, axis in enumerate(right):
        places[1][axis] = batch + len(left) + number
    pairs = zip(given.lhs_contracting_dims, given.rhs_contracting_dims, strict=True)
    for number, (one, other) in enumerate(pairs, op.shape.rank):
        places[0][one] = places[1][other] = number
    return Factors((tuple(places[0]), tuple(places[1])), (_counted(op.shape.rank),), "add")


def _reduce(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    """A fold over divided dimensions starts from its initial value on each device."""
    count = len(shapes) // 2
    rank, start = shapes[0].rank, op.operands[count]
    fold = reducer_opcode(op.attributes.to_apply) if count == 1 else ""
    fold = fold if fold in _FOLDS and is_identity(start, fold) else ""
    kept = [axis for axis in range(rank) if axis not in op.attributes.dimensions]
    order = {axis: number for number, axis in enumerate([*kept, *op.attributes.dimensions])}
    places = tuple(order[axis] if fold or axis in kept else None for axis in range(rank))
    results = (_counted(len(kept)),) * count
    return Factors((*(places,) * count, *((),) * count), results, fold)


def _concatenate(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    (along,) = op.attributes.dimensions
    places = _where(axis != along for axis in range(op.shape.rank))
    return Factors((places,) * len(shapes), (places,))


def _pad(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    rows = op.attributes.padding
    places = _where(row == (0, 0, 0) for row in rows)
    return Factors((places, ()), (places,))


def _slice(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    (source,) = shapes
    rows = zip(op.attributes.slice, source.dims, strict=True)
    places = _where(row == (0, size, 1) for row, size in rows)
    return Factors((places,), (places,))


def _dynamic_slice(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    """A dimension that is taken whole begins at 0 whatever the index is."""
    places = _where(map(operator.eq, shapes[0].dims, op.shape.dims))
    return Factors((places, *_all_whole(shapes[1:])), (places,))


def _dynamic_update_slice(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    places = _where(map(operator.eq, shapes[0].dims, shapes[1].dims))
    return Factors((places, places, *_all_whole(shapes[2:])), (places,))


def _reverse(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    places = _where(axis not in op.attributes.dimensions for axis in range(op.shape.rank))
    return Factors((places,), (places,))


def _sort(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    places = _where(axis not in op.attributes.dimensions for axis in range(shapes[0].rank))
    return Factors((places,) * len(shapes), (places,) * len(shapes))


def _gather(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    how = op.attributes.index_map
    found = indexed_places(how, shapes[0], shapes[1], op.shape, is_free=True)
    return Factors((found.operand, found.indices), (found.windowed,))


def _scatter(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    """Devices fold what they scatter if the operand adds nothing."""
    count = len(shapes) // 2
    fold = reducer_opcode(op.attributes.to_apply) if count == 1 else ""
    fold = fold if fold in _FOLDS and is_identity(op.operands[0], fold) else ""
    how = op.attributes.index_map
    found = indexed_places(how, shapes[0], shapes[count], shapes[-1], is_free=bool(fold))
    operands, updates = (found.operand,) * count, (found.windowed,) * count
    return Factors((*operands, found.indices, *updates), operands, fold)


def _bitcast(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    """All dimensions but one that only the narrower elements have."""
    (source,) = shapes
    common = _counted(min(source.rank, op.shape.rank))
    places = ((*common, *(None,) * (rank - len(common))) for rank in (source.rank, op.shape.rank))
    operand, result = places
    return Factors((operand,), (result,))


def _meeting(op: Instruction, shapes: Sequence[Shape]) -> Factors | None:
    """A collective of the program's own: dimensions that it does not change are those of parts."""
    along = op.attributes.dimensions
    if not op.shape.is_array or len(shapes) != 1 or not along:
        return None
    places = _where(axis not in along for axis in range(op.shape.rank))
    return Factors((places,), (places,))


def _convolution(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    """The batch, the features of the result, and the sum over the operand's features."""
    given, labels = op.attributes, op.attributes.labels
    empty: list[int | None] = [None] * op.shape.rank
    lhs, rhs, result = list(empty), list(empty), list(empty)
    if given.batch_group_count == 1:
        lhs[labels.lhs.index("b")] = result[labels.output.index("b")] = 0
    if given.feature_group_count == given.batch_group_count == 1:
        rhs[labels.rhs.index("o")] = result[labels.output.index("f")] = 1
        lhs[labels.lhs.index("f")] = rhs[labels.rhs.index("i")] = 2
    return Factors((tuple(lhs), tuple(rhs)), (tuple(result),), "add")


def _fft(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    batch = op.shape.rank - len(op.attributes.fft_length)
    places = _where(axis < batch for axis in range(op.shape.rank))
    return Factors((places,), (places,))


def _reduce_window(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    """A dimension whose windows are its elements."""
    single = WindowDimension(1)
    places = _where(one == single for one in op.attributes.window)
    count = len(shapes) // 2
    return Factors((*(places,) * count, *((),) * count), (places,) * count)


def _select_and_scatter(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    single = WindowDimension(1)
    places = _where(one == single for one in op.attributes.window)
    return Factors((places, places, ()), (places,))


def _topk(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    places = (*_counted(shapes[0].rank - 1), None)
    return Factors((places,), (places, places))


def _matrices(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    places = _where(axis < op.shape.rank - 2 for axis in range(op.shape.rank))
    return Factors((places,) * len(shapes), (places,))


def _custom_call(op: Instruction, shapes: Sequence[Shape]) -> Factors | None:
    """JAX says in an attribute how many first dimensions of all values are a batch."""
    found = op.extra.get("frontend_attributes", "")
    _, _, text = found.partition("num_batch_dims=")
    digits = "".join(part for part in text[:4] if part.isdigit())
    if not digits:
        return None
    results = op.shape.elements if op.shape.is_tuple else (op.shape,)
    batch = _counted(int(digits))

    def places(shape: Shape) -> Places:
        return (*batch, *(None,) * (shape.rank - len(batch)))

    return Factors(
        tuple(places(shape) for shape in shapes),
        tuple(places(shape) for shape in results),
    )


_FOLDS = ops_with(Trait.ASSOCIATIVE)
_RULES: dict[str, Callable[[Instruction, Sequence[Shape]], Factors | None]] = {
    "all-gather": _meeting,
    "all-reduce": _elementwise,
    "all-to-all": _meeting,
    "bitcast-convert": _bitcast,
    "broadcast": _broadcast,
    "cholesky": _matrices,
    "collective-broadcast": _elementwise,
    "collective-permute": _elementwise,
    "concatenate": _concatenate,
    "convolution": _convolution,
    "custom-call": _custom_call,
    "dot": _dot,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "fft": _fft,
    "gather": _gather,
    "map": _elementwise,
    "pad": _pad,
    "reduce": _reduce,
    "reduce-scatter": _meeting,
    "reduce-window": _reduce_window,
    "reshape": _reshape,
    "reverse": _reverse,
    "scatter": _scatter,
    "select-and-scatter": _select_and_scatter,
    "slice": _slice,
    "sort": _sort,
    "topk": _topk,
    "transpose": _transpose,
    "triangular-solve": _matrices,
}
