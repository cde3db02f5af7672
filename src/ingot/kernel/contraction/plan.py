# SPDX-License-Identifier: Apache-2.0
"""Plans of contractions in loops of their own: the register blocks of a schedule, and the rest.

`schedule` says how the result is cut into units; this says which micro-kernels compute a unit, how
far apart packed rows lie, and how an epilogue takes the sums. A micro-kernel comes from the library
where it has one that is as fast (the common heights, the lhs dense along k or m); then no program
compiles it again. Others are made for the kernel at hand, with its strides as constants.

Invariant: the blocks of a unit cover its rows and columns, each once.
"""

from __future__ import annotations

from ingot.analysis.library import VECTORS
from ingot.hlo.dim import Dim, ceil_div, round_up
from ingot.kernel.contraction.epilogue import EpilogueSchedule, schedule_epilogue
from ingot.kernel.contraction.micro_blocks import (
    BlockMaker,
    MicroBlock,
    heights_behind,
    shared_heights,
)
from ingot.kernel.contraction.operands import cell_bits, oriented, stride
from ingot.kernel.contraction.rhs_placement import DOTS
from ingot.kernel.contraction.schedule import ContractionSchedule
from ingot.kernel.ir import ContractionKernel
from ingot.llvm.machine_model import LINE_BYTES, Vectors
from ingot.support.records import record

MAX_VECTORS, MAX_TAIL_SUMS = 8, 12
"""Vectors per row, and in all, of register blocks for rows left over."""

UNKNOWN_WIDTH = 0
"""Columns of a register block that are counted as it runs."""


@record
class ContractionPlan:
    """How a contraction runs in loops and micro-kernels of its own.

    Attributes:
        schedule: its units.
        depth: elements of a packed column, and of a row, with those that fill the last vector.
        lhs_row, lhs_step: steps of a packed lhs along m and k; 0: it is read where it lies.
        row_blocks: the register blocks of whole row blocks, then of rows left over, high ones
            first: each the widest one, then that of columns left over if there are any.
        epilogue: how results are made of the sums, None where they are the result.
    """

    schedule: ContractionSchedule
    depth: int
    lhs_row: int
    lhs_step: int
    row_blocks: tuple[tuple[MicroBlock, ...], ...]
    epilogue: EpilogueSchedule | None


def plan_contraction(
    kernel: ContractionKernel, schedule: ContractionSchedule, vectors: Vectors
) -> ContractionPlan:
    """Return the plan of a kernel with a schedule, for a target's vectors."""
    given = oriented(kernel) if schedule.swapped else kernel
    depth = round_up(schedule.k_block or 0, schedule.lanes)
    lhs_row, lhs_step = _packed_steps(given, schedule, depth)
    blocks = _Blocks(given, schedule, vectors, (lhs_row, lhs_step)).all_heights()
    taken = None if schedule.store_direct else schedule_epilogue(kernel, schedule)
    return ContractionPlan(schedule, depth, lhs_row, lhs_step, blocks, taken)


def _packed_steps(
    kernel: ContractionKernel, schedule: ContractionSchedule, depth: int
) -> tuple[int, int]:
    """Return the steps of a packed lhs along m and k, 0 if it is not packed."""
    if not schedule.pack_lhs:
        return 0, 0
    if kernel.patches is not None and not kernel.patches.along_k:
        return 1, 1 << (schedule.rows - 1).bit_length()
    # Odd in cache lines, so that rows do not fall into one cache set.
    line = max(1, 8 * LINE_BYTES // cell_bits(kernel.accumulate))
    return (ceil_div(depth, line) | 1) * line, 1


@record
class _Blocks:
    """Chooses the register blocks of a kernel; `packed` are the steps of a packed lhs."""

    kernel: ContractionKernel
    schedule: ContractionSchedule
    vectors: Vectors
    packed: tuple[int, int]

    def all_heights(self) -> tuple[tuple[MicroBlock, ...], ...]:
        """Return the blocks of whole row blocks, then of rows left over."""
        rows = self.schedule.rows
        return tuple(map(self._of_height, (rows, *heights_behind(self.kernel.m.extent, rows))))

    def _of_height(self, rows: int) -> tuple[MicroBlock, ...]:
        columns, extent = self._width(rows), self.kernel.n.extent
        widths = (columns, 1 if self._is_dots else UNKNOWN_WIDTH)
        if isinstance(extent, int):
            widths = (columns, extent % columns) if extent % columns else (columns,)
        return tuple(self._block(rows, width) for width in widths)

    @property
    def _is_dots(self) -> bool:
        return self.schedule.rhs in DOTS

    def _width(self, rows: int) -> int:
        """Return the columns of a register block: more where few rows leave registers free."""
        schedule = self.schedule
        if schedule.rhs != "direct" or rows == schedule.rows:
            return schedule.columns
        most = min(MAX_VECTORS, MAX_TAIL_SUMS // rows) * schedule.lanes
        wider = range(schedule.columns, most + 1, schedule.columns)
        return max([schedule.columns, *(w for w in wider if schedule.n_block % w == 0)])

    def _block(self, rows: int, columns: int) -> MicroBlock:
        schedule, element = self.schedule, self.kernel.accumulate
        if self._is_dots:
            is_any = element.is_float and self.vectors.has_fma
            return MicroBlock(rows, columns, columns, schedule.rhs == "packed dots" and is_any)
        lanes, panel, knows_rows = schedule.lanes, schedule.columns, False
        if schedule.rhs == "direct":
            panel, row = None, stride(self.kernel.rhs.payload.index, self.kernel.k.name)
            knows_rows = isinstance(row, int)
        vectors = ceil_div(columns or self._width(rows), lanes)
        is_shared = self._is_shared(rows, vectors)
        maker = BlockMaker(element, lanes, panel, knows_rows)
        return maker.block(rows, columns, vectors, is_shared=is_shared)

    def _is_shared(self, rows: int, vectors: int) -> bool:
        """Whether the library has the micro-kernel of a block."""
        heights = shared_heights(self.kernel.accumulate, self.schedule.lanes, self.vectors)
        row, step = self._lhs_steps
        # Single rows of panels: a convolution with one output, many positions side by side.
        is_row = rows == 1 and self.schedule.rhs == "packed" and step == 1 and len(heights) > 0
        is_common = rows in heights and vectors == VECTORS
        return is_row or (is_common and 1 in (row, step))

    @property
    def _lhs_steps(self) -> tuple[int | Dim | None, int | Dim | None]:
        """The steps of the lhs along m and k."""
        if self.schedule.pack_lhs:
            return self.packed
        where = self.kernel.lhs.payload.index
        return stride(where, self.kernel.m.name), stride(where, self.kernel.k.name)
