"""From HLO to expressions: the value of an instruction at an index, pulled from its operands.

`Puller.value(instruction, index)` walks down from a result: elementwise ops become expression nodes,
shaping ops change the index, parameters become loads. Nothing is stored on the way, so whatever is
pulled is fused. One rule per opcode, in `_RULES`; a rule also says that the opcode can be fused
(`PULLABLE`). Out-of-bounds places (pad, concatenate) carry a mask down to the loads.

Example: `add(broadcast(x), y)` at (i, j) is `add(load x[j], load y[i*n+j])`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import PRED, S64, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import NO_ATTRIBUTES, Trait
from ingot.hlo.opset.elementwise import CompareAttributes
from ingot.hlo.shape import Shape
from ingot.kernel import expr as ex
from ingot.kernel.expr import Expr
from ingot.kernel.index_math import Index, linearize, reshape_index
from ingot.support.diagnostics import UnsupportedError

Key = tuple[Instruction, Index, "Expr | None"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value is wanted: indices over axes, run-time values they use, and a mask."""

    index: Index
    values: tuple[Expr, ...] = ()
    mask: Expr | None = None

    def at(self, index: Index) -> Place:
        """Return the same place with other indices."""
        return Place(index, self.values, self.mask)


@dataclass(slots=True)
class Puller:
    """Pulls values of one fused computation.

    Attributes:
        buffers: buffer number per parameter instruction.
        extents: extents of axes, for index simplification.
        reductions: filled by the loop builder: `reduce` instruction -> its values.
        accumulator: the `dot` whose result is the contraction's accumulator, and its value.
    """

    buffers: Mapping[Instruction, int]
    extents: dict[str, int | Dim]
    reductions: dict[Instruction, tuple[Expr, ...]] = field(
        default_factory=dict[Instruction, "tuple[Expr, ...]"]
    )
    accumulators: dict[Instruction, Expr] = field(default_factory=dict[Instruction, Expr])
    _memo: dict[tuple[Instruction, Place], Expr] = field(
        default_factory=dict[tuple[Instruction, Place], Expr]
    )

    def value(self, instruction: Instruction, place: Place) -> Expr:
        """Return the value of `instruction` at `place`.

        Raises:
            UnsupportedError: the opcode cannot be part of a kernel (a fusion bug).
        """
        key = (instruction, place)
        found = self._memo.get(key)
        if found is None:
            found = self._pull(instruction, place)
            self._memo[key] = found
        return found

    def operand(self, user: Instruction, number: int, place: Place) -> Expr:
        """Return operand `number` of `user` at `place` (scalars at their only place)."""
        operand = user.operands[number]
        return self.value(operand, place.at(()) if not operand.shape.dims else place)

    def _pull(self, instruction: Instruction, place: Place) -> Expr:
        if instruction in self.accumulators:
            return self.accumulators[instruction]
        if instruction in self.reductions:
            return self.reductions[instruction][0]
        rule = _RULES.get(instruction.opcode)
        if rule is not None:
            return rule(self, instruction, place)
        if instruction.has(Trait.ELEMENTWISE):
            args = tuple(
                self.operand(instruction, number, place)
                for number in range(len(instruction.operands))
            )
            return ex.make(
                instruction.opcode, instruction.shape.dtype, args, instruction.attributes
            )
        raise UnsupportedError(
            f"{instruction.opcode} cannot be part of a loop kernel",
            code="INGOT0310",
            instruction=repr(instruction),
        )


def is_pullable(instruction: Instruction) -> bool:
    """Whether a kernel can compute the instruction from its operands on the way."""
    return instruction.opcode in _RULES or instruction.has(Trait.ELEMENTWISE)


def _parameter(puller: Puller, instruction: Instruction, place: Place) -> Expr:
    shape = instruction.shape
    where = linearize(place.index, shape.dims)
    buffer = puller.buffers[instruction]
    used = place.values if _uses_values(where) else ()
    return ex.load(buffer, where, shape.dtype, used, place.mask)


def _uses_values(where: int | Dim) -> bool:
    return any(name.startswith("$") for name in dim.symbols_of((where,)))


