# SPDX-License-Identifier: Apache-2.0
"""Windows over a divided dimension: neighbouring devices exchange what windows share.

A device's windows begin in its part of the operand, as many as the stride says, and reach a bit
into its neighbours' parts: the *halo*. Two collective-permutes bring it. Devices at the border
get zeros, which is the padding of a convolution; a reduce-window puts the fold's identity there.

Source: xla/service/spmd/convolution_handler.cc, spmd_partitioner_util.cc (ExchangeHalo).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ingot.hlo.dim import ceil_div
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.contraction import ConvolutionAttributes
from ingot.hlo.window import WindowDimension
from ingot.passes.spmd.division import (
    Annotations,
    Division,
    divided_too,
    is_apart,
    own_axis,
    still_summed,
)
from ingot.passes.spmd.folds import scan_parts
from ingot.passes.spmd.reshard import between
from ingot.passes.spmd.sharding import Column, Sharding, count_of, groups_along
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
    """The elements of its neighbours' parts that a device needs along one dimension.

    Attributes:
        along: the dimension.
        column: the number of each device's part.
        before: elements of the part before.
        after: elements of the part after; negative: last ones of its own that no window needs.
    """

    along: _Dimension
    column: Column
    before: int
    after: int

    def is_in_neighbours(self, size: int) -> bool:
        """Whether it lies within the neighbouring parts, of `size` elements each."""
        return 0 <= self.before <= size and -size < self.after <= size


_How = tuple[Division, Sequence[_Dimension]]
"""How an op is divided along other dimensions, and the dimensions that its windows run over."""


def convolve_parts(values: Values, op: Instruction, annotated: Annotations) -> bool:
    """Replace the convolution `op` along a divided dimension; return whether that was done."""
    labels = op.as_(ConvolutionAttributes).labels
    dimensions = [
        _Dimension(int(letter), axis, labels.output.index(letter))
        for axis, letter in enumerate(labels.lhs)
        if letter.isdigit()
    ]
    division = values.division(op, annotated)
    return division is not None and (
        _summed(values, op, (division, dimensions), annotated)
        or _replaced(values, op, (division, dimensions))
    )


def reduce_parts(values: Values, op: Instruction, annotated: Annotations) -> bool:
    """Replace the reduce-window `op` along a divided dimension; return whether that was done."""
    fold = reducer_opcode(op.attributes.to_apply) if len(op.operands) == 2 else ""
    if not fold or not is_identity(op.operands[1], fold):
        return False  # Elements outside of the operand are not folded; a start value would be.
    dimensions = [_Dimension(axis, axis, axis) for axis in range(op.shape.rank)]
    division = values.division(op, annotated)
    return division is not None and (
        scan_parts(values, op, division) or _replaced(values, op, (division, dimensions))
    )


def _summed(values: Values, op: Instruction, how: _How, annotated: Annotations) -> bool:
    """Replace the gradient of a filter: a window as large as an image that is divided alike.

    Each device sums the products of its own part, and the devices' results are summands.
    """
    (division, dimensions), filters = how, op.attributes.labels.rhs
    given = [values.sharding(operand) for operand in op.operands]
    changed = [
        one.changed(kept, op.shape.rank) for one, kept in zip(given, division.operands, strict=True)
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
    size, window_size = (
        o.shape.static_dims[axis] for o, axis in zip(op.operands, axes, strict=True)
    )
    after = op.shape.static_dims[along[0].result] - one.window_dilation - one.low
    is_plain = one.stride == one.base_dilation == 1 and not one.reversal
    fits = is_plain and size == window_size * one.window_dilation
    halo = _Halo(along[0], column, one.low, after)
    if not fits or given[1].column(axes[1]) != column or not is_apart(division, column):
        return False
    if not halo.is_in_neighbours(size):
        return False
    wide = _widened(values, op.operands[0], given[0], halo)
    sizes = window_size, op.shape.static_dims[along[0].result]
    made = _widely(values, op, [wide, op.operands[1]], halo, sizes)
    result = still_summed(division.results[0], [column, *division.folded], op.shape.rank)
    values.replace_part(op, made, (result,), annotated)
    return True


def _replaced(values: Values, op: Instruction, how: _How) -> bool:
    """Replace an op whose windows begin in the devices' own parts."""
    division, dimensions = how
    operand, other = op.operands
    given, kept = values.sharding(operand), division.operands[0]
    axis = own_axis(division, given, kept, operand.shape.rank)
    along = [dimension for dimension in dimensions if dimension.operand == axis]
    halo = _halo(op, along[0], given) if along else None
    if halo is None:
        return False
    other = values.convert(other, division.operands[1])
    wide = _widened(values, operand, given, halo)
    if op.opcode == "reduce-window":
        wide = _with_border(values, wide, other, halo)
    results = op.shape.static_dims[halo.along.result] // count_of(halo.column)
    sizes = op.attributes.window[halo.along.number].size, results
    made = _widely(values, op, [wide, other], halo, sizes)
    result = divided_too(division.results[0], halo.along.result, halo.column, op.shape.rank)
    values.replace_part(op, made, (still_summed(result, division.folded, op.shape.rank),))
    return True


