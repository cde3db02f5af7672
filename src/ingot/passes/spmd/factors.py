# SPDX-License-Identifier: Apache-2.0
"""Factors: which dimensions of an op's operands and results must be divided alike.

If all dimensions of a factor are divided alike, each device can compute its part of the op from its
parts of the operands. Their sizes may differ: a slice of every other element has half of them. A
factor that no result has becomes a sum (or another fold) over the devices. A dimension without a
factor must be whole. `ij,jk->ik` has the factors i, j and k.

Invariant: with no factor divided, the op is unchanged. Ops without a rule have no factors: they
work on whole values.

Source: shardy/dialect/sdy/transforms/propagation/op_sharding_rule_registry.cc.

Example:
    >>> from ingot.hlo.builder import Builder
    >>> b = Builder("f")
    >>> transposed = b.transpose(b.parameter(0, "f32[2,3]"), dimensions=(1, 0))
    >>> factors_of(transposed, [transposed.operands[0].shape])
    Factors(operands=((0, 1),), results=((1, 0),), fold='')

The factors of gather and scatter are dimensions of operand, indices and windows that go together.
Indices are independent of each other, so each of their dimensions is a factor. So is a dimension of
the windows that takes a whole dimension of the operand, since it begins at 0 whatever the index is.
The dimensions of a scatter's indices are factors only if the operand is the identity of the fold
over devices, or if they are batching dimensions of the operand, too.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.opset.indexing import IndexMap
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension
from ingot.semantics.reducers import is_identity, reducer_opcode
from ingot.support.records import record

DimFactors = tuple[int | None, ...]
"""The factor of each dimension of a value; None where the dimension must be whole."""


@record
class Factors:
    """How an op can be divided.

    Attributes:
        operands: the factors of each operand's dimensions.
        results: the factors of each result's dimensions.
        fold: opcode that combines the devices' results if no result has the factor; "" for none.
    """

    operands: tuple[DimFactors, ...]
    results: tuple[DimFactors, ...]
    fold: str = ""


Rule = Callable[[Instruction, Sequence[Shape]], Factors | None]
"""Returns the factors of an op on operands of whole shapes, None if it has none."""


def factors_of(op: Instruction, shapes: Sequence[Shape]) -> Factors | None:
    """Return the factors of an op on operands of whole `shapes`; None if it has none."""
    if op.has(Trait.ELEMENTWISE):
        return _elementwise(op, shapes)
    rule = _RULES.get(op.opcode)
    return rule(op, shapes) if rule is not None else None


def _counted(rank: int) -> DimFactors:
    return tuple(range(rank))


def _where(free: Iterable[bool]) -> DimFactors:
    """Return a factor for each dimension that is free."""
    return tuple(axis if found else None for axis, found in enumerate(free))


def _all_whole(shapes: Sequence[Shape]) -> tuple[DimFactors, ...]:
    return tuple((None,) * shape.rank for shape in shapes)


def _alike(is_free: Callable[[Instruction, int, int], bool]) -> Rule:
    """Return the rule of ops all of whose operands and results are divided alike.

    `is_free` says of an op, its rank and a dimension whether that is a factor.
    """

    def rule(op: Instruction, shapes: Sequence[Shape]) -> Factors:
        rank = shapes[0].rank
        factors = _where(is_free(op, rank, axis) for axis in range(rank))
        results = len(op.shape.elements) if op.shape.is_tuple else 1
        return Factors((factors,) * len(shapes), (factors,) * results)

    return rule


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
    """Dimensions with equal strides counted from the front: parts of one are parts of the other."""
    (source,) = shapes
    begins = {before: axis for axis, before in enumerate(_before(source)) if before}
    operand: list[int | None] = [None] * source.rank
    result: list[int | None] = [None] * op.shape.rank
    for axis, before in enumerate(_before(op.shape)):
        if before in begins:
            operand[begins[before]] = result[axis] = axis
    return Factors((tuple(operand),), (tuple(result),))


def _before(shape: Shape) -> list[int]:
    """Return the product of the sizes before each dimension; 0 for dimensions of size 1."""
    sizes = [size if isinstance(size, int) else 0 for size in shape.dims]
    return [math.prod(sizes[:axis]) if sizes[axis] > 1 else 0 for axis in range(len(sizes))]


def _dot(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    given, (lhs, rhs) = op.attributes, shapes
    factors: tuple[list[int | None], list[int | None]] = ([None] * lhs.rank, [None] * rhs.rank)
    batch = len(given.lhs_batch_dims)
    left, right = given.lhs_free_dims(lhs.rank), given.rhs_free_dims(rhs.rank)
    for side, axes in enumerate((given.lhs_batch_dims, given.rhs_batch_dims)):
        for number, axis in enumerate(axes):
            factors[side][axis] = number
    for number, axis in enumerate(left):
        factors[0][axis] = batch + number
    for number, axis in enumerate(right):
        factors[1][axis] = batch + len(left) + number
    pairs = zip(given.lhs_contracting_dims, given.rhs_contracting_dims, strict=True)
    for number, (one, other) in enumerate(pairs, op.shape.rank):
        factors[0][one] = factors[1][other] = number
    return Factors((tuple(factors[0]), tuple(factors[1])), (_counted(op.shape.rank),), "add")


def _reduce(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    """Folded dimensions have factors if the fold starts from an identity, as each device does."""
    count = len(shapes) // 2
    rank, start = shapes[0].rank, op.operands[count]
    fold = reducer_opcode(op.attributes.to_apply) if count == 1 else ""
    fold = fold if fold in _FOLDS and is_identity(start, fold) else ""
    remaining = [axis for axis in range(rank) if axis not in op.attributes.dimensions]
    order = {axis: number for number, axis in enumerate([*remaining, *op.attributes.dimensions])}
    factors = tuple(order[axis] if fold or axis in remaining else None for axis in range(rank))
    results = (_counted(len(remaining)),) * count
    return Factors((*(factors,) * count, *((),) * count), results, fold)


def _pad(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    """Dimensions without padding, or with as much at both ends together as between two elements.

    A part of the operand makes a part of the result then, with the same padding.
    """
    pads = op.attributes.padding
    factors = _where(min(low, high) >= 0 and low + high == inner for low, high, inner in pads)
    return Factors((factors, ()), (factors,))


def _slice(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    """Dimensions that are whole, or of which every n-th element is taken."""
    (source,) = shapes
    slices = zip(op.attributes.slice, source.dims, op.shape.dims, strict=True)
    factors = _where(
        begin < step and taken * step == size for (begin, _, step), size, taken in slices
    )
    return Factors((factors,), (factors,))


def _dynamic_slice(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    """A dimension that the slice takes whole begins at 0, whatever the index is."""
    factors = _where(map(operator.eq, shapes[0].dims, op.shape.dims))
    return Factors((factors, *_all_whole(shapes[1:])), (factors,))


def _dynamic_update_slice(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    factors = _where(map(operator.eq, shapes[0].dims, shapes[1].dims))
    return Factors((factors, factors, *_all_whole(shapes[2:])), (factors,))


def _gather(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    how = op.attributes.index_map
    found = indexed_factors(how, shapes[0], shapes[1], op.shape, is_free=True)
    return Factors((found.operand, found.indices), (found.windowed,))


def _scatter(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    """Devices can fold the updates they scatter if the operand is the fold's identity."""
    count = len(shapes) // 2
    fold = reducer_opcode(op.attributes.to_apply) if count == 1 else ""
    fold = fold if fold in _FOLDS and is_identity(op.operands[0], fold) else ""
    how = op.attributes.index_map
    found = indexed_factors(how, shapes[0], shapes[count], shapes[-1], is_free=bool(fold))
    operands, updates = (found.operand,) * count, (found.windowed,) * count
    return Factors((*operands, found.indices, *updates), operands, fold)


