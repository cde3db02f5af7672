# SPDX-License-Identifier: Apache-2.0
"""What each op does with dynamic dimensions (`f32[<=8]`), as one table.

A row gives the dynamic dimensions of the result and their sizes, from those of the operands, and
the elements of operands that must be masked: those beyond a size that would be folded in. Elements
that move across the border of a size concern only code that stores arrays at their bounds
(`passes/expand/dynamic/padder`); the evaluator's arrays have their actual sizes. Sizes are ints or
`Dim`s, so one table serves both. Ops that are not here support no dynamic dimension.

Source: xla/service/dynamic_dimension_inference.cc; the neutral values are those of
dynamic_padder.cc (ChooseIdentityValue, ShouldSkipPadOnOperand).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import ProjectedPermutation, Trait, ops_with
from ingot.hlo.opset.contraction import ConvolutionLabels, DotAttributes
from ingot.hlo.opset.indexing import IndexMap
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension
from ingot.support.diagnostics import UnsupportedError
from ingot.support.records import record

_ELEMENTWISE = ops_with(Trait.ELEMENTWISE, also=("map",))

Sizes = dict[int, int | Dim]
"""Size by dimension, for the dynamic dimensions of an array."""

ZERO, LEAST, MOST, OUTSIDE = "zero", "least", "most", "outside"
"""Neutral values: 0, the least and the greatest number, an index outside any array."""


@record
class Mask:
    """A mask: elements beyond the sizes of some dimensions of an operand are replaced.

    Attributes:
        operand: number of the operand.
        dimensions: its dimensions that are masked, where they are dynamic.
        neutral: the replacement: the number of a scalar operand, or one of the names above.
    """

    operand: int
    dimensions: tuple[int, ...]
    neutral: int | str


@record
class DynamicRule:
    """What an op does with dynamic dimensions.

    Attributes:
        sizes: dynamic dimensions of the result (of each element, if it is a tuple), from the op and
            those of its operands.
        masks: the elements that must not be seen.
    """

    sizes: Callable[[Instruction, Sequence[Sizes]], Sizes]
    masks: Callable[[Instruction], Iterator[Mask]] = lambda op: iter(())


def rule_of(op: Instruction) -> DynamicRule | None:
    """Return what an op does with dynamic dimensions; None when it supports none."""
    if is_elementwise(op):
        return _JOINED
    if isinstance(op.definition.indexing, ProjectedPermutation):
        return _PROJECTED
    return RULES.get(op.opcode)


def is_elementwise(op: Instruction) -> bool:
    """Whether result elements depend on operand elements of the same index: sizes must agree."""
    return op.opcode in _ELEMENTWISE


def refused(op: Instruction, what: str) -> UnsupportedError:
    """Return the error of a dynamic dimension that an op does not support."""
    return UnsupportedError(
        f"the CPU backend does not take {what}",
        instruction=repr(op),
        op_name=op.metadata.op_name,
        location=op.metadata.location,
        hint="use a symbolic size (f32[?n]), which every op takes, or mask by hand",
    )


# ---- sizes


def _same(op: Instruction, given: Sequence[Sizes]) -> Sizes:
    return dict(given[0])


def _any(op: Instruction, given: Sequence[Sizes]) -> Sizes:
    """Operands of one size (of any operand: they are made equal where they differ)."""
    found: Sizes = {}
    for sizes in reversed(given):
        found.update(sizes)
    return found


def _projected(op: Instruction, given: Sequence[Sizes]) -> Sizes:
    indexing = op.definition.indexing
    assert isinstance(indexing, ProjectedPermutation), op.opcode
    dims = indexing.dims(op)
    return {dims[number]: size for number, size in given[0].items()}


def _bitcast_convert(op: Instruction, given: Sequence[Sizes]) -> Sizes:
    if any(dimension >= op.shape.rank for dimension in given[0]):
        raise refused(op, "bitcast-convert that joins a dimension of dynamic size")
    return dict(given[0])


def _concatenate(op: Instruction, given: Sequence[Sizes]) -> Sizes:
    found = _any(op, given)
    dimension: int = op.attributes.dimensions[0]
    if dimension in found:
        total: int | Dim = 0
        for operand, sizes in zip(op.operands, given, strict=True):
            total = total + sizes.get(dimension, operand.shape.dims[dimension])
        found[dimension] = total
    return found


def _pad(op: Instruction, given: Sequence[Sizes]) -> Sizes:
    found: Sizes = {}
    for dimension, size in given[0].items():
        low, high, gap = op.attributes.padding[dimension]
        one = WindowDimension(1, low=low, high=high, base_dilation=gap + 1)
        found[dimension] = _windows(one, size)
    return found


def _slice(op: Instruction, given: Sequence[Sizes]) -> Sizes:
    found: Sizes = {}
    for dimension, size in given[0].items():
        start, limit, stride = op.attributes.slice[dimension]
        bound = op.operands[0].shape.dims[dimension]
        # A slice of one element has a static size, unless it is the whole dimension.
        if op.shape.dims[dimension] != 1 or (start, limit) == (0, bound):
            whole = size if limit == bound else dim.minimum(size, limit)
            found[dimension] = dim.floordiv(_positive(whole - start + (stride - 1)), stride)
    return found


def _dynamic_slice(op: Instruction, given: Sequence[Sizes]) -> Sizes:
    dims = op.operands[0].shape.dims
    return {n: size for n, size in given[0].items() if op.shape.dims[n] == dims[n]}


def _dynamic_update_slice(op: Instruction, given: Sequence[Sizes]) -> Sizes:
    base, update = (operand.shape.dims for operand in op.operands[:2])
    return given[0] | {n: size for n, size in given[1].items() if base[n] == update[n]}


def _gather(op: Instruction, given: Sequence[Sizes]) -> Sizes:
    operand, indices = (value.shape for value in op.operands)
    numbers: IndexMap = op.attributes.index_map
    found: Sizes = {}
    for dimension, result in zip(
        numbers.operand_window_dims(operand.rank), numbers.window_dims, strict=True
    ):
        if (
            dimension in given[0]
            and op.attributes.slice_sizes[dimension] == operand.dims[dimension] != 1
        ):
            found[result] = given[0][dimension]
    counting = [n for n in range(op.shape.rank) if n not in numbers.window_dims]
    for dimension, result in zip(numbers.indices_batch_dims(indices.rank), counting, strict=True):
        if dimension in given[1]:
            found[result] = given[1][dimension]
    return found


def _reduce(op: Instruction, given: Sequence[Sizes]) -> Sizes:
    folded: tuple[int, ...] = op.attributes.dimensions
    kept = [n for n in range(op.operands[0].shape.rank) if n not in folded]
    return {kept.index(n): size for n, size in _any(op, given).items() if n in kept}


def _reduce_window(op: Instruction, given: Sequence[Sizes]) -> Sizes:
    found = _any(op, given[: len(given) // 2])
    return {
        dimension: _windows(op.attributes.window[dimension], size)
        for dimension, size in found.items()
    }


def _dot(op: Instruction, given: Sequence[Sizes]) -> Sizes:
    numbers = op.as_(DotAttributes)
    lhs, rhs = (operand.shape.rank for operand in op.operands)
    left = (*numbers.lhs_batch_dims, *numbers.lhs_free_dims(lhs))
    found = {left.index(n): size for n, size in given[0].items() if n in left}
    for dimension, size in given[1].items():
        if dimension in numbers.rhs_batch_dims:
            found[numbers.rhs_batch_dims.index(dimension)] = size
        elif dimension in (free := numbers.rhs_free_dims(rhs)):
            found[len(left) + free.index(dimension)] = size
    return found


def _convolution(op: Instruction, given: Sequence[Sizes]) -> Sizes:
    labels = ConvolutionLabels.parse(op.attributes.dim_labels)
    found: Sizes = {}
    for dimension, size in given[0].items():
        letter = labels.lhs[dimension]
        if letter == "b" and op.attributes.batch_group_count > 1:
            raise refused(op, "convolution with batch groups of dynamic size")
        if letter == "b":
            found[labels.output.index("b")] = size
        elif letter != "f":
            window = op.attributes.window[int(letter)]
            found[labels.output.index(letter)] = _windows(window, size)
    for dimension, size in given[1].items():
        if labels.rhs[dimension] not in "io":
            raise refused(op, "convolution with a window of dynamic size")
        if labels.rhs[dimension] == "o":
            found[labels.output.index("f")] = size
    return found


def _topk(op: Instruction, given: Sequence[Sizes]) -> Sizes:
    if op.operands[0].shape.rank - 1 in given[0]:
        raise refused(op, "topk along a dimension of dynamic size")
    return dict(given[0])


def _custom_call(op: Instruction, given: Sequence[Sizes]) -> Sizes:
    target: str = op.attributes.custom_call_target
    if target not in ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"):
        raise refused(op, f"custom-call '{target}' of a dynamic size")
    return dict(given[0])


def _reshape(op: Instruction, given: Sequence[Sizes]) -> Sizes:
    """Reshapes: each group of dimensions becomes a group of the same number of elements."""
    before, after = op.operands[0].shape, op.shape
    found: Sizes = {}
    for taken, made in reshape_groups(before, after):
        if not made or not given[0].keys() & set(taken):
            continue
        dimension = _dynamic_dim(op, made)
        total = dim.product(given[0].get(n, before.dims[n]) for n in taken)
        others = dim.product(after.dims[n] for n in made if n != dimension)
        found[dimension] = dim.floordiv(total, others or 1)
    return found


Group = tuple[tuple[int, ...], tuple[int, ...]]


def reshape_groups(before: Shape, after: Shape) -> list[Group]:
    """Return the finest division of both shapes' dimensions into groups of equal size.

    Dimensions of size 1 belong to the group after them; the last ones to the last group.
    """
    lefts, rights = before.dims, after.dims
    found: list[Group] = []
    left = right = 0
    while left < len(lefts) or right < len(rights):
        start, have, want = (left, right), 1, 1
        while (left < len(lefts) or right < len(rights)) and (have != want or have == 1):
            if left < len(lefts) and (_at_most(have, want) or right == len(rights)):
                have, left = have * lefts[left], left + 1
            else:
                want, right = want * rights[right], right + 1
        group = (tuple(range(start[0], left)), tuple(range(start[1], right)))
        if have == 1 and found:
            last = found.pop()
            group = (last[0] + group[0], last[1] + group[1])
        found.append(group)
    return found


def stays_in_order(operand: Shape, result: Shape, before: Sizes, after: Sizes) -> bool:
    """Whether elements keep their row-major index: only first dimensions of groups are dynamic."""
    if dim.product(operand.dims) != dim.product(result.dims):
        return False
    for taken, made in reshape_groups(operand, result):
        dynamic_in, dynamic_out = before.keys() & set(taken), after.keys() & set(made)
        first_in = next((n for n in taken if operand.dims[n] != 1 or n in dynamic_in), None)
        first_out = next((n for n in made if result.dims[n] != 1 or n in dynamic_out), None)
        if dynamic_in - {first_in} or dynamic_out - {first_out}:
            return False
    return True


def _at_most(have: int | Dim, want: int | Dim) -> bool:
    """Whether the left side of a group is extended; incomparable sizes alternate."""
    if isinstance(have, int) and isinstance(want, int):
        return have <= want
    return have == want or isinstance(want, Dim)


def _dynamic_dim(op: Instruction, made: tuple[int, ...]) -> int:
    """Return the dimension of a group that becomes dynamic."""
    marked = [n for n in made if op.shape.bounded and op.shape.bounded[n]]
    if marked:
        return marked[-1]
    long = [n for n in made if op.shape.dims[n] != 1]
    if len(long) == 1:
        return long[0]
    if len(made) == 1:
        return made[0]
    raise refused(op, "a reshape that does not say which dimension is dynamic")


def _windows(one: WindowDimension, size: int | Dim) -> int | Dim:
    """Return how many windows fit over `size` elements; 0 if none fits."""
    if one.base_dilation != 1:
        size = _positive((size - 1) * one.base_dilation + 1)
    return dim.floordiv(
        _positive(size + (one.low + one.high - one.extent + one.stride)), one.stride
    )


def _positive(size: int | Dim) -> int | Dim:
    return dim.maximum(size, 0)


# ---- masks


def _mask_folded(op: Instruction) -> Iterator[Mask]:
    count = len(op.operands) // 2
    for number in range(count):
        yield Mask(number, op.attributes.dimensions, count + number)


def _mask_windows(op: Instruction) -> Iterator[Mask]:
    count = len(op.operands) // 2
    for number in range(count):
        yield Mask(number, _wide(op), count + number)


def _mask_selected(op: Instruction) -> Iterator[Mask]:
    direction = getattr(op.attributes.select.root.attributes, "direction", "")
    neutral = {"GE": LEAST, "GT": LEAST, "LE": MOST, "LT": MOST}.get(direction)
    if neutral is None:
        raise refused(op, "select-and-scatter of a dynamic size whose select is no comparison")
    yield Mask(0, _wide(op), neutral)
    yield Mask(1, _wide(op), 2)


def _wide(op: Instruction) -> tuple[int, ...]:
    return tuple(dimension for dimension, one in enumerate(op.attributes.window) if one.size != 1)


def _mask_contracted(op: Instruction) -> Iterator[Mask]:
    yield Mask(0, op.attributes.lhs_contracting_dims, ZERO)
    yield Mask(1, op.attributes.rhs_contracting_dims, ZERO)


def _mask_convolved(op: Instruction) -> Iterator[Mask]:
    labels = ConvolutionLabels.parse(op.attributes.dim_labels)
    wide = [str(number) for number in _wide(op)]
    yield Mask(0, tuple(n for n, c in enumerate(labels.lhs) if c == "f" or c in wide), ZERO)
    yield Mask(1, (labels.rhs.index("i"),), ZERO)


def _mask_padded(op: Instruction) -> Iterator[Mask]:
    yield Mask(0, tuple(range(op.shape.rank)), 1)


def _mask_indices(op: Instruction) -> Iterator[Mask]:
    number = len(op.operands) // 2
    yield Mask(number, tuple(range(op.operands[number].shape.rank)), OUTSIDE)


_JOINED = DynamicRule(_any)
_PROJECTED = DynamicRule(_projected)
RULES: dict[str, DynamicRule] = {
    "bitcast-convert": DynamicRule(_bitcast_convert),
    "concatenate": DynamicRule(_concatenate),
    "constant": DynamicRule(_any),
    "convolution": DynamicRule(_convolution, _mask_convolved),
    "custom-call": DynamicRule(_custom_call),
    "dot": DynamicRule(_dot, _mask_contracted),
    "dynamic-slice": DynamicRule(_dynamic_slice),
    "dynamic-update-slice": DynamicRule(_dynamic_update_slice),
    "gather": DynamicRule(_gather),
    "iota": DynamicRule(_any),
    "pad": DynamicRule(_pad, _mask_padded),
    "reduce": DynamicRule(_reduce, _mask_folded),
    "reduce-window": DynamicRule(_reduce_window, _mask_windows),
    "reshape": DynamicRule(_reshape),
    "reverse": DynamicRule(_same),
    "scatter": DynamicRule(_same, _mask_indices),
    "select-and-scatter": DynamicRule(_same, _mask_selected),
    "slice": DynamicRule(_slice),
    "sort": DynamicRule(_any),
    "topk": DynamicRule(_topk),
}