def _constant(_: Puller, instruction: Instruction, place: Place) -> Expr:
    literal = instruction.attributes.literal
    if literal.is_splat:
        return ex.constant(literal.scalar)
    raise UnsupportedError(
        "a constant with several values is not part of a kernel",
        code="INGOT0311",
        instruction=repr(instruction),
    )


def _iota(_: Puller, instruction: Instruction, place: Place) -> Expr:
    position = place.index[instruction.attributes.iota_dimension]
    used = place.values if _uses_values(position) else ()
    return _converted(ex.index(position, used), instruction.shape.dtype)


def _converted(value: Expr, to: DType) -> Expr:
    return value if value.dtype is to else ex.make("convert", to, (value,), NO_ATTRIBUTES)


def _broadcast(puller: Puller, instruction: Instruction, place: Place) -> Expr:
    index = tuple(place.index[number] for number in instruction.attributes.dimensions)
    return puller.value(instruction.operands[0], place.at(index))


def _transpose(puller: Puller, instruction: Instruction, place: Place) -> Expr:
    index: list[int | Dim] = [0] * len(place.index)
    for result_place, operand_place in enumerate(instruction.attributes.dimensions):
        index[operand_place] = place.index[result_place]
    return puller.value(instruction.operands[0], place.at(tuple(index)))


def _reshape(puller: Puller, instruction: Instruction, place: Place) -> Expr:
    operand = instruction.operands[0]
    index = reshape_index(place.index, instruction.shape.dims, operand.shape.dims, puller.extents)
    return puller.value(operand, place.at(index))


def _reverse(puller: Puller, instruction: Instruction, place: Place) -> Expr:
    reversed_places = instruction.attributes.dimensions
    index = tuple(
        size - 1 - position if number in reversed_places else position
        for number, (position, size) in enumerate(
            zip(place.index, instruction.shape.dims, strict=True)
        )
    )
    return puller.value(instruction.operands[0], place.at(index))


def _slice(puller: Puller, instruction: Instruction, place: Place) -> Expr:
    index = tuple(
        start + position * stride
        for position, (start, _, stride) in zip(
            place.index, instruction.attributes.slice, strict=True
        )
    )
    return puller.value(instruction.operands[0], place.at(index))


def compare(direction: str, left: Expr, right: Expr) -> Expr:
    """Return the comparison of two expressions of one type."""
    return ex.make("compare", PRED, (left, right), CompareAttributes(direction, ""))


def _within(
    value: int | Dim, low: int | Dim, high: int | Dim, values: tuple[Expr, ...]
) -> Expr | None:
    """Return the mask low <= value < high, None when it always holds."""
    mask: Expr | None = None
    position = ex.index(value, values if _uses_values(value) else ())
    if low != 0 or not _is_axis(value):
        mask = compare("GE", position, ex.index(low))
    return ex.conjunction(mask, compare("LT", position, ex.index(high)))


def _is_axis(value: int | Dim) -> bool:
    return isinstance(value, Dim) and value.is_symbol


def _pad(puller: Puller, instruction: Instruction, place: Place) -> Expr:
    operand, filler = instruction.operands
    index: list[int | Dim] = []
    mask: Expr | None = None
    for position, size, (low, high, interior) in zip(
        place.index, operand.shape.dims, instruction.attributes.padding, strict=True
    ):
        if (low, high, interior) == (0, 0, 0):
            index.append(position)
            continue
        moved = position - low
        if interior:
            step = interior + 1
            whole, rest = dim.floordiv(moved, step), dim.mod(moved, step)
            used = place.values if _uses_values(rest) else ()
            mask = ex.conjunction(mask, compare("EQ", ex.index(rest, used), ex.index(0)))
            mask = ex.conjunction(mask, compare("GE", ex.index(moved, used), ex.index(0)))
            moved = whole
        mask = ex.conjunction(mask, _within(moved, 0, size, place.values))
        index.append(moved)
    if mask is None:
        return puller.value(operand, place.at(tuple(index)))
    inner = Place(tuple(index), place.values, ex.conjunction(place.mask, mask))
    outside = puller.value(filler, place.at(()))
    return select(mask, puller.value(operand, inner), outside)