class IndexedFactors(NamedTuple):
    """The factors of each array's dimensions, numbered by the dimensions of the windowed array."""

    operand: DimFactors
    indices: DimFactors
    windowed: DimFactors


def indexed_factors(
    how: IndexMap, operand: Shape, indices: Shape, windowed: Shape, is_free: bool
) -> IndexedFactors:
    """Return the factors of a gather or scatter.

    Args:
        how: gather's or scatter's dimension numbers.
        operand: the array that is read or written.
        indices: at which indices.
        windowed: gather's result or scatter's updates.
        is_free: whether dimensions of the indices that are not batching dimensions are factors.
    """
    factors: tuple[list[int | None], ...] = tuple(
        [None] * shape.rank for shape in (operand, indices, windowed)
    )
    windows = zip(how.window_dims, how.operand_window_dims(operand.rank), strict=True)
    for window, dim in windows:
        if windowed.dims[window] == operand.dims[dim]:
            factors[0][dim] = factors[2][window] = window
    alongside = dict(zip(how.indices_batching_dims, how.operand_batching_dims, strict=True))
    batch = [axis for axis in range(windowed.rank) if axis not in how.window_dims]
    for factor, axis in zip(batch, how.indices_batch_dims(indices.rank), strict=True):
        if axis in alongside:
            factors[0][alongside[axis]] = factor
        if axis in alongside or is_free:
            factors[1][axis] = factors[2][factor] = factor
    return IndexedFactors(*map(tuple, factors))


