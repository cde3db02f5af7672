# SPDX-License-Identifier: Apache-2.0
"""Which code runs a register block of a contraction: a micro-kernel or dot products.

A micro-kernel comes from the library where it has one that is as fast (the common heights, the lhs
dense along k or m); then no program compiles it again. Others are made for the kernel at hand,
with its strides as constants.
"""

from __future__ import annotations

from ingot.analysis.library import ELEMENTS, MIN_VECTOR_BITS, VECTORS
from ingot.cpu.emit.contraction.dot_products import DotProducts, shared_dots
from ingot.cpu.emit.contraction.microkernel import (
    Matrix,
    MicroKernel,
    on_panels,
    rows_ahead,
    shared_across,
    shared_along,
)
from ingot.cpu.emit.contraction.packing import cell_type
from ingot.cpu.emit.template import Template, template_of
from ingot.emit.values.indices import IndexValue
from ingot.hlo.dtype import PRED, DType
from ingot.kernel.contraction.operands import cell_bits
from ingot.kernel.contraction.product import heights_of
from ingot.kernel.contraction.schedule import ContractionSchedule, is_split
from ingot.kernel.ir import ContractionKernel
from ingot.llvm.machine_model import Vectors
from ingot.llvm.target import TargetSpec
from ingot.support.records import record

UNKNOWN_WIDTH = 0
"""Width of a register block whose columns are counted at run time."""

MAX_VECTORS, MAX_TAIL_SUMS = 8, 12
"""Vectors per row, and in all, of register blocks for rows left over."""