def select(mask: Expr, on_true: Expr, on_false: Expr) -> Expr:
    """Return on_true where mask holds, else on_false."""
    return ex.make("select", on_true.dtype, (mask, on_true, on_false), NO_ATTRIBUTES)


def _concatenate(puller: Puller, instruction: Instruction, place: Place) -> Expr:
    (axis,) = instruction.attributes.dimensions
    position = place.index[axis]
    start: int | Dim = 0
    parts: list[tuple[Expr, Expr]] = []
    for operand in instruction.operands:
        size = operand.shape.dims[axis]
        if size == 0:
            continue
        end = start + size
        used = place.values if _uses_values(position) else ()
        below = compare("LT", ex.index(position, used), ex.index(end))
        above = compare("GE", ex.index(position, used), ex.index(start))
        index = (*place.index[:axis], position - start, *place.index[axis + 1 :])
        mask = ex.conjunction(ex.conjunction(above, below), place.mask)
        parts.append((below, puller.value(operand, Place(index, place.values, mask))))
        start = end
    if not parts:
        return puller.value(instruction.operands[0], place)
    result = parts[-1][1]
    for below, part in reversed(parts[:-1]):
        result = select(below, part, result)
    return result


def clamp_index(value: Expr, limit: int | Dim) -> Expr:
    """Return `value` (an integer) as s64 held within 0 … limit."""
    wide = _converted(value, S64)
    low = ex.make("maximum", S64, (wide, ex.constant(np.int64(0))), NO_ATTRIBUTES)
    return ex.make("minimum", S64, (low, ex.index(limit)), NO_ATTRIBUTES)


def with_value(place: Place, value: Expr) -> tuple[Dim, Place]:
    """Return the index symbol for a run-time value, and the place that carries the value."""
    if value in place.values:
        return Dim.symbol(f"${place.values.index(value)}"), place
    number = len(place.values)
    return Dim.symbol(f"${number}"), Place(place.index, (*place.values, value), place.mask)


def _dynamic_slice(puller: Puller, instruction: Instruction, place: Place) -> Expr:
    operand = instruction.operands[0]
    inner = place
    index: list[int | Dim] = []
    for number, (position, size, window) in enumerate(
        zip(
            place.index, operand.shape.dims, instruction.attributes.dynamic_slice_sizes, strict=True
        )
    ):
        limit = size - window
        if limit == 0:
            index.append(position)
            continue
        start = clamp_index(puller.operand(instruction, number + 1, place), limit)
        symbol, inner = with_value(inner, start)
        index.append(symbol + position)
    return puller.value(operand, inner.at(tuple(index)))


def _dynamic_update_slice(puller: Puller, instruction: Instruction, place: Place) -> Expr:
    operand, update = instruction.operands[:2]
    inner, mask = place, None
    index: list[int | Dim] = []
    for number, (position, size, window) in enumerate(
        zip(place.index, operand.shape.dims, update.shape.dims, strict=True)
    ):
        if size == window:
            index.append(position)
            continue
        start = clamp_index(puller.operand(instruction, number + 2, place), size - window)
        symbol, inner = with_value(inner, start)
        moved = position - symbol
        index.append(moved)
        position_in_update = ex.index(moved, inner.values)
        mask = ex.conjunction(mask, compare("GE", position_in_update, ex.index(0)))
        mask = ex.conjunction(mask, compare("LT", position_in_update, ex.index(window)))
    if mask is None:
        return puller.value(update, place)
    masked = Place(tuple(index), inner.values, ex.conjunction(place.mask, mask))
    return select(mask, puller.value(update, masked), puller.value(operand, place))


def _gather(puller: Puller, instruction: Instruction, place: Place) -> Expr:
    operand, starts = instruction.operands
    given = instruction.attributes
    offset_places = given.offset_dims
    batch = [p for number, p in enumerate(place.index) if number not in offset_places]
    offsets = iter([place.index[number] for number in offset_places])
    dropped = (*given.collapsed_slice_dims, *given.operand_batching_dims)
    inner = place
    index: list[int | Dim] = []
    for number, (size, window) in enumerate(
        zip(operand.shape.dims, given.slice_sizes, strict=True)
    ):
        position: int | Dim = 0 if number in dropped else next(offsets)
        if number in given.operand_batching_dims:
            which = given.operand_batching_dims.index(number)
            position = batch[_batch_place(given.start_indices_batching_dims[which], given)]
        elif number in given.start_index_map and size - window != 0:
            which = given.start_index_map.index(number)
            where = _start_index(batch, which, given, starts.shape)
            start = clamp_index(puller.value(starts, place.at(where)), size - window)
            symbol, inner = with_value(inner, start)
            position = position + symbol
        index.append(position)
    return puller.value(operand, inner.at(tuple(index)))


