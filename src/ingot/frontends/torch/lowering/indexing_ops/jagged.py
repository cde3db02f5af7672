# SPDX-License-Identifier: Apache-2.0
"""Rows of many lengths, one after the other (nested tensors of the layout `jagged`), and padded.

Offsets say where each row begins and the last one ends. Elements of a row move together.

Source: torch/native/nested/NestedTensorTransformerFunctions.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.building.indexing import take, take_vectors
from ingot.frontends.torch.fx.sizes import Size
from ingot.frontends.torch.lowering.context.op import Op, Scalar
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.frontends.torch.lowering.indexing_ops.searching import count_up_to_each
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")


def _limits(op: Op, offsets: Sequence[Instruction]) -> tuple[Instruction, Instruction]:
    """Return where rows begin and end, as s64.

    Raises:
        UnsupportedError: INGOT0372, there is more than one ragged dimension.
    """
    if len(offsets) != 1:
        raise op.error(f"{len(offsets)} ragged dimensions")
    b, found = op.b, op.b.convert_to(offsets[0], S64)
    (count,) = found.shape.dims
    return b.sliced(found, 0, 0, count - 1), b.sliced(found, 0, 1, count)


@RULES.rule("_jagged_to_padded_dense_forward")
def _padded_rows(
    op: Op,
    values: Instruction,
    offsets: Sequence[Instruction],
    max_lengths: Sequence[Size],
    padding_value: Scalar = 0.0,
) -> Instruction:
    """Place each row in one of as many elements as the longest may have; more are left out."""
    del max_lengths  # the result's
    b, dims = op.b, op.dims
    starts, ends = (b.reshape_to(item, (dims[0], 1)) for item in _limits(op, offsets))
    at = b.add(b.spread(starts, dims[:2]), b.iota_of(S64, dims[:2], 1))
    inside = b.compare(at, b.spread(ends, dims[:2]), direction="LT")
    rows = take(b, values, b.select(inside, at, b.zeros(at.shape)))
    flags = b.broadcast_to(inside, dims, (0, 1))
    return b.select(flags, rows, op.scalar_like(padding_value, rows))


@RULES.rule("_padded_dense_to_jagged_forward")
def _joined_rows(
    op: Op, dense: Instruction, offsets: Sequence[Instruction], total: Size | None = None
) -> Instruction:
    """Take the elements of each row that are not padding; elements before the first are its."""
    del total  # the result's
    b, count = op.b, op.dims[0]
    starts, ends = _limits(op, offsets)
    longest = b.like(dense.shape.dims[1], starts.shape)
    fits = b.compare(b.subtract(ends, starts), longest, direction="LE")
    assert_everywhere(b, fits, "found a row that is longer than max length of the padded input")
    last = b.sliced(ends, 0, ends.shape.dims[0] - 1, ends.shape.dims[0])
    is_all = b.compare(last, b.like(count, last.shape), direction="EQ")
    assert_everywhere(b, is_all, "final offset should match total_L value")
    position = b.iota_of(S64, (count,), 0)
    row = b.binary("subtract", count_up_to_each(b, starts, count), 1)
    row = b.maximum(row, b.zeros(row.shape))
    at = b.subtract(position, take(b, starts, row))
    columns = [b.reshape_to(item, (count, 1)) for item in (row, at)]
    return take_vectors(b, dense, b.concatenated(columns, 1))
