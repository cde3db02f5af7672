# SPDX-License-Identifier: Apache-2.0
"""Folds along a divided dimension: of several operands at once, and of every prefix.

An argmax folds pairs of a value and an index, which no all-reduce does. Each device folds its own
part; the devices' results are gathered and folded in turn. A cumulative sum is a fold of prefixes
(a reduce-window as long as the dimension): each device scans its own part, and adds the fold of the
devices before it.

Source: xla/service/spmd/spmd_partitioner.cc (HandleReduce).
"""

from __future__ import annotations

import numpy as np

from ingot.evaluator import evaluate_computation
from ingot.hlo.builder import scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.pattern import splat_of
from ingot.hlo.window import WindowDimension
from ingot.passes.spmd.division import (
    Annotations,
    Division,
    divided_too,
    is_apart,
    local_shapes,
    own_axis,
    whole_shape,
)
from ingot.passes.spmd.sharding import Column, Sharding, count_of, sharding_of
from ingot.passes.spmd.values import Values
from ingot.semantics.reducers import reducer_opcode
from ingot.support.records import replace


def fold_parts(values: Values, op: Instruction, annotated: Annotations) -> bool:
    """Replace `op`, a reduce of several operands, along a divided dimension.

    Args:
        values: the values of the computation, each with its sharding.
        op: the instruction.
        annotated: the shardings that the program gives its results.

    Returns:
        Whether that was done; if not, nothing has changed.
    """
    count = len(op.operands) // 2
    arrays, starts = op.operands[:count], op.operands[count:]
    division = values.division(op, annotated)
    if count == 1 or division is None or not _folds_start(op.attributes.to_apply, starts):
        return False
    given = max(map(values.sharding, arrays), key=lambda one: len(one.tiles))
    rank, kept = arrays[0].shape.rank, division.operands[0]
    along = set(given.changed(kept, rank)) & set(op.attributes.dimensions)
    axis = min(along, default=None)
    if axis is None or any(kept.column(axis)) or not is_apart(division, given.column(axis)):
        return False
    column = given.column(axis)
    wholes = (whole_shape(array.shape, values.sharding(array)) for array in arrays)
    if any(whole.static_dims[axis] % count_of(column) for whole in wholes):
        return False
    target = divided_too(kept, axis, column, rank)
    parts = [values.convert(array, target) for array in arrays]
    made = values.computation.copy_of(op, [*parts, *starts])
    values.computation.set_shape(made, local_shapes(op.shape, division.results))
    build = values.resharder.builder(op)
    gathered = [
        _from_all(values, build.element_of(made, number), division.results[number], column)
        for number in range(count)
    ]
    folded = build.emit(
        "reduce", *gathered, *starts, dimensions=(0,), to_apply=op.attributes.to_apply
    )
    values.replace_part(op, folded, division.results, annotated)
    return True


def _folds_start(fold: Computation, starts: tuple[Instruction, ...]) -> bool:
    """Whether folding the initial values more than once gives what folding them once does."""
    scalars = [splat_of(start) for start in starts]
    if any(scalar is None for scalar in scalars):
        return False
    given = [np.asarray(scalar) for scalar in scalars]
    found = evaluate_computation(fold, [*given, *given])
    found = found if isinstance(found, tuple) else (found,)
    pairs = zip(found, given, strict=True)
    return all(np.asarray(one).tobytes() == other.tobytes() for one, other in pairs)


def _from_all(values: Values, part: Instruction, sharding: Sharding, column: Column) -> Instruction:
    """Return the parts of the devices that differ in `column`, along a new first dimension."""
    build = values.resharder.builder(part)
    row = build.reshape_to(part, (1, *part.shape.dims))
    columns = [column, *(sharding.column(axis) for axis in range(part.shape.rank))]
    given = sharding_of(columns, values.count)
    subgroups = values.subgroups(part)
    return values.resharder.gather(row, given, set(range(1, row.shape.rank)), subgroups)


def scan_parts(values: Values, op: Instruction, division: Division) -> bool:
    """Replace a scan along a divided dimension, forwards or backwards; return whether it was.

    A scan is a reduce-window of one operand, by a known op from its identity on, whose window is as
    long as a dimension, and whose padding on one side makes as many results.
    """
    operand, rank = op.operands[0], op.shape.rank
    given, kept = values.sharding(operand), division.operands[0]
    axis = own_axis(division, given, kept, rank)
    if axis is None:
        return False
    size, one = op.shape.static_dims[axis], op.attributes.window[axis]
    is_forwards = one == WindowDimension(size, low=size - 1)
    if not is_forwards and one != WindowDimension(size, high=size - 1):
        return False
    target = divided_too(kept, axis, given.column(axis), rank)
    start = values.convert(op.operands[1], division.operands[1])
    made = _own_scan(values, op, start, (axis, is_forwards))
    before = _folded_before(values, op, made, target, (axis, is_forwards))
    others = tuple(dim for dim in range(rank) if dim != axis)
    build = values.resharder.builder(op)
    wide = build.broadcast_to(before, made.shape.dims, others)
    joined = build.emit(reducer_opcode(op.attributes.to_apply), wide, made)
    values.replace_part(op, joined, (target,))
    return True


def _own_scan(
    values: Values, op: Instruction, start: Instruction, along: tuple[int, bool]
) -> Instruction:
    """Return the scan of this device's part; `along`: the axis, and whether it goes forwards."""
    (axis, is_forwards), operand = along, op.operands[0]
    part, window = operand.shape.static_dims[axis], list(op.attributes.window)
    low, high = (part - 1, 0) if is_forwards else (0, part - 1)
    window[axis] = WindowDimension(part, low=low, high=high)
    made = values.computation.copy_of(op, [operand, start])
    values.computation.set_attributes(made, replace(op.attributes, window=tuple(window)))
    values.computation.set_shape(made, operand.shape)
    return made


def _folded_before(
    values: Values, op: Instruction, made: Instruction, target: Sharding, along: tuple[int, bool]
) -> Instruction:
    """Return the fold of all parts before this device's; `made`: the scan of its own."""
    (axis, is_forwards), (operand, start) = along, op.operands
    resharder, build = values.resharder, values.resharder.builder(op)
    last = made.shape.static_dims[axis] - 1 if is_forwards else 0
    total = build.slice_along(made, axis, last, last + 1)
    others = set(range(op.shape.rank)) - {axis}
    totals = resharder.gather(total, target, others, values.subgroups(operand))
    # Of part p, the parts before are the first p; those behind, the last ones.
    limit = resharder.of_device(build, np.array(target.column(axis), np.int32))
    index = build.index_along(totals.shape.static_dims, axis)
    here = build.broadcast_to(limit, totals.shape.dims, ())
    is_before = build.compare(index, here, direction="LT" if is_forwards else "GT")
    counted = build.select(is_before, totals, build.broadcast_to(start, totals.shape.dims))
    fold = reducer_opcode(op.attributes.to_apply)
    reducer = values.channels.module.take(scalar_computation(fold, op.shape.dtype))
    return build.emit("reduce", counted, start, dimensions=(axis,), to_apply=reducer)
