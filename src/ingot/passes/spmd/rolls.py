# SPDX-License-Identifier: Apache-2.0
"""Rolls of a divided array: each device gets the rows that come in from its neighbour.

`jnp.roll` joins the last rows of an array and the others. Where it is divided along the rows, that
would gather it; one collective-permute around the ring is enough.

Source: xla/service/spmd/spmd_partitioner.cc (HandleConcatenate: rotate-right pattern).
"""

from __future__ import annotations

from ingot.hlo.instruction import Instruction
from ingot.passes.spmd.reshard import Resharder
from ingot.passes.spmd.sharding import Column, Sharding, groups_along
from ingot.support.records import record


@record
class _Roll:
    """A roll of an array of which every device has a part.

    Attributes:
        part: this device's part.
        axis: the dimension.
        rows: how far elements move towards higher indices; negative: towards lower ones.
    """

    part: Instruction
    axis: int
    rows: int


def rolled(
    resharder: Resharder, whole: Instruction, wanted: Sharding, lanes: Column
) -> Instruction | None:
    """Return this device's part of a value if it is a roll of an array divided as `wanted`.

    Args:
        resharder: that of the computation.
        whole: the value, computed from the gathered array.
        wanted: how it is to be divided.
        lanes: as for `Resharder.gather`.
    """
    found = _roll_of(resharder, whole, wanted)
    if found is None:
        return None
    resharder.rolled.append(whole)
    part, axis, rows = found.part, found.axis, abs(found.rows)
    size = part.shape.static_dims[axis]
    groups = groups_along(wanted, axis, whole.shape.rank, lanes)
    pairs = [pair for group in groups for pair in zip(group, (*group[1:], group[0]), strict=True)]
    is_up = found.rows > 0
    middle = size - rows if is_up else rows
    low, high = (resharder.rows(part, axis, *ends) for ends in ((0, middle), (middle, size)))
    if is_up:
        pieces = (resharder.send(high, pairs), low)
    else:
        pieces = (high, resharder.send(low, ((target, source) for source, target in pairs)))
    return resharder.builder(whole).emit("concatenate", *pieces, dimensions=(axis,))


def _roll_of(resharder: Resharder, whole: Instruction, wanted: Sharding) -> _Roll | None:
    if whole.opcode != "concatenate" or len(whole.operands) != 2:
        return None
    axis: int = whole.attributes.dimensions[0]
    last, first = whole.operands
    if last.opcode != "slice" or first.opcode != "slice" or last.operands != first.operands:
        return None
    part, given = resharder.sources.get(last.operands[0], (whole, None))
    if given != wanted or wanted.tiles[axis] == 1:
        return None
    box = [(0, size, 1) for size in last.operands[0].shape.static_dims]
    size, moved = box[axis][1], last.shape.static_dims[axis]
    boxes = [
        (*box[:axis], (begin, limit, 1), *box[axis + 1 :])
        for begin, limit in ((size - moved, size), (0, size - moved))
    ]
    if [last.attributes.slice, first.attributes.slice] != boxes:
        return None
    rows = moved if 2 * moved <= size else moved - size
    return _Roll(part, axis, rows) if 0 < abs(rows) < part.shape.static_dims[axis] else None
