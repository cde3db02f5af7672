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
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import Trait
from ingot.hlo.shape import Shape
from ingot.passes.simplify.reducers import is_identity, reducer_opcode

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


def _reduce(op: Instruction, shapes: Sequence[Shape]) -> Factors | None:
    """A fold over divided dimensions starts from its initial value on each device."""
    if len(op.operands) != 2:
        return None
    value, start = shapes[0], op.operands[1]
    fold = reducer_opcode(op.attributes.to_apply)
    known = fold in ("add", "multiply", "maximum", "minimum", "and", "or")
    fold = fold if known and is_identity(start, fold) else ""
    kept = [axis for axis in range(value.rank) if axis not in op.attributes.dimensions]
    places: list[int | None] = [None] * value.rank
    for number, axis in enumerate(kept):
        places[axis] = number
    if fold:
        for number, axis in enumerate(op.attributes.dimensions, len(kept)):
            places[axis] = number
    return Factors((tuple(places), ()), (_counted(len(kept)),), fold)


def _concatenate(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    (along,) = op.attributes.dimensions
    places = tuple(None if axis == along else axis for axis in range(op.shape.rank))
    return Factors((places,) * len(shapes), (places,))


def _pad(op: Instruction, shapes: Sequence[Shape]) -> Factors:
    rows = op.attributes.padding
    places = tuple(axis if row == (0, 0, 0) else None for axis, row in enumerate(rows))
    return Factors((places, ()), (places,))


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


_RULES: dict[str, Callable[[Instruction, Sequence[Shape]], Factors | None]] = {
    "broadcast": _broadcast,
    "concatenate": _concatenate,
    "custom-call": _custom_call,
    "dot": _dot,
    "pad": _pad,
    "reduce": _reduce,
    "reshape": _reshape,
    "transpose": _transpose,
}