def _halo(op: Instruction, along: _Dimension, given: Sharding) -> _Halo | None:
    """Return the halo; None if the windows of a device do not begin in its own part."""
    one: WindowDimension = op.attributes.window[along.number]
    column = given.column(along.operand)
    size, count = op.operands[0].shape.static_dims[along.operand], count_of(column)
    dilation = one.base_dilation
    before = ceil_div(one.low, dilation)
    after = ((one.size - 1) * one.window_dilation + dilation - one.stride - one.low) // dilation
    fits = op.shape.dims[along.result] * one.stride == size * count * dilation
    fits = fits and size % one.stride == 0 and 1 in (one.stride, dilation)
    halo = _Halo(along, column, before, after)
    return halo if fits and halo.is_in_neighbours(size) else None


def _widened(values: Values, part: Instruction, given: Sharding, halo: _Halo) -> Instruction:
    """Return a part with its halo."""
    resharder, axis, size = values.resharder, halo.along.operand, part.shape.static_dims
    build = resharder.builder(part)
    groups = groups_along(given, axis, part.shape.rank, values.subgroups(part))
    pairs = [pair for group in groups for pair in pairwise(group)]
    pieces = [part]
    if halo.before > 0:
        last = build.slice_along(part, axis, size[axis] - halo.before, size[axis])
        pieces.insert(0, resharder.send(last, pairs))
    if halo.after > 0:
        first = build.slice_along(part, axis, 0, halo.after)
        pieces.append(resharder.send(first, ((after, before) for before, after in pairs)))
    if len(pieces) == 1:
        return part
    return build.concatenate(*pieces, dimensions=(axis,))


def _with_border(values: Values, wide: Instruction, start: Instruction, halo: _Halo) -> Instruction:
    """Return a widened part with the start value where the device has no neighbour."""
    build, dims = values.resharder.builder(wide), wide.shape.static_dims
    index = build.index_along(dims, halo.along.operand)
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
    is_there = between(build, index, first, limit)
    return build.select(is_there, wide, build.broadcast_to(start, dims, ()))


def _widely(
    values: Values,
    op: Instruction,
    operands: list[Instruction],
    halo: _Halo,
    sizes: tuple[int, int],
) -> Instruction:
    """Return an op on a widened part; `sizes`: those of its window and of its result there."""
    size, results = sizes
    window: list[WindowDimension] = list(op.attributes.window)
    number = halo.along.number
    one = window[number]
    extent = operands[0].shape.static_dims[halo.along.operand]
    low = one.low - halo.before * one.base_dilation
    # The last window ends where the part and its padding do.
    own = replace(one, size=size, low=low)
    window[number] = replace(own, high=own.reach(results) - low - own.spread(extent))
    made = values.computation.copy_of(op, operands)
    values.computation.set_attributes(made, replace(op.attributes, window=tuple(window)))
    return made
