# SPDX-License-Identifier: Apache-2.0
"""The verifier of plans of contractions and attention: which ones are legal for a kernel.

Strategies make only legal plans, and emitters rely on that. Runs on each plan in debug mode
(`INGOT_DEBUG=4`) and in tests, as `kernel.schedule.verifier` does on schedules of loops. A
constraint has a label, which the error names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ingot.hlo import dim
from ingot.kernel.attention.schedule import TILE_FACTORS, TILE_ROWS, AttentionSchedule
from ingot.kernel.contraction.micro_blocks import MicroBlock, heights_behind
from ingot.kernel.contraction.operands import oriented
from ingot.kernel.contraction.plan import ContractionPlan
from ingot.kernel.contraction.rhs_placement import DOTS
from ingot.kernel.expr import walk
from ingot.kernel.ir import AttentionKernel, ContractionKernel
from ingot.kernel.schedule.verifier import Constraints, require


def verify_plan(kernel: ContractionKernel | AttentionKernel, plan: object) -> None:
    """Check the plan of a kernel; plans of other kinds than these have no constraints.

    Raises:
        InternalError: INGOT0932, with the label of the constraint that does not hold.
    """
    constraints = _CONSTRAINTS.get(type(plan))
    if constraints is not None:
        require(type(plan).__name__, constraints(kernel, plan))


def _of_contraction(kernel: ContractionKernel, plan: ContractionPlan) -> Constraints:
    schedule = plan.schedule
    rows, columns, lanes = schedule.rows, schedule.columns, schedule.lanes
    kernel = oriented(kernel) if schedule.swapped else kernel
    m, n = kernel.m.extent, kernel.n.extent
    is_dots = schedule.rhs in DOTS
    yield min(lanes, rows, columns) > 0, "block: it has no sums"
    yield is_dots or columns % lanes == 0, "block: columns are not whole vectors"
    yield schedule.m_block % rows == 0, "unit: its rows are not whole register blocks"
    yield schedule.n_block % columns == 0, "unit: its columns are not whole register blocks"
    blocks = dim.ceil_div(n, schedule.n_block) * dim.ceil_div(m, schedule.m_block)
    yield kernel.batch.extent * blocks == schedule.units, "units: not the blocks of the result"
    yield dim.ceil_div(schedule.units, schedule.grain) == schedule.chunks, "chunks: not all units"
    depth = schedule.k_block
    yield schedule.rhs == "dots" or depth is not None, "pieces: packed columns have no depth"
    yield (depth or 0) <= plan.depth, "pieces: a packed row is shorter than a piece"
    yield plan.depth % lanes == 0, "pieces: a packed row is not whole vectors"
    steps = (plan.lhs_row, plan.lhs_step)
    yield (1 in steps) if schedule.pack_lhs else steps == (0, 0), "lhs: steps of what is not packed"
    yield schedule.store_direct == (plan.epilogue is None), "epilogue: sums are not the result"
    heights = [each[0].rows for each in plan.row_blocks]
    yield heights == [rows, *heights_behind(m, rows)], "heights: they do not cover the rows"
    for each in plan.row_blocks:
        yield len({block.rows for block in each}) == 1, "widths: blocks of one height differ in it"
        yield _covers(each, n), "widths: they do not cover the columns"


def _covers(blocks: Sequence[MicroBlock], columns: object) -> bool:
    """Whether the widest block, repeated, and the one behind it have all columns, each once."""
    first, *behind = (block.columns for block in blocks)
    rest = columns % first if isinstance(columns, int) else None
    return len(behind) == 1 if rest is None else behind == [rest] * (rest > 0)


def _of_attention(kernel: AttentionKernel, plan: AttentionSchedule) -> Constraints:
    rows, lanes = plan.rows, plan.lanes
    yield plan.columns % lanes == 0, "columns: queries side by side are not whole vectors"
    yield rows % plan.columns == 0, "rows: a unit's queries are not whole register blocks"
    yield rows % plan.together == 0 == plan.together % lanes, "together: not whole vectors of rows"
    count = kernel.batch.extent * dim.ceil_div(kernel.m.extent, rows)
    yield count == plan.units, "units: they are not the blocks of queries"
    yield dim.ceil_div(plan.units, plan.grain) == plan.chunks, "chunks: not all units"
    yield from _of_tiles(plan) if plan.has_tiles else _of_register_blocks(plan)
    depth = plan.depth * (TILE_FACTORS if plan.has_tiles else 1)
    for size, packed in ((kernel.k.extent, depth), (kernel.e.extent, plan.width)):
        yield packed % lanes == 0, "packed: a row is not whole vectors"
        yield isinstance(size, int) and size <= packed, "packed: a row is too short"
    yield set(plan.masks) <= set(walk((kernel.scores,))), "masks: a load is of no score"


def _of_tiles(plan: AttentionSchedule) -> Constraints:
    sizes = (plan.rows, plan.keys, plan.depth * TILE_FACTORS, plan.width)
    yield not any(size % TILE_ROWS for size in sizes), "tiles: not whole blocks of them"
    yield not (plan.reads_keys or plan.reads_values), "tiles: an operand is not packed"


def _of_register_blocks(plan: AttentionSchedule) -> Constraints:
    rows = plan.rows
    highest = plan.scores[0].rows
    yield plan.keys % highest == 0, "keys: a block is not whole register blocks"
    yield all(block.columns == plan.columns for block in plan.scores), "scores: other columns"
    # Of `count` row blocks the first `tall` have a row more.
    count, rest = divmod(rows - plan.tall, plan.low)
    yield rest == 0 <= plan.tall < count, "sums: row blocks do not have all rows"
    heights = [[block.rows for block in each] for each in plan.sums]
    width = max(1, len(plan.sums[0]))
    yield heights == [[plan.low + 1] * width, [plan.low] * width], "sums: blocks have other heights"


_CONSTRAINTS: Mapping[type, Callable[[Any, Any], Constraints]] = {
    ContractionPlan: _of_contraction,
    AttentionSchedule: _of_attention,
}
