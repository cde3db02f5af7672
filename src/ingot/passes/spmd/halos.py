# SPDX-License-Identifier: Apache-2.0
"""Windows over a divided dimension: neighbouring devices exchange the rows that windows share.

A device's windows begin in its part of the operand, as many as the stride says, and reach a few
rows into its neighbours' parts: the *halo*. Two collective-permutes bring it. Devices at the border
get zeros, which is the padding of a convolution; a reduce-window puts the fold's identity there.

Source: xla/service/spmd/convolution_handler.cc, spmd_partitioner_util.cc (ExchangeHalo).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ingot.hlo.builder import Builder
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.contraction import ConvolutionAttributes
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension
from ingot.passes.spmd.division import Annotations, divided_too, is_apart
from ingot.passes.spmd.sharding import Column, Sharding, count_of, device_groups, joined
from ingot.passes.spmd.values import Values
from ingot.semantics.reducers import is_identity, reducer_opcode
from ingot.support.records import record, replace


@record
class _Dimension:
    """A dimension of the operand that windows run over.

    Attributes:
        number: its number in the window.
        operand: its number in the operand.
        result: its number in the result.
    """

    number: int
    operand: int
    result: int


@record
class _Halo:
    """What a device needs of its neighbours' parts along one dimension.

    Attributes:
        along: the dimension.
        column: the number of each device's part.
        before: rows of the part before.
        after: rows of the part after; negative: last rows of the own part that no window needs.
    """

    along: _Dimension
    column: Column
    before: int
    after: int


def convolve_parts(values: Values, op: Instruction, annotated: Annotations) -> bool:
    """Replace a convolution of an image with divided rows; return whether that was done."""
    labels = op.as_(ConvolutionAttributes).labels
    dimensions = [
        _Dimension(int(letter), axis, labels.output.index(letter))
        for axis, letter in enumerate(labels.lhs)
        if letter.isdigit()
    ]
    return _summed(values, op, annotated, dimensions) or _replaced(
        values, op, annotated, dimensions
    )


def reduce_parts(values: Values, op: Instruction, annotated: Annotations) -> bool:
    """Replace a reduce-window over divided rows; return whether that was done."""
    fold = reducer_opcode(op.attributes.to_apply) if len(op.operands) == 2 else ""
    if not fold or not is_identity(op.operands[1], fold):
        return False  # What lies outside of the operand is not folded; a start value would be.
    dimensions = [_Dimension(axis, axis, axis) for axis in range(op.shape.rank)]
    return _replaced(values, op, annotated, dimensions)


def _summed(
    values: Values, op: Instruction, annotated: Annotations, dimensions: Sequence[_Dimension]
) -> bool:
    """Replace the gradient of a filter: a window as large as an image that is divided alike.

    Each device sums the products of its own rows, and the devices' results are summands.
    """
    division, filters = values.division(op, annotated), op.attributes.labels.rhs
    if division is None or division.fold not in ("", "add"):
        return False
    given = [values.sharding(operand) for operand in op.operands]
    changed = [
        [axis for axis in range(op.shape.rank) if one.column(axis) != kept.column(axis)]
        for one, kept in zip(given, division.operands, strict=True)
    ]
    along = [
        dimension
        for dimension in dimensions
        if changed == [[dimension.operand], [filters.index(str(dimension.number))]]
    ]
    if not along:
        return False
    axes, column = [axes[0] for axes in changed], given[0].column(changed[0][0])
    one: WindowDimension = op.attributes.window[along[0].number]
    rows, window_rows = (
        o.shape.static_dims[axis] for o, axis in zip(op.operands, axes, strict=True)
    )
    after = op.shape.static_dims[along[0].result] - one.window_dilation - one.low
    is_plain = one.stride == one.base_dilation == 1 and not one.reversal
    fits = is_plain and rows == window_rows * one.window_dilation
    if not fits or given[1].column(axes[1]) != column or not is_apart(division, column):
        return False
    if not (0 <= one.low <= rows and -rows < after <= rows):
        return False
    halo = _Halo(along[0], column, one.low, after)
    wide = _widened(values, op.operands[0], given[0], halo)
    made = _widely(values, op, [wide, op.operands[1]], halo, window_rows)
    summands = joined([column, *division.folded])
    values.replace_part(
        op, made, (division.results[0].of_summands(summands, op.shape.rank),), annotated
    )
    return True


def _replaced(
    values: Values, op: Instruction, annotated: Annotations, dimensions: Sequence[_Dimension]
) -> bool:
    division = values.division(op, annotated)
    if division is None or division.fold not in ("", "add"):
        return False
    operand, other = op.operands
    given, kept, rank = values.sharding(operand), division.operands[0], operand.shape.rank
    changed = [axis for axis in range(rank) if given.column(axis) != kept.column(axis)]
    along = [dimension for dimension in dimensions if [dimension.operand] == changed]
    if not along:
        return False
    halo = _halo(op, along[0], given)
    if halo is None or any(kept.column(changed[0])) or not is_apart(division, halo.column):
        return False
    other = values.convert(other, division.operands[1])
    wide = _widened(values, operand, given, halo)
    if op.opcode == "reduce-window":
        wide = _with_border(values, wide, other, halo)
    made = _widely(values, op, [wide, other], halo, op.attributes.window[halo.along.number].size)
    result = divided_too(division.results[0], halo.along.result, halo.column, op.shape.rank)
    if division.folded:
        result = result.of_summands(joined(division.folded), op.shape.rank)
    values.replace_part(op, made, (result,))
    return True


def _halo(op: Instruction, along: _Dimension, given: Sharding) -> _Halo | None:
    """Return the halo; None if the windows of a device do not begin in its own part."""
    one: WindowDimension = op.attributes.window[along.number]
    column = given.column(along.operand)
    rows, count = op.operands[0].shape.static_dims[along.operand], count_of(column)
    after = (one.size - 1) * one.window_dilation + 1 - one.stride - one.low
    fits = op.shape.dims[along.result] * one.stride == rows * count and rows % one.stride == 0
    if not fits or one.base_dilation != 1 or not (0 <= one.low <= rows and -rows < after <= rows):
        return None
    return _Halo(along, column, one.low, after)


def _widened(values: Values, part: Instruction, given: Sharding, halo: _Halo) -> Instruction:
    """Return a part between rows of the parts before and after it."""
    build = values.resharder.builder(part)
    pieces = [part]
    for rows, is_before in ((halo.before, True), (halo.after, False)):
        if rows > 0:
            sent = _last(build, part, halo.along.operand, rows, at_end=is_before)
            pairs = _neighbours(values, part, given, halo)
            if not is_before:
                pairs = tuple((target, source) for source, target in pairs)
            got = build.emit(
                "collective-permute",
                sent,
                channel_id=values.channels.next(),
                source_target_pairs=tuple(sorted(pairs)),
            )
            pieces = [got, *pieces] if is_before else [*pieces, got]
    if len(pieces) == 1:
        return part
    return build.emit("concatenate", *pieces, dimensions=(halo.along.operand,))


def _last(build: Builder, part: Instruction, axis: int, rows: int, *, at_end: bool) -> Instruction:
    """Return the last rows of a part, or the first ones."""
    sizes = part.shape.static_dims
    begin = sizes[axis] - rows if at_end else 0
    box = [(0, size, 1) for size in sizes]
    box[axis] = (begin, begin + rows, 1)
    return build.slice(part, slice=tuple(box))


def _neighbours(
    values: Values, part: Instruction, given: Sharding, halo: _Halo
) -> tuple[tuple[int, int], ...]:
    """Return the devices of each part with those of the part after it."""
    others = [given.column(axis) for axis in range(part.shape.rank) if axis != halo.along.operand]
    lanes = values.lanes(part)
    groups = device_groups([*others, lanes] if lanes else others, halo.column)
    return tuple(pair for group in groups for pair in pairwise(group))


def _with_border(values: Values, wide: Instruction, start: Instruction, halo: _Halo) -> Instruction:
    """Return the rows of a device with the start value where it has no neighbour."""
    build, dims = values.resharder.builder(wide), wide.shape.static_dims
    shape = Shape.array(S32, dims)
    row = build.emit("iota", shape=shape, iota_dimension=halo.along.operand)
    length = dims[halo.along.operand]
    last = count_of(halo.column) - 1
    bounds = np.array(
        [
            (0 if at else halo.before, length if at < last else length - max(halo.after, 0))
            for at in halo.column
        ],
        np.int32,
    )
    first, limit = (
        build.broadcast_to(values.resharder.of_device(build, bounds[:, side]), dims, ())
        for side in (0, 1)
    )
    is_there = build.and_(
        build.emit("compare", row, first, direction="GE"),
        build.emit("compare", row, limit, direction="LT"),
    )
    return build.select(is_there, wide, build.broadcast_to(start, dims, ()))


def _widely(
    values: Values, op: Instruction, operands: list[Instruction], halo: _Halo, size: int
) -> Instruction:
    """Return an op on widened rows, with a window of `size` along them."""
    window: list[WindowDimension] = list(op.attributes.window)
    number = halo.along.number
    window[number] = replace(window[number], size=size, low=0, high=min(halo.after, 0))
    made = values.computation.copy_of(op, operands)
    values.computation.set_attributes(made, replace(op.attributes, window=tuple(window)))
    return made
