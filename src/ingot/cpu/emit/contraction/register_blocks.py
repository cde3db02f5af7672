# SPDX-License-Identifier: Apache-2.0
"""The code of register blocks: micro-kernels and dot products, as plans say (`MicroBlock`).

The library's fit all strides. A kernel's own have those that are known as constants.
"""

from __future__ import annotations

from ingot.cpu.emit.contraction.dot_products import DotProducts, shared_dots
from ingot.cpu.emit.contraction.microkernel import Matrix, MicroKernel, on_panels, shared
from ingot.cpu.emit.contraction.packing import cell_type
from ingot.cpu.emit.template import Template, template_of
from ingot.emit.values.indices import IndexValue
from ingot.hlo.dtype import PRED, DType
from ingot.kernel.contraction.micro_blocks import MicroBlock
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.index import Condition, Index
from ingot.support.records import record, replace

Matrices = tuple[Matrix, Matrix, Matrix]
"""The blocks of lhs, rhs and sums."""


@record
class RegisterBlocks:
    """The register blocks of one kernel.

    Attributes:
        f: the function that calls them.
        accumulate: element type of the sums and of both operands.
        lanes: lanes of a vector.
        panel: the width of the panels that the rhs is packed in, None where it lies in place.
        fma: whether the target fuses a product and a sum.
        shared: gathers the library code that is called.
        accumulates: whether sums may go on from those in memory.
        in_rows: whether no sums may be written behind the last column.
    """

    f: FunctionBuilder
    accumulate: DType
    lanes: int
    panel: int | None
    fma: bool
    shared: dict[str, Template]
    accumulates: bool = True
    in_rows: bool = True

    def multiply(
        self,
        block: MicroBlock,
        matrices: Matrices,
        depth: Index,
        goes_on: Condition,
        columns: Index,
    ) -> None:
        """Call the micro-kernel of a block; see `MicroKernel.call`."""
        found = self._micro_kernel(block, matrices)
        if block.is_shared:
            self.shared[found.name] = template_of(found)
        found.call(self.f, matrices, depth, goes_on, columns)

    def _micro_kernel(self, block: MicroBlock, matrices: Matrices) -> MicroKernel:
        lhs, rhs, sums = matrices
        cell, whole = cell_type(self.accumulate), block.columns // self.lanes
        is_partial = whole < block.vectors
        mask_loads = is_partial and self.panel is None
        mask_stores = is_partial and self.in_rows
        if block.is_shared:
            common = shared(cell, self.lanes, block, masked=mask_loads or mask_stores)
            is_along = lhs.column_step == 1
            common = replace(common, **({"a_step": 1} if is_along else {"a_row": 1}))
            return common if self.panel is None else on_panels(common, self.panel)
        return MicroKernel(
            element=cell,
            lanes=self.lanes,
            block=block,
            fma=self.fma,
            logical=self.accumulate is PRED,
            a_row=_known(lhs.row_step) if block.rows > 1 else 0,
            a_step=_known(lhs.column_step),
            b_step=_known(rhs.row_step),
            c_row=_known(sums.row_step) if block.rows > 1 else 0,
            accumulates=self.accumulates,
            whole_vectors=whole,
            mask_loads=mask_loads,
            mask_stores=mask_stores,
        )

    def dot_products(
        self,
        block: MicroBlock,
        matrices: Matrices,
        depth: Index,
        *,
        is_even: bool,
    ) -> None:
        """Call the dot products of a block; `is_even`: lanes divide the depth."""
        lhs, rhs, sums = matrices
        cell, rows, columns = cell_type(self.accumulate), block.rows, block.columns
        if block.is_shared:
            found = shared_dots(cell, self.lanes, rows, columns)
            self.shared[found.name] = template_of(found)
        else:
            found = DotProducts(
                element=cell,
                lanes=self.lanes,
                rows=rows,
                columns=columns,
                fma=self.fma,
                is_even=is_even,
                a_row=_known(lhs.row_step) if rows > 1 else 0,
                b_row=_known(rhs.row_step) if columns > 1 else 0,
                c_row=_known(sums.row_step) if rows > 1 else 0,
            )
        steps = (lhs.row_step, rhs.row_step, sums.row_step)
        found.call(self.f, (lhs.address, rhs.address, sums.address), depth, steps)


def _known(step: IndexValue) -> int | None:
    return step if isinstance(step, int) else None