class RegisterBlocks:
    """The register blocks of one kernel; `shared` gathers the library code that they call."""

    def __init__(
        self, kernel: ContractionKernel, schedule: ContractionSchedule, target: TargetSpec
    ) -> None:
        """Choose for `kernel` as `schedule` says."""
        self.kernel = kernel
        self.schedule = schedule
        self.target = target
        self.cell = cell_type(kernel.accumulate)
        self.shared: dict[str, Template] = {}
        vectors = Vectors.of(target)
        whole = vectors.lanes(cell_bits(kernel.accumulate), 1)
        has_library = kernel.accumulate in ELEMENTS and target.has_fma
        is_wide = vectors.bits >= MIN_VECTOR_BITS and schedule.lanes == whole
        self._heights = heights_of(vectors) if has_library and is_wide else range(0)

    def width(self, height: int) -> int:
        """Return the columns of a register block: more where few rows leave registers free."""
        schedule = self.schedule
        if schedule.rhs != "direct" or height == schedule.rows:
            return schedule.columns
        most = min(MAX_VECTORS, MAX_TAIL_SUMS // height) * schedule.lanes
        wider = range(schedule.columns, most + 1, schedule.columns)
        return max([schedule.columns, *(w for w in wider if schedule.n_block % w == 0)])

    def dot_products(
        self, matrices: tuple[Matrix, Matrix, Matrix], rows: int, columns: int
    ) -> DotProducts:
        """Return the dot products of `rows` and `columns`."""
        lhs, rhs, result = matrices
        depth = self.kernel.k.extent
        if self.schedule.rhs == "packed dots" and self.cell.is_float and self.target.has_fma:
            found = shared_dots(self.cell, self.schedule.lanes, rows, columns)
            self.shared[found.name] = template_of(found)
            return found
        return DotProducts(
            element=self.cell,
            lanes=self.schedule.lanes,
            rows=rows,
            columns=columns,
            fma=self.target.has_fma,
            is_even=isinstance(depth, int) and depth % self.schedule.lanes == 0,
            a_row=_known(lhs.row_step) if rows > 1 else 0,
            b_row=_known(rhs.row_step) if columns > 1 else 0,
            c_row=_known(result.row_step) if rows > 1 else 0,
        )

    def micro_kernel(
        self, matrices: tuple[Matrix, Matrix, Matrix], rows: int, width: int
    ) -> MicroKernel:
        """Return the micro-kernel of `rows` and of `width` columns."""
        lhs, rhs, result = matrices
        lanes = self.schedule.lanes
        if width == UNKNOWN_WIDTH:
            vectors, whole = self.width(rows) // lanes, 0
        else:
            vectors, whole = -(-width // lanes), width // lanes
        mask_loads = whole < vectors and self.schedule.rhs == "direct"
        mask_stores = whole < vectors and self.schedule.store_direct
        is_across = lhs.row_step == 1 and lhs.column_step != 1
        # Single rows of panels: a convolution with one output, many positions side by side.
        is_row = rows == 1 and self.schedule.rhs == "packed" and lhs.column_step == 1
        is_common = rows in self._heights and vectors == VECTORS
        is_common = is_common or (is_row and len(self._heights) > 0)
        if is_common and (lhs.column_step == 1 or is_across):
            masked = mask_loads or mask_stores
            chosen = shared_across if is_across else shared_along
            found = chosen(self.cell, lanes, rows, vectors, masked=masked)
            if self.schedule.rhs != "direct":
                found = on_panels(found, self.schedule.columns)
            self.shared[found.name] = template_of(found)
            return found
        is_panel = self.schedule.rhs != "direct"
        panel_row_bytes = self.schedule.columns * self.cell.bytes if is_panel else None
        return MicroKernel(
            element=self.cell,
            lanes=lanes,
            rows=rows,
            vectors=vectors,
            fma=self.target.has_fma,
            logical=self.kernel.accumulate is PRED,
            a_row=_known(lhs.row_step) if rows > 1 else 0,
            a_step=_known(lhs.column_step),
            b_step=_known(rhs.row_step),
            c_row=_known(result.row_step) if rows > 1 else 0,
            accumulates=is_split(self.kernel, self.schedule.k_block),
            whole_vectors=whole,
            mask_loads=mask_loads,
            mask_stores=mask_stores,
            rows_ahead=rows_ahead(rows, panel_row_bytes),
        )


def _known(step: IndexValue) -> int | None:
    return step if isinstance(step, int) else None


@record
class Factors:
    """The operands of register blocks that belong to no contraction kernel.

    Attributes:
        accumulate: element type of the sums and of both operands.
        matrices: lhs, dense along k or m; rhs; sums.
        lanes: lanes of a vector.
        panel: the width of the panels that the rhs is packed in, None where it lies in place.
    """

    accumulate: DType
    matrices: tuple[Matrix, Matrix, Matrix]
    lanes: int
    panel: int | None


def common_micro_kernel(
    given: Factors, target: TargetSpec, rows: int, columns: int
) -> MicroKernel | None:
    """Return the library's micro-kernel of `rows` and `columns`, None if it has none.

    Columns that fill no whole vectors are masked.
    """
    lhs = given.matrices[0]
    vectors = Vectors.of(target)
    has_library = given.accumulate in ELEMENTS and target.has_fma
    is_dense = 1 in (lhs.row_step, lhs.column_step)
    if not has_library or not is_dense or vectors.bits < MIN_VECTOR_BITS:
        return None
    if rows not in heights_of(vectors) or -(-columns // given.lanes) != VECTORS:
        return None
    chosen = shared_along if lhs.column_step == 1 else shared_across
    is_masked = columns % given.lanes > 0
    found = chosen(cell_type(given.accumulate), given.lanes, rows, VECTORS, masked=is_masked)
    return found if given.panel is None else on_panels(found, given.panel)


def own_micro_kernel(given: Factors, target: TargetSpec, rows: int, columns: int) -> MicroKernel:
    """Return a micro-kernel of the module's own, with its known strides as constants.

    Args:
        given: where operands and sums lie.
        target: the machine; without FMA products are rounded before they are added.
        rows: rows of the block of sums.
        columns: columns of it; the last vector is masked if they do not fill it.
    """
    lhs, rhs, sums = given.matrices
    cell = cell_type(given.accumulate)
    is_masked = columns % given.lanes > 0
    panel_bytes = None if given.panel is None else given.panel * cell.bytes
    return MicroKernel(
        element=cell,
        lanes=given.lanes,
        rows=rows,
        vectors=-(-columns // given.lanes),
        fma=target.has_fma,
        logical=False,
        a_row=_known(lhs.row_step) if rows > 1 else 0,
        a_step=_known(lhs.column_step),
        b_step=_known(rhs.row_step),
        c_row=_known(sums.row_step) if rows > 1 else 0,
        accumulates=True,
        whole_vectors=columns // given.lanes,
        mask_loads=is_masked,
        mask_stores=is_masked,
        rows_ahead=rows_ahead(rows, panel_bytes),
    )