def _batch_place(starts_dim: int, given: object) -> int:
    """Return which batch position a dimension of the start indices has."""
    vector = given.index_vector_dim  # pyright: ignore
    return starts_dim - (1 if vector < starts_dim else 0)  # pyright: ignore


def _start_index(batch: list[int | Dim], which: int, given: object, starts: Shape) -> Index:
    """Return where in the start indices component `which` of a batch element stands."""
    vector: int = given.index_vector_dim  # pyright: ignore
    if vector == starts.rank:
        return tuple(batch)
    return (*batch[:vector], which, *batch[vector:])


def _bitcast(puller: Puller, instruction: Instruction, place: Place) -> Expr:
    if instruction.operands[0].shape.dtype is instruction.shape.dtype:
        return _reshape(puller, instruction, place)
    return _bitcast_convert(puller, instruction, place)


def _bitcast_convert(puller: Puller, instruction: Instruction, place: Place) -> Expr:
    operand = instruction.operands[0]
    if operand.shape.dtype.bytes != instruction.shape.dtype.bytes:
        raise UnsupportedError(
            "bitcast-convert between widths is not part of a kernel",
            code="INGOT0312",
            instruction=repr(instruction),
        )
    value = puller.value(operand, place)
    return ex.make("bitcast-convert", instruction.shape.dtype, (value,), NO_ATTRIBUTES)


def _dimension_size(_: Puller, instruction: Instruction, place: Place) -> Expr:
    (number,) = instruction.attributes.dimensions
    size = instruction.operands[0].shape.dims[number]
    return _converted(ex.index(size), instruction.shape.dtype)


def _element(puller: Puller, instruction: Instruction, place: Place) -> Expr:
    source = instruction.operands[0]
    if source in puller.reductions:
        return puller.reductions[source][instruction.attributes.index]
    if source.opcode == "tuple":
        return puller.value(source.operands[instruction.attributes.index], place)
    raise UnsupportedError(
        f"get-tuple-element of {source.opcode} is not part of a kernel",
        code="INGOT0313",
        instruction=repr(instruction),
    )


_RULES: dict[str, Callable[[Puller, Instruction, Place], Expr]] = {
    "parameter": _parameter,
    "constant": _constant,
    "iota": _iota,
    "broadcast": _broadcast,
    "transpose": _transpose,
    "reshape": _reshape,
    "bitcast": _bitcast,
    "bitcast-convert": _bitcast_convert,
    "reverse": _reverse,
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "get-dimension-size": _dimension_size,
    "get-tuple-element": _element,
}
PULLABLE = frozenset(_RULES)


def combiner_exprs(
    computation_root: Instruction, arguments: dict[Instruction, Expr]
) -> tuple[Expr, ...]:
    """Return the results of a scalar computation as expressions over `arguments`."""
    memo = dict(arguments)

    def visit(instruction: Instruction) -> Expr:
        found = memo.get(instruction)
        if found is not None:
            return found
        if instruction.opcode == "constant":
            found = ex.constant(instruction.attributes.literal.scalar)
        elif instruction.has(Trait.ELEMENTWISE):
            args = tuple(visit(operand) for operand in instruction.operands)
            found = ex.make(
                instruction.opcode, instruction.shape.dtype, args, instruction.attributes
            )
        else:
            raise UnsupportedError(
                f"{instruction.opcode} in a reducer",
                code="INGOT0314",
                instruction=repr(instruction),
            )
        memo[instruction] = found
        return found

    roots = computation_root.operands if computation_root.opcode == "tuple" else (computation_root,)
    return tuple(visit(root) for root in roots)