def _bitcast(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    """All dimensions that both have: the narrower type has one more."""
    (source,) = shapes
    common = _counted(min(source.rank, op.shape.rank))
    factors = ((*common, *(None,) * (rank - len(common))) for rank in (source.rank, op.shape.rank))
    operand, result = factors
    return Factors((operand,), (result,))


def _collective(op: Instruction, shapes: Sequence[Shape]) -> Factors | None:
    """A collective of the program itself: the dimensions that it does not change can be divided."""
    along = op.attributes.dimensions
    if not op.shape.is_array or len(shapes) != 1 or not along:
        return None
    factors = _where(axis not in along for axis in range(op.shape.rank))
    return Factors((factors,), (factors,))


def _convolution(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    """The batch, the result's features, and the operand's features, which are summed over."""
    given, labels = op.attributes, op.attributes.labels
    empty: list[int | None] = [None] * op.shape.rank
    lhs, rhs, result = list(empty), list(empty), list(empty)
    if given.batch_group_count == 1:
        lhs[labels.lhs.index("b")] = result[labels.output.index("b")] = 0
    if given.feature_group_count == given.batch_group_count == 1:
        rhs[labels.rhs.index("o")] = result[labels.output.index("f")] = 1
        lhs[labels.lhs.index("f")] = rhs[labels.rhs.index("i")] = 2
    return Factors((tuple(lhs), tuple(rhs)), (tuple(result),), "add")


def _reduce_window(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    """A dimension whose windows have one element."""
    single = WindowDimension(1)
    factors = _where(one == single for one in op.attributes.window)
    count = len(shapes) // 2
    return Factors((*(factors,) * count, *((),) * count), (factors,) * count)


def _select_and_scatter(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    single = WindowDimension(1)
    factors = _where(one == single for one in op.attributes.window)
    return Factors((factors, factors, ()), (factors,))


def _custom_call(op: Instruction, shapes: Sequence[Shape]) -> Factors | None:
    """An attribute of JAX's says how many leading dimensions of all values are a batch."""
    found = op.extra.get("frontend_attributes", "")
    _, _, text = found.partition("num_batch_dims=")
    digits = "".join(part for part in text[:4] if part.isdigit())
    if not digits:
        return None
    results = op.shape.parts
    batch = _counted(int(digits))

    def factors(shape: Shape) -> DimFactors:
        return (*batch, *(None,) * (shape.rank - len(batch)))

    return Factors(
        tuple(factors(shape) for shape in shapes),
        tuple(factors(shape) for shape in results),
    )


_FOLDS = ops_with(Trait.ASSOCIATIVE)
_UNNAMED = _alike(lambda op, rank, axis: axis not in op.attributes.dimensions)
_MATRICES = _alike(lambda op, rank, axis: axis < rank - 2)
_RULES: dict[str, Rule] = {
    "all-gather": _collective,
    "all-reduce": _elementwise,
    "all-to-all": _collective,
    "bitcast-convert": _bitcast,
    "broadcast": _broadcast,
    "cholesky": _MATRICES,
    "collective-broadcast": _elementwise,
    "collective-permute": _elementwise,
    "concatenate": _UNNAMED,
    "convolution": _convolution,
    "custom-call": _custom_call,
    "dot": _dot,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "fft": _alike(lambda op, rank, axis: axis < rank - len(op.attributes.fft_length)),
    "gather": _gather,
    "map": _elementwise,
    "pad": _pad,
    "reduce": _reduce,
    "reduce-scatter": _collective,
    "reduce-window": _reduce_window,
    "reshape": _reshape,
    "reverse": _UNNAMED,
    "scatter": _scatter,
    "select-and-scatter": _select_and_scatter,
    "slice": _slice,
    "sort": _UNNAMED,
    "topk": _alike(lambda op, rank, axis: axis < rank - 1),
    "transpose": _transpose,
    "triangular-solve": _MATRICES,
}
